package sim

import (
	"bytes"
	"path"

	"google.golang.org/protobuf/proto"

	auditactor "lockstep/actors/audit"
	"lockstep/actors/conn"
	"lockstep/actors/grants"
	"lockstep/core/access"
	"lockstep/core/paths"
	"lockstep/core/record"
	"lockstep/messages"
)

// userMutations are bugs of what decides who may do what, and of what says who has done it.
var userMutations = []Mutation{
	{"all-operate", "each account that reaches a socket has the role operate", Mutations{Alter: grantsToAll}},
	{"any-owner", "the queue takes all jobs for the jobs of who gives an order", Mutations{Alter: hidesOwners}},
	{"believed-claims", "a request that says who has sent it is believed", Mutations{Alter: believesClaims}},
	{"lost-submitters", "the submitters of jobs are not written", Mutations{Alter: losesSubmitters}},
	{"daemons-commands", "all commands run as the daemon's user", Mutations{Alter: runsAsDaemon}},
	{"misattributed", "entries of the audit log name the daemon's user", Mutations{Alter: misattributes}},
	{"unaudited-refusals", "the audit log shows refused requests as if they had been done", Mutations{Alter: hidesRefusals}},
}

// grantsToAll gives each group of the simulated machines a role.
func grantsToAll(_ string, m any) any {
	changed, is := m.(*grants.Changed)
	if !is {
		return m
	}
	g := changed.Grants
	for _, a := range userAccounts {
		if with, _, err := g.Add(access.Operate, "user:"+a.name); err == nil {
			g = with
		}
	}
	return &grants.Changed{Grants: g, Number: changed.Number}
}

func hidesOwners(_ string, m any) any {
	switch m := m.(type) {
	case *messages.OrderJob:
		m = proto.CloneOf(m)
		m.OnlyOf = ""
		return m
	case *messages.OrderJobs:
		m = proto.CloneOf(m)
		m.OnlyOf = ""
		return m
	}
	return m
}

// believesClaims takes each client for a node that forwards requests.
func believesClaims(_ string, m any) any {
	received, is := m.(*conn.Received)
	if !is || received.From.Program != "" || !bytes.Contains(received.Frame, []byte(`"from"`)) {
		return m
	}
	believed := *received
	believed.Forwarded = true
	return &believed
}

// losesSubmitters removes the submitters from the commits of submissions.
func losesSubmitters(_ string, m any) any {
	request, is := m.(*messages.AccessStore)
	if !is || len(request.GetWrite().GetFiles()) == 0 {
		return m
	}
	request = proto.CloneOf(request)
	for _, f := range request.GetWrite().Files {
		_, isRecord := paths.ParseRecordName(path.Base(f.Path))
		if r, err := record.Decode(f.Content); isRecord && err == nil && f.Op == "submit-record" && len(r.Submitter()) > 0 {
			f.Content = bytes.ReplaceAll(f.Content, []byte(`"submitter"`), []byte(`"unknown_key"`))
		}
	}
	return request
}

// runsAsDaemon starts jobs without saying as whom their commands run.
func runsAsDaemon(_ string, m any) any {
	start, is := m.(*messages.StartJob)
	if !is || len(start.RunAs) == 0 {
		return m
	}
	start = proto.CloneOf(start)
	start.RunAs = nil
	return start
}

func misattributes(_ string, m any) any {
	entry, is := m.(*auditactor.Record)
	if !is {
		return m
	}
	changed := *entry
	changed.Entry.User, changed.Entry.Key = daemonAccount.name, daemonAccount.key()
	return &changed
}

func hidesRefusals(_ string, m any) any {
	entry, is := m.(*auditactor.Record)
	if !is {
		return m
	}
	changed := *entry
	changed.Entry.Refused = ""
	return &changed
}

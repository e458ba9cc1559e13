package filters

import (
	"errors"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/core/filter"
	"lockstep/core/job"
	"lockstep/messages"
)

// ownSource is where the entry comes from that the daemon appends to the reason
// trail of a rule (queue.md 5.2).
const ownSource = "luxid"

// errNoUUID: gateways name new rules, so that to ask twice makes one.
var errNoUUID = errors.New("a filter rule needs a uuid")

// change is a change of the rules that a client waits for: first the watermark is
// asked for, then the configuration is changed.
type change struct {
	sender       *actor.PID
	request      uint64 // the client's
	uuid         string
	by           string // who asks, "" if that is not known
	rule         filter.Rule
	awaitsSerial bool // the watermark is asked for
}

func (f *filters) change(ctx actor.Context, sender *actor.PID, m *messages.ChangeFilter) {
	if parts := m.GetReplace(); parts != nil {
		f.replace(ctx, sender, m, parts)
		return
	}
	f.edit(ctx, &change{sender: sender, request: m.Request, uuid: m.GetDelete(), by: m.By}, nil)
}

func (f *filters) replace(ctx actor.Context, sender *actor.PID, m *messages.ChangeFilter, parts *messages.FilterParts) {
	request := filter.ReplaceRequest{UUID: parts.Uuid, Priority: parts.Priority, Predicates: parts.Predicates, Action: parts.Action, Reason: parts.Reason}
	rule, err := request.Rule()
	if err != nil {
		ctx.Send(sender, &messages.ChangeFilterResult{Request: m.Request, Failure: messages.Generic(err), Malformed: malformed(err)})
		return
	}
	if rule.UUID == "" {
		ctx.Send(sender, &messages.ChangeFilterResult{Request: m.Request, Failure: messages.Generic(errNoUUID), Malformed: true})
		return
	}
	if m.By != "" {
		rule.ReasonTrail = slices.DeleteFunc(rule.ReasonTrail, func(r filter.Reason) bool { return r.Source == job.UserSource })
		rule.ReasonTrail = append(rule.ReasonTrail, filter.Reason{Source: job.UserSource, Text: m.By, Nanos: f.config.Env.Clock().Now().UnixNano()})
	}
	rule.ReasonTrail = append(rule.ReasonTrail, filter.Reason{Source: ownSource, Nanos: f.config.Env.Clock().Now().UnixNano()})
	f.request++
	f.changes[f.request] = &change{sender: sender, request: m.Request, uuid: rule.UUID, by: m.By, rule: rule, awaitsSerial: true}
	ctx.Request(f.config.Queue, &messages.GetSerial{Request: f.request})
}

// requestSerials asks again what a queue that has restarted may not have answered.
func (f *filters) requestSerials(ctx actor.Context) {
	for _, request := range slices.Sorted(maps.Keys(f.changes)) {
		if f.changes[request].awaitsSerial {
			ctx.Request(f.config.Queue, &messages.GetSerial{Request: request})
		}
	}
}

// serialKnown: jobs that exist now are at or below the watermark.
func (f *filters) serialKnown(ctx actor.Context, m *messages.GetSerialResult) {
	c := f.changes[m.Request]
	if c == nil || !c.awaitsSerial {
		return
	}
	delete(f.changes, m.Request)
	if f.rules != nil {
		if err := f.rules.CheckBudget(&c.rule); err != nil {
			ctx.Send(c.sender, &messages.ChangeFilterResult{Request: c.request, Failure: messages.Generic(err), Malformed: malformed(err)})
			return
		}
	}
	c.rule.Watermark, c.awaitsSerial = job.ID(m.Serial), false
	f.edit(ctx, c, filter.Encode(&c.rule))
}

// edit has the configuration changed; without a rule the one of that name is
// deleted.
func (f *filters) edit(ctx actor.Context, c *change, rule []byte) {
	f.request++
	f.changes[f.request] = c
	ctx.Request(f.config.ClusterConfig, &messages.EditConfig{Request: f.request, Filter: c.uuid, Rule: rule})
}

// written: the rules are in force, for ConfigPublished has come before.
func (f *filters) written(ctx actor.Context, m *messages.EditConfigResult) {
	if c := f.changes[m.Request]; c != nil {
		delete(f.changes, m.Request)
		if c.by != "" && m.Failure == nil {
			f.config.Env.Log().WithFields(logrus.Fields{"rule": c.uuid, "deleted": c.rule.UUID == "", "by": c.by}).Info("filter rule changed")
		}
		answer := &messages.ChangeFilterResult{Request: c.request, Uuid: c.uuid, Failure: m.Failure}
		if m.Failure == nil {
			answer.Matches, answer.LowestJobs = f.matches(c.uuid)
		}
		ctx.Send(c.sender, answer)
	}
}

// matchesShown is how many jobs that a rule decides about are named.
const matchesShown = 20

// matches counts the jobs that a rule decides about, and returns the lowest of their ids.
func (f *filters) matches(rule string) (count int64, lowest []int64) {
	for id, evaluated := range f.jobs {
		if evaluated.verdict != nil && evaluated.verdict.Rule == rule {
			lowest = append(lowest, id)
		}
	}
	slices.Sort(lowest)
	return int64(len(lowest)), lowest[:min(len(lowest), matchesShown)]
}

package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/calendar"
	"lockstep/actors/jobs"
	"lockstep/core/access"
	"lockstep/core/jobproc"
	"lockstep/core/schedule"
)

// account is an account of the simulated machines, as which a client works.
type account struct {
	name   string
	uid    int
	gids   []int
	groups []string
}

// The group of the sockets, whose members have the role submit.
const (
	socketGroup = "lockstep"
	socketGID   = 50
)

// The accounts of the machines. The daemons run as the first, which is that of all clients that say no other.
var (
	daemonAccount = &account{name: simDaemonUser.Name, uid: simDaemonUser.UID}
	alice         = &account{"alice", 2001, []int{socketGID}, []string{socketGroup}}
	bob           = &account{"bob", 2002, []int{socketGID, 61}, []string{socketGroup, "dba"}}
	olga          = &account{"olga", 2003, []int{60}, []string{"ops"}}
	rita          = &account{"rita", 2004, nil, nil}
	adam          = &account{"adam", 2005, nil, nil}
	guest         = &account{"gus", 2006, []int{70}, []string{"guests"}}

	userAccounts = []*account{alice, bob, olga, rita, adam, guest}
)

// key is how the audit log and permissions name the account.
func (a *account) key() string { return fmt.Sprintf("uid=%d", a.uid) }

// by is how the socket describes a process of the account.
func (a *account) by() string { return fmt.Sprintf("uid=%d(%s), pid=1", a.uid, a.name) }

// identity is what the socket knows of a process of the account.
func (a *account) identity() access.Identity {
	return access.Identity{UID: a.uid, Name: a.name, GIDs: slices.Clone(a.gids), Groups: slices.Clone(a.groups), Login: access.NoUID}
}

// submitter is what the record of a job must say of the account: nothing of the daemon's.
func (a *account) submitter() string {
	if a == daemonAccount {
		return ""
	}
	return fmt.Sprintf("%s with the uid %d", a.name, a.uid)
}

// submitterIn is what a record says of the submitter, in the words of account.submitter. It reads the record with code of its own.
func submitterIn(content []byte) string {
	var r struct {
		Submitter *struct {
			UID    int
			Name   string
			Remote string
		}
	}
	switch err := json.Unmarshal(content, &r); {
	case len(content) > 0 && err != nil:
		return "what cannot be read"
	case r.Submitter == nil:
		return ""
	}
	return fmt.Sprintf("%s with the uid %d", r.Submitter.Name+r.Submitter.Remote, r.Submitter.UID)
}

// accounts is the port to the accounts of the users of one daemon: every user has one.
type accounts struct{ daemon *daemon }

var _ jobs.Accounts = accounts{}

// Find answers with an account for each user.
func (a accounts) Find(question uint64, users []jobproc.User, to *actor.PID) {
	found := &jobs.AccountsFound{Question: question}
	for _, user := range users {
		account := &jobproc.Account{Name: user.String(), UID: user.UID, GID: user.UID, Groups: []int{user.UID}, Home: "/"}
		found.Answers = append(found.Answers, jobproc.AccountAnswer{User: user, Account: account})
	}
	a.daemon.env.System().Root.Send(to, found)
}

// FindOwner answers with the identity of a user.
func (a accounts) FindOwner(question uint64, user schedule.Owner, to *actor.PID) {
	found := &calendar.OwnerFound{Question: question, Identity: access.Identity{UID: user.UID, Login: access.NoUID, Name: user.Name}}
	for _, known := range userAccounts {
		if known.uid == user.UID {
			found.Identity = known.identity()
		}
	}
	a.daemon.env.System().Root.Send(to, found)
}

// accountOf is the account that a gateway describes, as the record of a job keeps it; nil: none of the machines.
func accountOf(by string) *account {
	for _, a := range append([]*account{daemonAccount}, userAccounts...) {
		if rest, is := strings.CutPrefix(by, a.by()); is && (rest == "" || strings.HasPrefix(rest, ", node=")) {
			return a
		}
	}
	return nil
}

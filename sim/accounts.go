package sim

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/jobs"
	"lockstep/core/jobproc"
)

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

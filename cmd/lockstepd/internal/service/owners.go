package service

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/calendar"
	"lockstep/core/access"
	"lockstep/core/jobproc"
	"lockstep/core/schedule"
	"lockstep/edge/getent"
	"lockstep/edge/login"
)

// accounts is the port to the users of this node: its accounts, and the users of the remote API.
type accounts struct {
	*getent.Users
	system *actor.ActorSystem
	logins *login.Logins
}

// newAccounts returns the accounts of the node. usersFile has the users of the remote API, which itself logs what is wrong with the file.
func newAccounts(system *actor.ActorSystem, users *getent.Users, usersFile string) *accounts {
	silent := logrus.New()
	silent.SetOutput(io.Discard)
	logins := login.New(usersFile, silent)
	logins.UseAccounts(users.FindAccount)
	return &accounts{users, system, logins}
}

// FindOwner answers `to` with calendar.OwnerFound.
func (a *accounts) FindOwner(question uint64, owner schedule.Owner, to *actor.PID) {
	go func() {
		found := a.owner(owner)
		found.Question = question
		a.system.Root.Send(to, found)
	}()
}

// owner is what the node says of an owner now. A user of the remote API has the role that the users file gives, and runs nothing if it
// names another account than when the schedule was defined.
func (a *accounts) owner(owner schedule.Owner) *calendar.OwnerFound {
	found := &calendar.OwnerFound{Identity: access.Unknown()}
	if owner.UID != access.NoUID {
		found = a.Owner(jobproc.User{UID: owner.UID, Name: owner.Name})
	}
	if owner.Remote == "" || found.Refusal+found.Unanswered != "" {
		return found
	}
	user, known, err := a.logins.Lookup(owner.Remote)
	if err != nil {
		return &calendar.OwnerFound{Unanswered: fmt.Sprintf("the users file of the remote API cannot be read: %v", err)}
	}
	if !known {
		return &calendar.OwnerFound{Refusal: fmt.Sprintf("%s is no user of the remote API of this node", owner.Remote)}
	}
	now, err := a.logins.Submitter(context.Background(), user)
	var account *login.AccountError
	switch {
	case errors.As(err, &account) && account.Temporary():
		return &calendar.OwnerFound{Unanswered: account.Error()}
	case err != nil:
		return &calendar.OwnerFound{Refusal: err.Error()}
	case now.UID != owner.UID:
		return &calendar.OwnerFound{Refusal: fmt.Sprintf("the users file gives %s another account than when it was defined", owner.Remote)}
	}
	found.Identity.UID, found.Identity.Login, found.Identity.Remote, found.Identity.Role = owner.UID, access.NoUID, now.Remote, now.Role
	return found
}

package jobproc

import (
	"encoding/json"
	"fmt"
	"slices"

	"lockstep/core/job"
)

// User is a user of the node as whom commands run, as it is known before the node is asked for the account. The daemon's own user is not
// described by a User, but by its absence.
type User struct {
	UID  int    `json:"uid"`            // NoUID: only the name is known
	Name string `json:"name,omitempty"` // "": only the number is known
}

// NoUID is the uid of a User of whom only the name is known.
const NoUID = -1

// UIDMax is the highest uid and gid of an account. The next number stands for "none" in system calls.
const UIDMax = 1<<32 - 2

// String names the user for people: alice, or uid 1000.
func (u User) String() string {
	if u.Name == "" {
		return fmt.Sprintf("uid %d", u.UID)
	}
	return u.Name
}

// Account is what the node says of a user, as far as its commands need it.
type Account struct {
	Name   string `json:"name"`
	UID    int    `json:"uid"`
	GID    int    `json:"gid"`
	Groups []int  `json:"groups"` // all of them, with GID
	Home   string `json:"home"`
	Shell  string `json:"shell"`
}

// Refusal says why an account is not that of a user whom a job names; "": it is.
func (u User) Refusal(a Account) string {
	switch {
	case a.UID < 0 || a.UID > UIDMax || a.GID < 0 || a.GID > UIDMax:
		return fmt.Sprintf("the account of %s has the uid %d and the gid %d, which are no numbers of an account", u, a.UID, a.GID)
	case u.Name != "" && a.Name != u.Name:
		return u.NoAccount()
	case u.Name == "" && a.UID != u.UID:
		return u.NoAccount()
	case u.UID != NoUID && a.UID != u.UID:
		return fmt.Sprintf("%s had the uid %d when the job was submitted, and has the uid %d now", u.Name, u.UID, a.UID)
	}
	return ""
}

// NoAccount says that there is no such user.
func (u User) NoAccount() string {
	if u.Name != "" && u.UID != NoUID {
		return fmt.Sprintf("there is no user %s (uid %d) on this node", u.Name, u.UID)
	}
	if u.Name == "" {
		return fmt.Sprintf("there is no user with the uid %d on this node", u.UID)
	}
	return fmt.Sprintf("there is no user %s on this node", u.Name)
}

// AccountAnswer is what the node says of a user: an account, or why the user has none.
type AccountAnswer struct {
	User    User
	Account *Account // nil: see Refusal
	Refusal string   // why no command may run as the user
}

// WithAccounts completes launch specs: an opcode that names a user gets the account, or the refusal as its result. The launch specs are
// those of a job, encoded; answers has an entry for each user that they name.
func WithAccounts(launchSpecs []byte, answers []AccountAnswer) []byte {
	var specs []*LaunchSpec
	if err := json.Unmarshal(launchSpecs, &specs); err != nil {
		panic(fmt.Errorf("the launch specs of a job: %w", err)) // the queue has encoded them
	}
	for _, spec := range specs {
		if spec == nil || spec.RunAs == nil {
			continue
		}
		i := slices.IndexFunc(answers, func(a AccountAnswer) bool { return a.User == *spec.RunAs })
		switch {
		case i < 0: // the process refuses an opcode without the account
		case answers[i].Account != nil:
			spec.Account = answers[i].Account
		default:
			spec.FailureResult, spec.Secrets, spec.Command = job.ErrorResult("OpPrereqError", answers[i].Refusal, "unknown_entity"), nil, nil
		}
	}
	data, err := json.Marshal(specs)
	if err != nil {
		panic(fmt.Errorf("the launch specs of a job cannot be encoded: %w", err))
	}
	return data
}

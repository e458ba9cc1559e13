// Package runas decides as which user of the node the command of an opcode runs (docs/operating.md "As whom do commands run?"). It is pure.
package runas

import (
	"errors"
	"fmt"

	"lockstep/core/access"
	"lockstep/core/jobproc"
	"lockstep/core/opcode"
)

// Policy is what the daemon's user and flags say. The zero Policy is that of root's daemon with --run-as submitter.
type Policy struct {
	DaemonUID int
	AsDaemon  bool // all commands run as the daemon, except of opcodes whose declaration names another user
}

// daemonsName is how a declaration may name the user of root's daemon.
const daemonsName = "root"

// Of decides as whom the command of an opcode runs. submitter is that of the job's record, nil without one, and declared is
// opcode.Opcode.RunAs. A nil user is the daemon's. The error, for people, says why no user may run it.
//
//	daemon    --run-as    declared      submitter             runs as
//	any       any         ""            any                   the daemon
//	root      any         root          any                   the daemon
//	root      any         another name  any                   that account
//	not root  any         a name        any                   no user: only root can become another user
//	not root  any         submitter     any                   the daemon
//	root      daemon      submitter     any                   the daemon
//	root      submitter   submitter     none                  the daemon
//	root      submitter   submitter     the daemon's uid      the daemon
//	root      submitter   submitter     another uid           the account with that uid and name
//	root      submitter   submitter     no uid                no user: a user of the remote API without account, or a damaged record
//	root      submitter   submitter     unreadable            no user
//
// A submitter without uid does not run as the daemon, although only an administrator may submit the command of one: the record alone does
// not show that. The door of such an administrator submits with the daemon's uid.
func (p Policy) Of(declared string, submitter []byte) (*jobproc.User, error) {
	switch {
	case declared == "":
		return nil, nil //nolint:nilnil // the daemon's user
	case declared == opcode.AsSubmitter:
		return p.submitter(submitter)
	case p.DaemonUID != 0:
		return nil, fmt.Errorf("its declaration says user: %s, and only the daemon of root can run commands as another user", declared)
	case declared == daemonsName:
		return nil, nil //nolint:nilnil // as above
	default:
		return &jobproc.User{UID: jobproc.NoUID, Name: declared}, nil
	}
}

func (p Policy) submitter(encoded []byte) (*jobproc.User, error) {
	if p.AsDaemon || p.DaemonUID != 0 || len(encoded) == 0 {
		return nil, nil //nolint:nilnil // as above
	}
	s, err := access.DecodeSubmitter(encoded, access.Submitter{})
	switch {
	case err != nil:
		return nil, errors.New("the record of the job does not say who has submitted it, so its commands run as no user")
	case s.UID == p.DaemonUID:
		return nil, nil //nolint:nilnil // as above
	case s.UID == access.NoUID && s.Remote != "":
		return nil, fmt.Errorf("%s has no account on the nodes, so its commands run as no user: as= in the users file names one", s)
	case s.UID == access.NoUID:
		return nil, errors.New("it is not known who has submitted the job, so its commands run as no user")
	case s.UID < 0 || s.UID > jobproc.UIDMax:
		return nil, fmt.Errorf("the submitter of the job has the uid %d, which is no number of an account", s.UID)
	default:
		return &jobproc.User{UID: s.UID, Name: s.Name}, nil
	}
}

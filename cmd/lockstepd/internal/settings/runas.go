package settings

import (
	"flag"
	"fmt"

	"lockstep/core/runas"
)

// runAsFlag is the flag that says as whom commands run.
const runAsFlag = "run-as"

// Values of that flag.
const (
	runAsSubmitter = "submitter"
	runAsDaemon    = "daemon"
)

// RunAs says as whom the commands of jobs run.
type RunAs struct {
	value string // as the operator has written it; "": the default
	// Policy is what follows from it and the daemon's user.
	Policy runas.Policy
	// MembersAreRoot: the daemon is root's, and runs the commands of all users as root.
	MembersAreRoot bool
}

// OpensRunDir reports whether commands may run as other users, who reach their pipes in the run directory.
func (r *RunAs) OpensRunDir() bool { return r.Policy == runas.Policy{} }

func (r *RunAs) flags(flags *flag.FlagSet) {
	flags.StringVar(&r.value, runAsFlag, "",
		"`user` as whom the commands of jobs run: submitter, or daemon, which gives all who may submit jobs the rights of the daemon's user; "+
			"only root's daemon can run them as the submitter (default: submitter for root's daemon, else daemon)")
}

// apply checks the flag and sets the policy. uid is the daemon's user.
func (r *RunAs) apply(uid int, ganeti bool, socketGroup string) error {
	switch {
	case r.value != "" && r.value != runAsSubmitter && r.value != runAsDaemon:
		return fmt.Errorf("%s: %q is neither %s nor %s", runAsFlag, r.value, runAsSubmitter, runAsDaemon)
	case ganeti && r.value == runAsSubmitter:
		return fmt.Errorf("%s: it cannot be %s with %s: commands run as the user of Ganeti's daemons", runAsFlag, r.value, GanetiFlag)
	case uid != 0 && r.value == runAsSubmitter:
		return fmt.Errorf("%s: only root's daemon can run commands as their submitter, and this daemon has the uid %d", runAsFlag, uid)
	case uid != 0 && socketGroup != "" && r.value == "":
		return fmt.Errorf("socket-group: this daemon, which is not root's, would run the commands of the group's members as itself, uid %d: "+
			"allow that with %s %s", uid, runAsFlag, runAsDaemon)
	}
	r.Policy = runas.Policy{DaemonUID: uid, AsDaemon: ganeti || uid != 0 || r.value == runAsDaemon}
	r.MembersAreRoot = uid == 0 && !ganeti && r.value == runAsDaemon
	return nil
}

package process

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"lockstep/edge/cgroup"
	"lockstep/edge/reaper"
)

// DropJobMarker executes the program again, in the same process, without the marker of a job in
// its environment. A daemon that a job's command has started has the marker. The reaper would
// find it by the marker, with all its job processes, and kill it with the orphans of that job.
// Unsetting the variable does not help: the kernel shows the environment with which the process
// was started. It also leaves the control group of the command, all of whose processes are killed.
func DropJobMarker() error {
	marker, marked := os.LookupEnv(reaper.EnvName)
	if !marked {
		return nil
	}
	if err := cgroup.Leave(marker); err != nil {
		fmt.Fprintf(os.Stderr, "lockstepd: %v; it ends together with that job\n", err)
	}
	if err := os.Unsetenv(reaper.EnvName); err != nil {
		return err
	}
	program, err := os.Executable()
	if err == nil {
		err = unix.Exec(program, os.Args, os.Environ())
	}
	return fmt.Errorf("the daemon was started by a job, and cannot be executed again without %s in its environment: %w", reaper.EnvName, err)
}

package process

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"lockstep/edge/reaper"
)

// DropJobMarker executes the program again, in the same process, without the marker of a job in
// its environment. A daemon that a job's command has started has the marker. The reaper would
// find it by the marker, with all its job processes, and kill it with the orphans of that job.
// Unsetting the variable does not help: the kernel shows the environment with which the process
// was started.
func DropJobMarker() error {
	if _, marked := os.LookupEnv(reaper.EnvName); !marked {
		return nil
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

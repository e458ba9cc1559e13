package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"lockstep/edge/reaper"
)

// dropJobMarker executes the program again, in the same process, without the marker of a
// job in its environment. A daemon that the command of a job has started has it, and is
// found by it, with all of its job processes, when that job's leftovers are killed; the
// kernel shows the environment that a process was started with, whatever it has set
// since.
func dropJobMarker() error {
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
	return fmt.Errorf("the daemon was started by a job, and cannot be started anew without %s in its environment: %w", reaper.EnvName, err)
}

// Command lockstepd is the daemon: it runs the job queue of one node.
//
// It owns the data directory and the run directory while it runs, by locks on both. It opens
// the sockets and the remote API, starts the actor tree with real ports, and, on a node of a
// cluster, the consensus log and the port for other nodes. SIGTERM stops it in order, SIGHUP
// reloads the declared opcodes.
//
// Jobs, locks and configuration are on the disk and survive its crash. Job processes
// outlive it, and the next daemon adopts them.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"lockstep/cmd/lockstepd/internal/faces"
	"lockstep/cmd/lockstepd/internal/process"
	"lockstep/cmd/lockstepd/internal/settings"
)

func main() {
	if name := filepath.Base(os.Args[0]); faces.Known(name) {
		os.Exit(faces.Run(name, os.Args[1:], os.Stdout, os.Stderr, runLocked))
	}
	config, err := settings.Parse(os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil:
		fmt.Fprintf(os.Stderr, "lockstepd: %v\n", err)
		os.Exit(2)
	}
	status := 0
	if os.Getpid() == 1 {
		status, err = process.RunAsInit()
	} else {
		err = run(config)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "lockstepd: %v\n", err)
		os.Exit(1)
	}
	os.Exit(status)
}

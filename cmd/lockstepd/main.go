// lockstepd is the daemon: the job queue of one node.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	config, err := parseConfig(os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil:
		fmt.Fprintf(os.Stderr, "lockstepd: %v\n", err)
		os.Exit(2)
	}
	status := 0
	if os.Getpid() == 1 {
		status, err = runAsInit()
	} else {
		err = run(config)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "lockstepd: %v\n", err)
		os.Exit(1)
	}
	os.Exit(status)
}

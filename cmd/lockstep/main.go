// Command lockstep is the command line of the job queue: it runs commands as jobs,
// submits, lists, shows, follows, cancels and archives them, and says how the queue
// stands. It talks to lockstepd over its LUXI socket and holds no state of its own.
//
// Exit codes: 0 success, 1 failure, 2 wrong usage; `run` has the exit status of the
// command it ran, see cmd_run.go.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], processStreams()))
}

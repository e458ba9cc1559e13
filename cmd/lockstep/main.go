// Command lockstep is the command line of the job queue: it runs commands as jobs,
// submits, lists, shows, follows, cancels and archives them, and says how the queue
// stands. It talks to lockstepd over its LUXI socket and holds no state of its own.
//
// Exit codes: 0 success, 1 failure, 2 wrong usage; `run` has the exit status of the
// command it ran, see package submit.
package main

import (
	"context"
	"os"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/command"
)

func main() {
	os.Exit(command.Run(context.Background(), os.Args[1:], cli.ProcessStreams()))
}

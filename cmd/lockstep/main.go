// Command lockstep is the command line of the job queue: it runs commands as jobs, submits, lists,
// shows, follows, cancels and archives jobs, and shows the state of the queue. It talks to
// lockstepd over its LUXI socket and keeps no state.
//
// Exit codes: 0 success, 1 failure, 2 wrong usage; `run` exits with the status of its command, see
// package submit.
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

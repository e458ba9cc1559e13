package cli

import (
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/term"

	"lockstep/cmd/internal/buildinfo"
	"lockstep/cmd/lockstep/internal/client"
)

// Streams is what a command sees of the process it runs in: its three streams and
// what is known of them, the clock, the environment and the interrupts. Tests give
// their own.
type Streams struct {
	In  io.Reader
	Out io.Writer // results: tables, output of jobs, JSON
	Err io.Writer // errors, notices, progress

	InTerminal, OutTerminal, ErrTerminal bool

	Width int // columns of the terminal behind Out; 0: none, or unknown

	LookupEnv func(name string) (string, bool)

	// Now gives the time in the zone that times are shown in.
	Now func() time.Time
	// After is time.After.
	After func(time.Duration) <-chan time.Time

	// Build is that of this program.
	Build buildinfo.Build

	// RequestName gives a new name for a submission.
	RequestName func() string

	// Interrupts takes SIGINT and SIGTERM over from the runtime, which would
	// end the process, until release is called; and more, where they are not ignored.
	Interrupts func(more ...os.Signal) (signals <-chan os.Signal, release func())
}

// ProcessStreams are the streams of this process.
func ProcessStreams() Streams {
	streams := Streams{
		In:          os.Stdin,
		Out:         os.Stdout,
		Err:         os.Stderr,
		InTerminal:  term.IsTerminal(int(os.Stdin.Fd())),
		OutTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		ErrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		LookupEnv:   os.LookupEnv,
		Now:         time.Now,
		After:       time.After,
		Build:       buildinfo.Read(),
		RequestName: client.NewRequestName,
		Interrupts:  processInterrupts,
	}
	if streams.OutTerminal {
		if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
			streams.Width = width
		}
	}
	return streams
}

func processInterrupts(more ...os.Signal) (<-chan os.Signal, func()) {
	// Two: the second one while the first is being handled means "now".
	signals := make(chan os.Signal, 2)
	more = slices.DeleteFunc(more, signal.Ignored) // nohup
	signal.Notify(signals, append(more, os.Interrupt, syscall.SIGTERM)...)
	return signals, func() { signal.Stop(signals) }
}

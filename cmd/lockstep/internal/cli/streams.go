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

// Streams is the process environment of a command: the three streams and their properties, the
// clock, the environment variables and the signals. Tests replace it.
type Streams struct {
	In  io.Reader
	Out io.Writer // results: tables, output of jobs, JSON
	Err io.Writer // errors, notices, progress

	InTerminal, OutTerminal, ErrTerminal bool

	Width int // columns of the terminal behind Out; 0: none, or unknown

	LookupEnv func(name string) (string, bool)

	// Now is the time, in the zone of displayed times.
	Now func() time.Time
	// After is time.After.
	After func(time.Duration) <-chan time.Time

	// Build is the build of this program.
	Build buildinfo.Build

	// ReadSecret reads a line from the terminal behind In, without showing it.
	ReadSecret func() (string, error)

	// RequestName returns a new name for a submission.
	RequestName func() string

	// Interrupts delivers SIGINT and SIGTERM, which would end the process, until release is
	// called; also the signals more, except ignored ones. The receiver may put one back.
	Interrupts func(more ...os.Signal) (signals chan os.Signal, release func())
}

// ProcessStreams returns the streams of this process.
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
		ReadSecret:  readSecret,
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

func readSecret() (string, error) {
	line, err := term.ReadPassword(int(os.Stdin.Fd()))
	return string(line), err
}

func processInterrupts(more ...os.Signal) (chan os.Signal, func()) {
	// Two signals: the second may come while the first is handled, and means "at once".
	signals := make(chan os.Signal, 2)
	more = slices.DeleteFunc(more, signal.Ignored) // nohup
	signal.Notify(signals, append(more, os.Interrupt, syscall.SIGTERM)...)
	return signals, func() { signal.Stop(signals) }
}

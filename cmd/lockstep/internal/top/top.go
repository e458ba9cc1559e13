// Package top has the command top: a live view of the queue in a terminal. It owns the screen while it runs. Its data comes from the
// daemon over two connections: one waits for events, the other asks for the state after an event. The pages of details, locks and filter
// rules are the output of the commands why, log, locks and filter. Nothing is kept.
package top

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/answer"
)

// Runner runs a command of this program, and returns its exit code.
type Runner func(ctx context.Context, args []string, streams cli.Streams) int

// NewCommand is the command top.
func NewCommand(globals *cli.Globals, run Runner) *cobra.Command {
	return &cobra.Command{
		Use:   "top",
		Short: "Watch the queue live, in a terminal",
		Long: `Show the queue on the whole terminal, live: run slots, counts, the oldest wait, the
schedules and when one fires next, the master, and a table of the jobs with why they
wait. Enter shows a job with its log; ? shows all keys. It follows the master of a
cluster.

It needs a terminal. In a pipe use "lockstep list", "lockstep status" or
"lockstep events --follow".

Exit code: 0.`,
		Example: `  lockstep top`,
		Args:    cli.WantArgs(0, 0, "top takes no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			return runTop(command.Context(), globals, run)
		},
	}
}

var errNoTerminal = errors.New(`top needs a terminal; in a pipe use "lockstep list", "lockstep status" or "lockstep events --follow"`)

func runTop(ctx context.Context, globals *cli.Globals, run Runner) error {
	if !globals.Streams.OutTerminal || !globals.Streams.InTerminal {
		return errNoTerminal
	}
	if globals.JSON {
		return cli.Usagef("top has no --json; see lockstep list, status and events")
	}
	daemon := globals.Connect()
	daemon.Notice = nil
	defer daemon.Close()
	source := &source{daemon: daemon, globals: globals, run: run}
	first, err := source.read(ctx)
	if err != nil {
		return err
	}
	// It runs on the terminal itself, whose size it asks. The palette has decided about colours.
	program := tea.NewProgram(
		newModel(source, globals.Palette(), globals.Streams.Now, first),
		tea.WithColorProfile(colorprofile.TrueColor),
		tea.WithContext(ctx))
	listening, stop := context.WithCancel(ctx)
	defer stop()
	go source.listen(listening, program.Send)
	_, err = program.Run()
	if errors.Is(err, tea.ErrInterrupted) || errors.Is(err, tea.ErrProgramKilled) {
		return nil
	}
	return err
}

// source asks the daemon.
type source struct {
	globals *cli.Globals
	run     Runner

	mu     sync.Mutex // one call at a time
	daemon *client.Session
}

// state is what the table shows.
type state struct {
	status answer.QueueStatus
	jobs   []answer.ListedJob
	more   int
	why    map[int64]string
	err    error // of the last question; the rest is then as it was before
}

// Numbers of jobs in the table.
const (
	unfinishedMax = 300
	endedMax      = 100
)

func (s *source) read(ctx context.Context) (state, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var st state
	if err := s.daemon.Query(ctx, "LockstepStatus", []any{}, &st.status); err != nil {
		return st, err
	}
	var list answer.JobList
	shown := answer.JobSelection{MaxUnfinished: unfinishedMax, MaxEnded: endedMax}
	if err := s.daemon.Query(ctx, "LockstepListJobs", []any{shown}, &list); err != nil {
		return st, err
	}
	st.jobs, st.more, st.why = list.Jobs, list.More, map[int64]string{}
	var ids []int64
	for _, j := range list.Jobs {
		if !client.Final(j.Status) && j.Status != client.StatusRunning {
			ids = append(ids, j.ID)
		}
	}
	if ids == nil {
		return st, nil
	}
	var reasons []answer.PendingReason
	if err := s.daemon.Query(ctx, "LockstepPending", []any{ids}, &reasons); err != nil {
		return st, err
	}
	for _, r := range reasons {
		st.why[r.ID] = r.Text
	}
	return st, nil
}

// changed makes the model read the state again. It comes after each call for events: there are events, or none came in eventsSeconds, or
// the call has failed.
type changed struct{}

const (
	eventsSeconds = 30
	eventsPause   = 250 * time.Millisecond // at most four updates a second
	retryPause    = time.Second
)

// eventKinds are the events after which the state is read, beside those of jobs, which always come.
func eventKinds() []string {
	return []string{answer.EventLock, answer.EventFilter, answer.EventSchedule}
}

// listen sends changed after each call for events, until ctx ends, also after a failed call. It follows the master.
func (s *source) listen(ctx context.Context, send func(tea.Msg)) {
	daemon := s.daemon.Other()
	defer daemon.Close()
	for ctx.Err() == nil {
		var events answer.JobEvents
		pause := eventsPause
		if err := daemon.Query(ctx, "LockstepEvents", []any{eventsSeconds, eventKinds()}, &events); err != nil {
			pause = retryPause
		}
		send(changed{})
		select {
		case <-ctx.Done():
		case <-s.globals.Streams.After(pause):
		}
	}
}

// output is what a command of this program prints to both streams, at the same daemon, for a screen of that width.
func (s *source) output(ctx context.Context, width int, args ...string) string {
	var out bytes.Buffer
	streams := s.globals.Streams
	streams.In, streams.Out, streams.Err = strings.NewReader(""), &out, &out
	streams.InTerminal, streams.OutTerminal, streams.ErrTerminal, streams.Width = false, false, false, width
	color := "never"
	if s.globals.Palette().On {
		color = "always"
	}
	socket := []string{"--socket", s.daemon.Path, "--color", color}
	s.run(ctx, append(socket, args...), streams)
	return out.String()
}

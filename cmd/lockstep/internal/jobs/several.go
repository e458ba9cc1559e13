package jobs

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/cmd/lockstep/internal/follow"
	"lockstep/cmd/lockstep/internal/selection"
	"lockstep/core/answer"
)

// registerShown adds the flags of a selection to a command that shows jobs, and its check that jobs are given.
func registerShown(globals *cli.Globals, command *cobra.Command, chosen *selection.Flags) {
	chosen.Register(globals, command)
	command.ValidArgsFunction = completion.Jobs(globals)
	command.Args = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 && !chosen.Given() {
			return cli.Usagef("name at least one job, by its id or its name, or select jobs, for example with --name")
		}
		return nil
	}
}

// shownJobs returns the ids of the jobs that a command shows: those of its arguments, then the selected ones of the
// queue in the order of their ids.
func shownJobs(ctx context.Context, globals *cli.Globals, daemon client.Querier, chosen selection.Flags, args []string) ([]int64, error) {
	ids, err := selection.Newest(ctx, daemon, args)
	if err != nil || !chosen.Given() {
		return ids, err
	}
	wanted, err := chosen.Selection(globals.Streams.Now())
	if err != nil {
		return nil, err
	}
	list, err := selection.List(ctx, daemon, wanted)
	if err != nil {
		return nil, err
	}
	known := map[int64]bool{}
	for _, id := range ids {
		known[id] = true
	}
	for _, job := range list.Jobs {
		if !known[job.ID] {
			ids = append(ids, job.ID)
		}
	}
	return ids, nil
}

// WatchedMax bounds the number of jobs followed at once. Each has two connections.
const WatchedMax = 100

// liveOf follows a job. follows says that this client has submitted the job, so that its commands wait for it.
func liveOf(ctx context.Context, daemon *client.Session, id int64, view follow.LiveView, follows bool) *follow.Live {
	return &follow.Live{View: view, Follows: follows, After: daemon.After,
		Open: func() *follow.Stream { return follow.OpenStream(ctx, daemon, id, follows) }}
}

// oneOfSeveral is the view of one of several jobs.
type oneOfSeveral interface {
	follow.LiveView
	// Beside lets the views of other jobs, which share the lock, be called while this one asks a node for output.
	Beside(showing sync.Locker)
}

// followSeveral follows jobs to their ends, at the same time, each with its view; they are called one at a time. show takes what said
// brings of the progress of their commands; said may be nil. done is called once for each job, with the follower of the job after its end.
// The first error ends all.
func followSeveral[V oneOfSeveral](
	ctx context.Context, daemon *client.Session, views map[int64]V, follows bool,
	said <-chan []answer.ListedJob, show func([]answer.ListedJob), done func(V, *follow.Follower, string) error,
) error {
	if len(views) > WatchedMax {
		return cli.Usagef("at most %d jobs can be followed at once, not %d", WatchedMax, len(views))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var showing sync.Mutex
	results := make(chan error, len(views))
	var following sync.WaitGroup
	for id, view := range views {
		view.Beside(&showing)
		following.Go(func() {
			session := daemon.Other()
			defer session.Close()
			f := &follow.Follower{Session: session, ID: id}
			status, err := liveOf(ctx, session, id, view, follows).Follow(ctx, f, &showing)
			showing.Lock()
			defer showing.Unlock()
			if err == nil && ctx.Err() == nil {
				err = done(view, f, status)
			}
			results <- err
		})
	}
	var failed error
	for left := len(views); left > 0; {
		select {
		case jobs := <-said:
			showing.Lock()
			show(jobs)
			showing.Unlock()
		case err := <-results:
			left--
			if err != nil && failed == nil {
				failed = err
				cancel()
			}
		}
	}
	following.Wait()
	return failed
}

// prefixed are streams whose lines begin with the id of a job, for the output of several jobs.
func prefixed(streams cli.Streams, id int64) cli.Streams {
	prefix := fmt.Sprintf("%d| ", id)
	streams.Out = &prefixWriter{to: streams.Out, prefix: prefix}
	streams.Err = &prefixWriter{to: streams.Err, prefix: prefix}
	return streams
}

// lineMax bounds a line of the output of several jobs, in bytes: a longer one, or one without an end, becomes several.
const lineMax = 64 << 10

// prefixWriter writes whole lines, each with a prefix.
type prefixWriter struct {
	to     io.Writer
	prefix string
	line   []byte // without its end
}

func (w *prefixWriter) Write(data []byte) (int, error) {
	w.line = append(w.line, data...)
	for {
		line, rest, whole := bytes.Cut(w.line, []byte("\n"))
		switch {
		case len(line) > lineMax:
			line, rest = w.line[:lineMax], w.line[lineMax:]
		case !whole:
			return len(data), nil
		}
		if _, err := fmt.Fprintf(w.to, "%s%s\n", w.prefix, line); err != nil {
			return 0, err
		}
		w.line = rest
	}
}

// Flush writes a last line that has no end, and ends it.
func (w *prefixWriter) Flush() error {
	if len(w.line) == 0 {
		return nil
	}
	_, err := w.Write([]byte("\n"))
	return err
}

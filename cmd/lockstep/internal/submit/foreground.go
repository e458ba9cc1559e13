package submit

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/follow"
	"lockstep/cmd/lockstep/internal/jobs"
	"lockstep/core/access"
	"lockstep/core/answer"
	"lockstep/core/instant"
	"lockstep/core/wire"
)

// submitGrace bounds the wait of an interrupted submission for its answer: with the job's id the
// command can detach, without it the outcome is unknown.
const submitGrace = 2 * time.Second

// foregroundRun follows one submitted job: it writes output and status to the streams and handles
// signals of the terminal.
type foregroundRun struct {
	globals    *cli.Globals
	streams    cli.Streams
	interrupts chan os.Signal
	daemon     *client.Session
	quiet      bool
	partial    bool              // missing output does not change the exit code
	name       string            // of the job; "": none
	as         *access.Submitter // the account as which the command runs; nil: the caller's
	detached   bool              // the job is not followed
	start      *instant.Instant  // of the job; nil: at once
	kept       bool              // its output is kept in files, so that it need not wait for this command

	unheard bool // the daemon is of an earlier version, and cannot be told that this command follows

	id      int64
	pending os.Signal // received during the submission
	input   *bufio.Reader
	left    error               // an interrupt has ended this command while it wrote output; nil: none has
	line    follow.ProgressLine // its status, too
	last    follow.Change       // the change that the status line shows
	waiting waiting             // the zero value: the job does not wait
	follow.Views
}

// submit submits one job of one opcode. It keeps the first interrupt for follow; a second one, or submitGrace, ends the submission if it
// has no answer yet.
func (r *foregroundRun) submit(ctx context.Context, opcode any) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answered := make(chan error, 1)
	go func() { answered <- r.submitOnce(ctx, opcode) }()
	select {
	case err := <-answered:
		return err
	case r.pending = <-r.interrupts:
	}
	select {
	case err := <-answered:
		return err
	case <-r.interrupts:
	case <-r.streams.After(submitGrace):
	}
	cancel(errors.New("interrupted"))
	if err := <-answered; err != nil {
		return &cli.ExitError{Code: cli.SignalCode(r.pending), Err: err}
	}
	return nil
}

func (r *foregroundRun) submitOnce(ctx context.Context, opcode any) error {
	err := r.submitTo(ctx, opcode)
	var invalid *wire.RequestError
	if r.isAwaited() && errors.As(err, &invalid) { // a daemon of an earlier version, or a mistake in the job: nothing was submitted
		r.unheard = true
		return r.submitTo(ctx, opcode)
	}
	return err
}

func (r *foregroundRun) submitTo(ctx context.Context, opcode any) error {
	awaits := r.daemon.InJob && !r.detached
	if r.name == "" && r.as == nil && r.start == nil && !awaits && !r.isAwaited() {
		return r.daemon.Submit(ctx, "SubmitJob", []any{opcode}, &r.id)
	}
	var ids []int64
	encoded, err := cli.EncodeJSON(opcode)
	if err != nil {
		return err
	}
	job := namedJob{Ops: []json.RawMessage{encoded}, Name: r.name, Followed: r.isAwaited(), As: r.as}
	if r.start != nil {
		job.At = &r.start.At
	}
	if awaits {
		err = r.daemon.SubmitToAwait(ctx, []any{job}, &ids)
	} else {
		err = r.daemon.Submit(ctx, "LockstepSubmitJobs", []any{job}, &ids)
	}
	if err != nil {
		return err
	}
	if len(ids) != 1 {
		return fmt.Errorf("submitted a job, the daemon answered for %d", len(ids))
	}
	r.id = ids[0]
	return nil
}

// isAwaited reports whether the commands of the job wait until this command has read their output.
func (r *foregroundRun) isAwaited() bool { return !r.detached && !r.unheard && !r.kept }

// follow follows the job to its end and returns the error that carries its exit code; nil: 0. An interrupt may end it while the job
// continues.
func (r *foregroundRun) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.makeInterruptible(ctx)
	r.line = follow.ProgressLine{StatusLine: term.StatusLine{Out: r.streams.Err, On: r.streams.ErrTerminal && !r.quiet && !r.globals.JSON},
		Width: r.streams.Width, Now: r.streams.Now}
	defer r.line.Clear()
	r.Views = follow.ViewsOf(ctx, r.globals, r.daemon, r.streams, r.id)
	r.Events.Out, r.Lines.Quiet = r.streams.Out, r.quiet
	r.SetKept(r.keptInterruptible(ctx, follow.KeptOf(ctx, r.daemon, r.id), cancel))
	if r.JSON {
		r.Events.Submitted(r.daemon.Whose, atOf(r.start))
	}
	if r.pending != nil {
		if err := r.interrupted(ctx, r.pending); err != nil {
			return err
		}
	}
	await := func(ctx context.Context) error { return r.daemon.Await(ctx, []int64{r.id}) }
	switch err := r.during(ctx, await); {
	case r.left != nil:
		return r.left
	case err != nil:
		return fmt.Errorf("job %d continues, but cannot be followed: %w", r.id, err)
	}
	f := &follow.Follower{Session: r.daemon, ID: r.id}
	updates, stop := f.Updates(ctx)
	defer stop()
	live := r.live(ctx)
	defer live.Close()
	for done := false; !done; {
		select {
		case p := <-live.Pieces():
			done = live.Piece(p)
		case <-live.Timer():
			done = live.TimeIsUp()
		case p := <-live.Progress():
			live.ShowProgress(p)
		case reason := <-r.waiting.texts:
			r.sayWhy(reason)
		case signal := <-r.interrupts:
			if err := r.interrupted(ctx, signal); err != nil {
				return err
			}
		case next, open := <-live.Changes(updates):
			switch {
			case !open || next.Err != nil:
				return fmt.Errorf("job %d continues, but can no longer be followed: %w", r.id, cmp.Or(next.Err, ctx.Err()))
			case next.Notice != "":
				r.makeRoom()
				cli.PrintError(r.streams.Err, next.Notice)
				r.last = follow.Change{} // show the status again
			default:
				r.observe(ctx, next.Status)
				done = live.Change(next.Change)
			}
		}
		if r.left != nil {
			return r.left
		}
	}
	err := live.Finish(func() (entries []follow.LogEntry, err error) {
		err = r.during(ctx, func(ctx context.Context) (err error) {
			entries, err = f.Log(ctx)
			return err
		})
		return entries, err
	})
	if err != nil {
		err = fmt.Errorf("job %d has ended, but its log is unknown: %w", r.id, err)
	} else {
		err = r.finish(ctx, f)
	}
	return cmp.Or(r.left, err)
}

// live shows the job until ctx ends.
func (r *foregroundRun) live(ctx context.Context) *follow.Live {
	live := &follow.Live{View: r, Follows: r.isAwaited(), After: r.streams.After,
		Open: func() *follow.Stream { return follow.OpenStream(ctx, r.daemon, r.id, r.isAwaited()) }}
	if r.isAwaited() {
		live.Start()
	}
	if r.line.On {
		live.Ask = func() <-chan []answer.ListedJob { return follow.AskProgress(ctx, r.daemon, []int64{r.id}) }
		live.ShowProgress = func(jobs []answer.ListedJob) { r.line.Show(jobs, &r.Lines, follow.ProgressText(r.id, r.last)) }
	}
	return live
}

// ShowPiece is part of follow.LiveView.
func (r *foregroundRun) ShowPiece(p follow.Piece) {
	r.line.Clear()
	r.Views.ShowPiece(p)
}

// ShowChange is part of follow.LiveView.
func (r *foregroundRun) ShowChange(c follow.Change) {
	if r.JSON {
		r.Events.Show(c)
		return
	}
	if len(c.Entries) > 0 {
		r.line.Clear()
		r.Show(c.Entries)
	}
	if !follow.SameProgress(r.last, c) && !client.Final(c.Status) {
		if r.line.On {
			r.Lines.EndLine()
		}
		r.line.Set(follow.ProgressText(r.id, c))
	}
	r.last = c
}

// makeRoom clears the status line and ends an open line of output, before other text.
func (r *foregroundRun) makeRoom() {
	r.line.Clear()
	r.Lines.EndLine()
}

// finish reports the end of the job and returns its exit code as an error; nil: 0.
func (r *foregroundRun) finish(ctx context.Context, f *follow.Follower) error {
	var end follow.Ending
	err := r.during(ctx, func(ctx context.Context) (err error) {
		end, err = f.Ending(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("job %d has ended, but its result is unknown: %w", r.id, err)
	}
	r.line.Clear()
	r.Finish()
	code, text, lost := r.outcome(end)
	if r.JSON {
		r.Events.End(end.Status, &code, text)
		code, text, lost = r.outcome(end) // the line of the end may be missing, too
	}
	switch {
	case lost:
		return exitWith(code, errors.New(text))
	case r.JSON:
		return exitWith(code, nil)
	}
	if text == "" || r.quiet && end.Failure.OfCommand() {
		return exitWith(code, nil)
	}
	return exitWith(code, errors.New(text))
}

// outcome returns the exit code, its message or "", and whether output is missing that must not be.
func (r *foregroundRun) outcome(end follow.Ending) (code int, text string, lost bool) {
	losses := r.Losses()
	if losses != "" && !r.partial {
		return follow.ExitIncomplete, losses.Error(r.id, end.Outcome(r.id)).Error(), true
	}
	code, text = end.Exit(r.id)
	return code, text, false
}

func exitWith(code int, err error) error {
	if code == 0 {
		return nil
	}
	return &cli.ExitError{Code: code, Err: err}
}

// interrupted handles a signal: on a terminal it asks what to do, elsewhere it detaches. It
// returns nil to continue following.
func (r *foregroundRun) interrupted(ctx context.Context, signal os.Signal) error {
	r.makeRoom()
	r.last = follow.Change{} // show the status again
	return r.ask(ctx, signal)
}

// ask is interrupted, without a change of standard output.
func (r *foregroundRun) ask(ctx context.Context, signal os.Signal) error {
	if signal != os.Interrupt || !r.streams.InTerminal || !r.streams.ErrTerminal {
		return r.detach(signal)
	}
	fmt.Fprintf(r.streams.Err, "\njob %d: (d)etach, (c)ancel, (Enter) keep following? ", r.id)
	if r.left != nil {
		return r.left
	}
	select {
	case <-r.interrupts:
		fmt.Fprintln(r.streams.Err)
		return r.detach(signal)
	case answer := <-r.readLine():
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "d", "detach", endOfInput:
			return r.detach(signal)
		case "c", "cancel":
			r.cancel(ctx)
		}
		return nil
	}
}

// endOfInput stands for the end of the input; no typed line equals it.
const endOfInput = "\x00"

// readLine reads one line from the keyboard. It must not be called before the previous line has
// arrived.
func (r *foregroundRun) readLine() <-chan string {
	if r.input == nil {
		r.input = bufio.NewReader(r.streams.In)
	}
	lines := make(chan string, 1)
	go func() {
		line, err := r.input.ReadString('\n')
		if err != nil {
			line = endOfInput
		}
		lines <- line
	}()
	return lines
}

// detach returns the error that ends the command while the job continues. It has the exit code of the signal.
func (r *foregroundRun) detach(signal os.Signal) error {
	return &cli.ExitError{Code: cli.SignalCode(signal), Err: fmt.Errorf(
		`job %d continues; "lockstep watch %d" follows it, "lockstep cancel %d" cancels it`, r.id, r.id, r.id)}
}

// cancel cancels the job and kills its command, as an interrupt would. The job is still followed
// to its end.
func (r *foregroundRun) cancel(ctx context.Context) {
	daemon := r.daemon.Other() // the session waits for an answer
	defer daemon.Close()
	result, err := jobs.Cancel(ctx, daemon, r.id, true)
	switch {
	case err != nil:
		cli.PrintError(r.streams.Err, client.Explain(err))
	case !result.Done:
		cli.PrintError(r.streams.Err, fmt.Sprintf("job %d was not canceled: %s", r.id, result.Message))
	default:
		cli.PrintError(r.streams.Err, fmt.Sprintf("job %d: %s", r.id, result.Message))
	}
}

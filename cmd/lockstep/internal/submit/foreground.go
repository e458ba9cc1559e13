package submit

import (
	"bufio"
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
)

// submitGrace bounds the wait of an interrupted submission for its answer: with the job's id the
// command can detach, without it the outcome is unknown.
const submitGrace = 2 * time.Second

// foregroundRun follows one submitted job: it writes output and status to the streams and handles
// signals of the terminal.
type foregroundRun struct {
	streams    cli.Streams
	interrupts <-chan os.Signal
	daemon     *client.Session
	quiet      bool
	json       bool
	partial    bool   // missing output does not change the exit code
	name       string // of the job; "": none
	detached   bool   // the job is not followed
	kept       bool   // its output is kept in files, so that it need not wait for this command

	stream   *follow.Stream // nil: there is none, or it has ended
	lost     bool           // the stream has broken off
	final    bool           // the job has ended
	patience <-chan time.Time

	id      int64
	pending os.Signal // received during the submission
	input   *bufio.Reader
	line    term.StatusLine
	last    follow.Change // the change that the status line shows
	events  follow.EventView
	output  follow.JobOutput
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
	awaits, followed := r.daemon.InJob && !r.detached, r.followed() && !r.kept
	if r.name == "" && !awaits && !followed {
		return r.daemon.Submit(ctx, "SubmitJob", []any{opcode}, &r.id)
	}
	var ids []int64
	job := struct {
		Ops      []any  `json:"ops"`
		Name     string `json:"name,omitempty"`
		Followed bool   `json:"followed,omitempty"`
	}{[]any{opcode}, r.name, followed}
	var err error
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

// update is sent by the following goroutine: a notice for the user, a change, or the error that
// ends the updates.
type update struct {
	notice string
	follow.Change
	err error
}

// updatesOf follows in a goroutine, so that an interrupt can be handled while a call waits. stop
// returns when the goroutine no longer uses the session, which is also the case after the final
// update. Notices of the session become updates, so that only one goroutine writes.
func updatesOf(ctx context.Context, f *follow.Follower) (updates <-chan update, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	channel := make(chan update)
	send := func(u update) {
		select {
		case channel <- u:
		case <-ctx.Done():
		}
	}
	notice := f.Session.Notice
	if notice != nil {
		f.Session.Notice = func(text string) { send(update{notice: text}) }
	}
	go func() {
		defer close(channel)
		for ctx.Err() == nil {
			next, err := f.Next(ctx)
			if err != nil || next.Final {
				f.Session.Notice = notice
				send(update{Change: next, err: err})
				return
			}
			send(update{Change: next})
		}
	}()
	return channel, func() {
		cancel()
		for range channel { // until it is closed
		}
	}
}

// follow follows the job to its end and returns the error that carries its exit code; nil: 0. An interrupt may end it while the job
// continues.
func (r *foregroundRun) follow(ctx context.Context) error {
	r.line = term.StatusLine{Out: r.streams.Err, On: r.streams.ErrTerminal && !r.quiet && !r.json}
	defer r.line.Clear()
	r.events = follow.EventView{Out: r.streams.Out, ID: r.id}
	if r.json {
		r.events.Submitted(r.daemon.Whose)
	}
	r.output = follow.JobOutput{ID: r.id, Streams: r.streams}
	if r.pending != nil {
		if err := r.interrupted(ctx, r.pending); err != nil {
			return err
		}
	}
	if err := r.daemon.Await(ctx, []int64{r.id}); err != nil {
		return fmt.Errorf("job %d continues, but cannot be followed: %w", r.id, err)
	}
	f := &follow.Follower{Session: r.daemon, ID: r.id}
	updates, stop := updatesOf(ctx, f)
	defer stop()
	if r.followed() {
		r.stream = follow.OpenStream(ctx, r.daemon, r.id, true)
		defer r.stream.Close()
	}
	for {
		select {
		case p := <-r.pieces():
			r.showPiece(p)
			if r.final && r.stream == nil {
				return r.finish(ctx, f)
			}
		case <-r.patience: // the process has ended without a word
			return r.finish(ctx, f)
		case signal := <-r.interrupts:
			if err := r.interrupted(ctx, signal); err != nil {
				return err
			}
		case next := <-updates:
			switch {
			case next.err != nil:
				return fmt.Errorf("job %d continues, but can no longer be followed: %w", r.id, next.err)
			case next.notice != "":
				r.makeRoom()
				cli.PrintError(r.streams.Err, next.notice)
				r.last = follow.Change{} // show the status again
			default:
				r.show(next.Change)
			}
			if next.Final && !r.awaitsStream() {
				return r.finish(ctx, f)
			}
			if next.Final {
				updates = nil
			}
		}
	}
}

// followed reports whether this command reads all output of the job, which waits for it.
func (r *foregroundRun) followed() bool { return !r.detached && !r.json }

func (r *foregroundRun) pieces() <-chan follow.Piece {
	if r.stream == nil {
		return nil
	}
	return r.stream.Pieces
}

// showPiece shows a piece of the stream. The stream is nil after its end.
func (r *foregroundRun) showPiece(p follow.Piece) {
	if p.Lost {
		r.lost, r.stream = true, nil
		return
	}
	r.line.Clear()
	r.output.ShowPiece(p)
	r.stream.Taken()
	if p.Ends() {
		r.stream = nil
	}
}

// streamPatience is how long the process of an ended job may take to give its reader the rest.
const streamPatience = 35 * time.Second

// awaitsStream reports whether output is still to come when the job has ended, and begins to wait for it.
func (r *foregroundRun) awaitsStream() bool {
	r.final = true
	if r.stream == nil || !r.output.IsStreamed() && !r.output.LogLacksOutput() {
		return false
	}
	r.patience = r.streams.After(streamPatience)
	return true
}

func (r *foregroundRun) show(c follow.Change) {
	if r.json {
		r.events.Show(c)
		return
	}
	if len(c.Entries) > 0 {
		r.line.Clear()
		r.output.Show(c.Entries)
	}
	if !follow.SameProgress(r.last, c) && !client.Final(c.Status) {
		if r.line.On {
			r.output.EndLine()
		}
		r.line.Set(follow.ProgressText(r.id, c))
	}
	r.last = c
}

// makeRoom clears the status line and ends an open line of output, before other text.
func (r *foregroundRun) makeRoom() {
	r.line.Clear()
	r.output.EndLine()
}

// finish reports the end of the job and returns its exit code as an error; nil: 0.
func (r *foregroundRun) finish(ctx context.Context, f *follow.Follower) error {
	end, err := f.Ending(ctx)
	if err != nil {
		return fmt.Errorf("job %d has ended, but its result is unknown: %w", r.id, err)
	}
	r.line.Clear()
	if r.lost {
		entries, err := f.Log(ctx)
		if err != nil {
			return fmt.Errorf("job %d has ended, but its log is unknown: %w", r.id, err)
		}
		r.output.ShowRest(entries)
	}
	r.output.Finish()
	code, text, lost := r.outcome(end)
	if r.json {
		r.events.End(end.Status, &code, text)
		code, text, lost = r.outcome(end) // the line of the end may be missing, too
	}
	switch {
	case lost:
		return exitWith(code, errors.New(text))
	case r.json:
		return exitWith(code, nil)
	}
	if text == "" || r.quiet && end.Failure.OfCommand() {
		return exitWith(code, nil)
	}
	return exitWith(code, errors.New(text))
}

// outcome returns the exit code, its message or "", and whether output is missing that must not be.
func (r *foregroundRun) outcome(end follow.Ending) (code int, text string, lost bool) {
	losses := r.output.Losses()
	if r.json {
		losses = r.events.Losses()
	}
	if losses != "" && !r.partial {
		return follow.ExitIncomplete, losses.Error(r.id, end.Outcome(r.id)).Error(), true
	}
	code, text = commandExit(r.id, end)
	return code, text, false
}

// commandExit returns the exit code for the end of a job made by `run`, and a message or "".
func commandExit(id int64, end follow.Ending) (code int, text string) {
	switch end.Status {
	case client.StatusSuccess:
		var result follow.CommandEnd
		if json.Unmarshal(end.Success, &result) != nil || result.ExitStatus == nil {
			return 0, ""
		}
		return *result.ExitStatus, ""
	case client.StatusError:
		return end.Failure.ExitCode(), end.Sentence(id)
	}
	return cli.ExitFailure, end.Sentence(id)
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
	if signal != os.Interrupt || !r.streams.InTerminal || !r.streams.ErrTerminal {
		return r.detach(signal)
	}
	fmt.Fprintf(r.streams.Err, "\njob %d: (d)etach, (c)ancel, (Enter) keep following? ", r.id)
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

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// submitGrace is how long an interrupted submission waits for its answer: an id makes
// the difference between detaching and not knowing.
const submitGrace = 2 * time.Second

// attendance is a person, or script, at the side of the job that it has submitted:
// output and status go to the streams, interrupts come from there.
type attendance struct {
	streams    Streams
	interrupts <-chan os.Signal
	daemon     *session
	quiet      bool
	json       bool
	strict     bool // missing output is an exit code

	id      int64
	pending os.Signal // came while the job was being submitted
	input   *bufio.Reader
	line    statusLine
	last    change // what the line has shown
	events  eventView
	output  jobOutput
}

// submit submits one job of one opcode. An interrupt meanwhile is kept for attend.
func (a *attendance) submit(ctx context.Context, opcode any) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answered := make(chan error, 1)
	go func() { answered <- a.daemon.submit(ctx, "SubmitJob", []any{opcode}, &a.id) }()
	select {
	case err := <-answered:
		return err
	case a.pending = <-a.interrupts:
	}
	select {
	case err := <-answered:
		return err
	case <-a.interrupts:
	case <-a.streams.After(submitGrace):
	}
	cancel(errors.New("interrupted"))
	if err := <-answered; err != nil {
		return &exitError{code: signalCode(a.pending), err: err}
	}
	return nil
}

// update is what the following goroutine hands over: something for people to know, a
// change, or why there are no more.
type update struct {
	notice string
	change
	err error
}

// updatesOf follows in a goroutine, so that an interrupt can be handled while the daemon
// has nothing to say. stop returns when the goroutine is through with the session; it is
// also through with it after the final update. Notices of the session become updates, so
// that only one goroutine writes.
func updatesOf(ctx context.Context, f *follower) (updates <-chan update, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	channel := make(chan update)
	hand := func(u update) {
		select {
		case channel <- u:
		case <-ctx.Done():
		}
	}
	notice := f.session.notice
	if notice != nil {
		f.session.notice = func(text string) { hand(update{notice: text}) }
	}
	go func() {
		defer close(channel)
		for ctx.Err() == nil {
			next, err := f.next(ctx)
			if err != nil || next.final {
				f.session.notice = notice
				hand(update{change: next, err: err})
				return
			}
			hand(update{change: next})
		}
	}()
	return channel, func() {
		cancel()
		for range channel { // until it is closed
		}
	}
}

// attend follows the job to its end and returns the error that carries its exit code.
func (a *attendance) attend(ctx context.Context) error {
	a.line = statusLine{out: a.streams.Err, on: a.streams.ErrTerminal && !a.quiet && !a.json}
	defer a.line.clear()
	a.events = eventView{out: a.streams.Out, id: a.id}
	a.output = jobOutput{id: a.id, streams: a.streams}
	if a.pending != nil {
		if err := a.interrupted(ctx, a.pending); err != nil {
			return err
		}
	}
	f := &follower{session: a.daemon, id: a.id}
	updates, stop := updatesOf(ctx, f)
	defer stop()
	for {
		select {
		case signal := <-a.interrupts:
			if err := a.interrupted(ctx, signal); err != nil {
				return err
			}
		case next := <-updates:
			switch {
			case next.err != nil:
				return fmt.Errorf("job %d goes on, but cannot be followed any more: %w", a.id, next.err)
			case next.notice != "":
				a.makeRoom()
				complain(a.streams.Err, next.notice)
				a.last = change{} // so that the status is shown again
			default:
				a.show(next.change)
			}
			if next.final {
				return a.finish(ctx, f)
			}
		}
	}
}

func (a *attendance) show(c change) {
	if a.json {
		a.events.show(c)
		return
	}
	if len(c.entries) > 0 {
		a.line.clear()
		a.output.show(c.entries)
	}
	if !sameProgress(a.last, c) && !final(c.status) {
		if a.line.on {
			a.output.endLine()
		}
		a.line.set(progressText(a.id, c))
	}
	a.last = c
}

// makeRoom is called before something is shown that is no output of the job.
func (a *attendance) makeRoom() {
	a.line.clear()
	a.output.endLine()
}

// finish says how the job ended and returns its exit code as an error.
func (a *attendance) finish(ctx context.Context, f *follower) error {
	end, err := f.ending(ctx)
	if err != nil {
		return fmt.Errorf("job %d has ended, but the daemon does not say how: %w", a.id, err)
	}
	a.line.clear()
	a.output.finish()
	code, text := commandExit(a.id, end)
	if a.strict && (a.output.incomplete() || a.events.missing() != nil) {
		code = exitIncomplete
	}
	if a.json {
		return errors.Join(
			printEvent(a.streams.Out, event{Event: "end", Job: a.id, Status: end.status, ExitCode: &code, Error: text, Missing: a.events.missing()}),
			exitWith(code, nil))
	}
	if text == "" || a.quiet && end.failure.ofCommand() {
		return exitWith(code, nil)
	}
	return exitWith(code, errors.New(text))
}

// commandExit returns the exit code for the end of a job made by `run`, and what to say
// about it, if anything.
func commandExit(id int64, end ending) (code int, text string) {
	switch end.status {
	case statusSuccess:
		var result commandEnd
		if json.Unmarshal(end.success, &result) != nil || result.ExitStatus == nil {
			return 0, ""
		}
		return *result.ExitStatus, ""
	case statusError:
		return end.failure.exitCode(), end.sentence(id)
	}
	return exitFailure, end.sentence(id)
}

func exitWith(code int, err error) error {
	if code == 0 {
		return nil
	}
	return &exitError{code: code, err: err}
}

// interrupted handles a signal: it asks what to do, where there is somebody to ask, and
// otherwise leaves the job. It returns nil if the job is to be followed on.
func (a *attendance) interrupted(ctx context.Context, signal os.Signal) error {
	a.makeRoom()
	a.last = change{} // so that the status is shown again
	if signal != os.Interrupt || !a.streams.InTerminal || !a.streams.ErrTerminal {
		return a.detach(signal)
	}
	fmt.Fprintf(a.streams.Err, "\njob %d: (d)etach, (c)ancel, (Enter) keep following? ", a.id)
	select {
	case <-a.interrupts:
		fmt.Fprintln(a.streams.Err)
		return a.detach(signal)
	case answer := <-a.readLine():
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "d", "detach", endOfInput:
			return a.detach(signal)
		case "c", "cancel":
			a.cancel(ctx)
		}
		return nil
	}
}

// endOfInput stands for a line that could not be read; a typed line never equals it.
const endOfInput = "\x00"

// readLine reads one line from the keyboard. It is called again only after the line
// before has arrived.
func (a *attendance) readLine() <-chan string {
	if a.input == nil {
		a.input = bufio.NewReader(a.streams.In)
	}
	lines := make(chan string, 1)
	go func() {
		line, err := a.input.ReadString('\n')
		if err != nil {
			line = endOfInput
		}
		lines <- line
	}()
	return lines
}

// detach leaves the job to itself.
func (a *attendance) detach(signal os.Signal) error {
	return &exitError{code: signalCode(signal), err: fmt.Errorf(
		`job %d goes on; "lockstep watch %d" follows it, "lockstep cancel %d" cancels it`, a.id, a.id, a.id)}
}

func signalCode(signal os.Signal) int {
	if number, ok := signal.(syscall.Signal); ok {
		return 128 + int(number)
	}
	return exitInterrupted
}

// cancel asks the daemon to cancel the job, and to end what runs: who interrupts a command
// wants that. It is followed on, and its end will be seen.
func (a *attendance) cancel(ctx context.Context) {
	daemon := a.daemon.other() // the session itself is waiting for an answer
	defer daemon.close()
	result, err := cancelJob(ctx, daemon, a.id, true)
	switch {
	case err != nil:
		complain(a.streams.Err, explain(err))
	case !result.Done:
		complain(a.streams.Err, fmt.Sprintf("job %d was not canceled: %s", a.id, result.Message))
	default:
		complain(a.streams.Err, fmt.Sprintf("job %d: %s", a.id, result.Message))
	}
}

package submit

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/core/outflow/delivery"
	"lockstep/edge/outputs/end"
)

// errLeft is the error of a write after an interrupt has ended this command.
var errLeft = errors.New("interrupted")

// blockedAfter is how long a write may go on after an interrupt. If it takes longer, nobody reads the stream.
const blockedAfter = 200 * time.Millisecond

// interruptible writes to a stream, and handles interrupts while nobody takes what it writes. After an interrupt has ended this command it
// writes nothing.
type interruptible struct {
	run    *foregroundRun
	to     io.Writer
	blocks func(os.Signal) error // handles an interrupt while a write waits; the error ends this command
	copied []byte                // of a write that may go on when this command ends
}

// Write is part of io.Writer.
func (w *interruptible) Write(p []byte) (int, error) {
	if w.run.left != nil {
		return 0, errLeft
	}
	w.copied = append(w.copied[:0], p...)
	written := make(chan struct{})
	var n int
	var err error
	go func() {
		defer close(written)
		n, err = w.to.Write(w.copied)
	}()
	signal := w.run.blocked(written)
	if signal == nil || w.run.handled(signal, w.blocks) && w.run.handling(written, w.blocks) {
		return n, err
	}
	return 0, errLeft
}

// blocked waits for the end of a write, and then returns nil. If an interrupt comes and the write goes on for blockedAfter, it returns the
// interrupt. If the write ends within that time, blocked puts the interrupt back, and the caller of the write takes it afterwards.
func (r *foregroundRun) blocked(written <-chan struct{}) os.Signal {
	select {
	case <-written:
		return nil
	case signal := <-r.interrupts:
		select {
		case <-written:
			select {
			case r.interrupts <- signal:
			default: // two later ones wait, which end this command
			}
			return nil
		case <-r.streams.After(blockedAfter):
			return signal
		}
	}
}

// handling handles interrupts until done is closed. It reports false if one has ended this command before.
func (r *foregroundRun) handling(done <-chan struct{}, handle func(os.Signal) error) bool {
	for {
		select {
		case <-done:
			return true
		case signal := <-r.interrupts:
			if !r.handled(signal, handle) {
				return false
			}
		}
	}
}

// handled handles an interrupt. It reports false if one has ended this command.
func (r *foregroundRun) handled(signal os.Signal, handle func(os.Signal) error) bool {
	if err := handle(signal); err != nil && r.left == nil {
		r.left = err
	}
	return r.left == nil
}

// makeInterruptible lets interrupts come through while a stream is not read.
func (r *foregroundRun) makeInterruptible(ctx context.Context) {
	r.streams.Err = &interruptible{run: r, to: r.streams.Err, blocks: func(signal os.Signal) error {
		return &cli.ExitError{Code: cli.SignalCode(signal)} // nothing can be said or asked
	}}
	r.streams.Out = &interruptible{run: r, to: r.streams.Out, blocks: func(signal os.Signal) error {
		err := r.ask(ctx, signal)
		if err != nil && r.left == nil {
			err = r.sayLast(err)
		}
		return err
	}}
}

// lastWords is how long the last message may take, where standard error may be as blocked as standard output.
const lastWords = time.Second

// sayLast says why this command ends, and returns the error without its text.
func (r *foregroundRun) sayLast(err error) error {
	said := make(chan struct{})
	go func() {
		defer close(said)
		cli.PrintError(r.globals.Streams.Err, err.Error())
	}()
	select {
	case <-said:
	case <-r.interrupts:
	case <-r.streams.After(lastWords):
	}
	var exit *cli.ExitError
	if errors.As(err, &exit) {
		return &cli.ExitError{Code: exit.Code}
	}
	return err
}

// during asks the daemon, and handles interrupts meanwhile.
func (r *foregroundRun) during(ctx context.Context, question func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var err error
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		err = question(ctx)
	}()
	if r.handling(answered, func(signal os.Signal) error { return r.interrupted(ctx, signal) }) {
		return err
	}
	cancel()
	<-answered
	return r.left
}

// keptInterruptible reads kept output, which may take long, and handles interrupts meanwhile. What is read is taken by the caller's
// goroutine. stop ends a read.
func (r *foregroundRun) keptInterruptible(ctx context.Context, read delivery.ReadKept, stop context.CancelFunc) delivery.ReadKept {
	return func(part end.Kept, take func([]byte) bool) int64 {
		var at int64
		pieces, taken := make(chan []byte), make(chan bool)
		go func() {
			defer close(pieces)
			at = read(part, func(output []byte) bool {
				pieces <- output
				return <-taken
			})
		}()
		for {
			select {
			case output, open := <-pieces:
				if !open {
					return at
				}
				taken <- r.left == nil && take(output)
			case signal := <-r.interrupts:
				if err := r.interrupted(ctx, signal); err != nil && r.left == nil {
					r.left = err
				}
			}
			if r.left != nil {
				stop()
			}
		}
	}
}

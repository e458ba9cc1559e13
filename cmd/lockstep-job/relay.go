package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"lockstep/core/outflow"
	"lockstep/edge/outputs/end"
)

// relayAfter is how much output a job has before its process takes readers, in bytes. Less is in the log, from which readers get it, so
// that a job with little output costs nothing. If the log lacks some of it, because it is many short lines or the log is small, logLacks
// takes them.
const relayAfter = 48 << 10

// relay brings the output of the job to its readers, by an outflow.Source. It has goroutines of its own: one takes readers from the
// daemon, and two serve each reader.
type relay struct {
	path    string // of the daemon's socket for output
	job     int64
	changed func(blocked time.Time) // since when output waits for its reader, zero: it does not; called without mu
	note    func(complaint string)  // says that the reader is not waited for any more; called without mu

	mu      sync.Mutex
	moved   sync.Cond // something may go on
	source  *outflow.Source
	written int64
	stop    context.CancelFunc // ends the taking of readers; nil: it has not begun
	readers map[uint64]*outReader
	ended   bool
	serving sync.WaitGroup
	told    time.Time // what changed was called with
	telling bool      // a goroutine calls changed or note
}

// outReader is one reader's connection.
type outReader struct {
	conn   *os.File
	rest   *os.File // is for what is left at the end. Its descriptor goes with the first bytes, while the connection surely has room
	passed bool     // the descriptor was sent
	unsent []byte   // of the frame whose write was cut off by the end
}

// write writes a frame. n is how much of it was sent.
func (o *outReader) write(frame []byte) (n int, err error) {
	if !o.passed {
		n, err = end.Send(o.conn, frame, o.rest)
		if o.passed = n > 0; err != nil || n == len(frame) {
			return n, err
		}
	}
	more, err := o.conn.Write(frame[n:])
	return n + more, err
}

func (o *outReader) close() {
	_ = o.conn.Close()
	_ = o.rest.Close()
}

func newRelay(path string, job int64, source *outflow.Source, changed func(time.Time), note func(string)) *relay {
	r := &relay{path: path, job: job, source: source, changed: changed, note: note, readers: map[uint64]*outReader{}}
	r.moved.L = &r.mu
	return r
}

// write adds output. It returns when there is room for it: the caller reads no more from the command until then.
func (r *relay) write(stream outflow.Stream, output []byte) {
	r.mu.Lock()
	r.written += int64(len(output))
	if r.written > relayAfter {
		r.take()
	}
	for len(output) > 0 {
		room := r.source.Room(time.Now())
		if r.tell() {
			continue // the other stream may have taken the room meanwhile
		}
		if room == 0 {
			r.take() // many small pieces fill the window before relayAfter
			r.await()
			continue
		}
		n := min(room, len(output))
		r.source.Add(stream, output[:n])
		output = output[n:]
		r.moved.Broadcast()
	}
	r.mu.Unlock()
}

// logLacks says that the log has lost output, for which readers must come here.
func (r *relay) logLacks() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.take()
}

// take begins to take readers, unless it has.
func (r *relay) take() {
	if r.stop != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	r.source.Open(time.Now())
	r.serving.Go(func() { end.TakeReaders(ctx, r.path, r.job, r.attach) })
}

// await waits until something has changed, the source's deadline has come, or the wait has become worth telling.
func (r *relay) await() {
	var wake time.Time
	if blocked := r.source.Blocked(); !blocked.IsZero() {
		wake = blocked.Add(tellAfter)
	}
	if deadline := r.source.Deadline(); wake.IsZero() || !r.told.IsZero() || !deadline.IsZero() && deadline.Before(wake) {
		wake = deadline
	}
	if !wake.IsZero() {
		timer := time.AfterFunc(time.Until(wake), func() {
			r.mu.Lock()
			r.source.Tick(time.Now())
			r.mu.Unlock()
			r.moved.Broadcast()
		})
		defer timer.Stop()
	}
	r.moved.Wait()
}

// tellAfter is how long output waits for its reader before the daemon hears of it.
const tellAfter = time.Second

// tell passes on what the source says of the wait for its reader. It reports whether there was anything; mu was unlocked then. One
// goroutine at a time tells, so that what is told last is true: it looks again afterwards.
func (r *relay) tell() (told bool) {
	if r.telling {
		return false
	}
	r.telling = true
	for r.tellOnce() {
		told = true
	}
	r.telling = false
	return told
}

func (r *relay) tellOnce() bool {
	blocked, complaint := r.source.Blocked(), r.source.Complaint()
	if !blocked.IsZero() && time.Since(blocked) < tellAfter {
		blocked = r.told
	}
	isNew := !blocked.Equal(r.told)
	if !isNew && complaint == "" {
		return false
	}
	r.told = blocked
	r.mu.Unlock()
	if isNew {
		r.changed(blocked)
	}
	if complaint != "" {
		r.note(complaint)
	}
	r.mu.Lock()
	return true
}

// attach serves a reader. One that is not taken gets the rest from the log.
func (r *relay) attach(h end.Hello, c *os.File) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rest, err := end.Rest()
	if err != nil {
		_ = c.Close()
		return
	}
	reader := &outReader{conn: c, rest: rest}
	id, err := r.source.Attach(h.At, h.Follows, h.Relayed)
	if err != nil || r.ended {
		reader.close()
		return
	}
	r.readers[id] = reader
	r.serving.Go(func() { r.send(id, reader) })
	r.serving.Go(func() { r.takeAcks(id, reader) })
	r.moved.Broadcast()
}

// send sends a reader what there is, until its connection or the output ends.
func (r *relay) send(id uint64, reader *outReader) {
	buffer := make([]byte, outflow.HeaderSize+outflow.FrameMax) // output is copied to its place behind the header
	for {
		f, ok := r.next(id, buffer[outflow.HeaderSize:])
		if !ok {
			return
		}
		frame := buffer[:len(f.AppendHeader(buffer[:0]))+len(f.Output)]
		if n, err := reader.write(frame); err != nil { // takeAcks notices the end of the connection
			reader.unsent = frame[n:]
			return
		}
	}
}

// next waits for the next frame of a reader. ok is false if there is none: the reader has gone, or gets the rest.
func (r *relay) next(id uint64, buffer []byte) (f outflow.Frame, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.ended && r.readers[id] != nil {
		if f, ok = r.source.Next(id, buffer); ok {
			return f, true
		}
		r.moved.Wait()
	}
	return f, false
}

// takeAcks takes a reader's acknowledgements until its connection ends.
func (r *relay) takeAcks(id uint64, reader *outReader) {
	var ack [outflow.AckSize]byte
	for {
		_, err := io.ReadFull(reader.conn, ack[:])
		r.mu.Lock()
		if err == nil {
			err = r.source.Ack(id, outflow.DecodeAck(ack))
		}
		if err != nil && !r.ended {
			r.source.Detach(id, time.Now())
			delete(r.readers, id)
			reader.close()
		}
		r.mu.Unlock()
		r.moved.Broadcast()
		if err != nil {
			return
		}
	}
}

// begin waits, before a command starts, until there is room for its output. Former commands may have left more than the follower has taken.
// It returns false if the opcode is killed meanwhile.
func (r *relay) begin(killed <-chan struct{}) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.source.Ending(false)
	over := make(chan struct{})
	defer close(over)
	isKilled := false
	go func() {
		select {
		case <-killed:
			r.mu.Lock()
			isKilled = true
			r.mu.Unlock()
			r.moved.Broadcast()
		case <-over:
		}
	}()
	for r.source.Room(time.Now()) == 0 && !isKilled {
		if !r.tell() {
			r.take()
			r.await()
		}
	}
	r.tell()
	return !isKilled
}

// ending says that the opcode's command has ended, see outflow.Source.Ending.
func (r *relay) ending() {
	r.mu.Lock()
	r.source.Ending(true)
	r.mu.Unlock()
	r.moved.Broadcast()
}

// hurry says that output of the command, which has ended, waits no longer, see outflow.Source.Hurry.
func (r *relay) hurry() {
	r.mu.Lock()
	r.source.Hurry()
	r.mu.Unlock()
	r.moved.Broadcast()
}

// finish gives each reader the rest of the output in a file of memory, so that the job ends without waiting for a slow reader. Only for
// the follower that has not come yet it waits, if the log lacks output. The error says that readers did not get the rest, which they know.
func (r *relay) finish(logLacksOutput bool) error {
	r.mu.Lock()
	if logLacksOutput && r.source.Expects() {
		r.take()
	}
	if r.stop == nil {
		r.mu.Unlock()
		return nil
	}
	for logLacksOutput && r.source.Expects() {
		r.await()
	}
	r.ended = true
	r.source.End()
	r.stop()
	readers := r.readers
	for _, reader := range readers {
		_ = reader.conn.SetDeadline(time.Unix(1, 0))
	}
	r.mu.Unlock()
	r.moved.Broadcast()
	r.serving.Wait()
	var err error
	buffer := make([]byte, outflow.FrameMax)
	for id, reader := range readers {
		if restErr := r.passRest(id, reader, buffer); restErr != nil {
			err = errors.Join(err, fmt.Errorf("pass the rest of the output to a reader: %w", restErr))
		}
		reader.close()
	}
	return err
}

// passRest passes a reader the rest, after what was sent to it.
func (r *relay) passRest(id uint64, reader *outReader, buffer []byte) error {
	rest := &restWriter{file: reader.rest, begun: reader.passed}
	rest.add(reader.unsent)
	r.source.Rest(id, buffer, func(f outflow.Frame) {
		rest.add(f.AppendHeader(nil))
		rest.add(f.Output)
	})
	if rest.err != nil || len(rest.first) == 0 {
		return rest.err
	}
	if err := reader.conn.SetDeadline(time.Time{}); err != nil { // nothing was sent: there is room
		return err
	}
	if _, err := reader.write(rest.first); !errors.Is(err, unix.EPIPE) { // EPIPE: the reader has closed its connection
		return err
	}
	return nil
}

// restWriter takes the bytes of the rest. If the reader does not have the file yet, the first byte is to be sent with it.
type restWriter struct {
	file  *os.File
	begun bool
	first []byte
	err   error
}

func (w *restWriter) add(b []byte) {
	if !w.begun && len(b) > 0 {
		w.begun, w.first, b = true, b[:1:1], b[1:]
	}
	if w.err == nil && len(b) > 0 {
		_, w.err = w.file.Write(b)
	}
}

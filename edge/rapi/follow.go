package rapi

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"lockstep/core/job"
	"lockstep/core/outflow"
	"lockstep/core/outflow/delivery"
	"lockstep/edge/admission"
	"lockstep/edge/outputs/end"
)

const (
	// openPause is the pause before a reader connects again: no process has taken it, because none has written much yet.
	openPause = 500 * time.Millisecond
	// beginPatience is how long output that the log has lost is expected from the job's process, before it counts as missing; and output
	// before the first frame from the log.
	beginPatience = 2 * time.Second
	// endPatience is how long the next frame may take when the job has ended.
	endPatience = 35 * time.Second
)

// follower writes the output of a job until the job has ended. Its goroutines bring the log, and what the job's process sends.
type follower struct {
	*output
	ctx     context.Context
	buffer  *bufio.Writer
	after   func(time.Duration) <-chan time.Time
	entries chan []rawEntry    // each is valid until the next message of taken; nil: what was read at once is complete
	frames  chan outflow.Frame // the same; closed when the connection is lost after the first one. nil: none comes
	taken   [2]chan struct{}   // of entries, of frames
	logEnd  chan error         // the log has ended; one message
	read    func()             // begins to read frames

	partial  bool           // of what was read of the log at once, there is more
	first    *outflow.Frame // the first one, which was not written yet
	gaveUp   bool           // it did not come in time
	complete bool           // the end of the output has come
	ended    bool           // the log has
	timer    <-chan time.Time
}

// followOutput sends the output of a job until the job has ended.
func (s *Server) followOutput(c *call, id int64, stream string, begin func(missing int64) io.Writer) error {
	o := newOutput(c.Context(), s.config.Output, id, stream)
	part, release := admission.Part(c.Context())
	l, err := readLog(part, s.config.Luxi, id)
	if err == nil {
		o.ends, err = o.mayKeep(part, s.config.Luxi, l)
	}
	release()
	if err == nil {
		err = admission.Take(c.Context(), outputMemory)
	}
	if err != nil {
		return err
	}
	ctx, stop, err := s.listen(c, s.logStreams)
	if err != nil {
		return err
	}
	var reading sync.WaitGroup
	defer reading.Wait()
	defer stop()
	w := bufio.NewWriterSize(begin(-1), outflow.FrameMax)
	_ = http.NewResponseController(c.ResponseWriter).Flush() // the client knows that the stream has begun
	if c.Method == http.MethodHead {
		return nil
	}
	o.ctx, o.w = ctx, w
	f := &follower{output: o, ctx: ctx, buffer: w, after: s.after, partial: true, entries: make(chan []rawEntry),
		taken: [2]chan struct{}{make(chan struct{}), make(chan struct{})}, logEnd: make(chan error, 1)}
	reading.Go(func() { f.logEnd <- f.readLog(s.config.Luxi) })
	f.read = func() {
		f.frames = make(chan outflow.Frame)
		reading.Go(f.readFrames)
	}
	if f.open != nil && !IsFinal(l.status) {
		f.read()
	}
	err = f.follow()
	if err == nil && f.Streamed && !f.complete {
		err = f.rest(s.config.Luxi)
	}
	if err == nil {
		err = f.buffer.Flush()
	}
	c.ResponseWriter.Header().Set(droppedHeader, strconv.FormatInt(f.missed(), 10))
	return err
}

// pass passes a value on, and returns when it was taken.
func pass[T any](ctx context.Context, to chan<- T, value T, taken <-chan struct{}) error {
	select {
	case to <- value:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-taken:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// readLog passes the log on.
func (f *follower) readLog(luxi Luxi) error {
	each := func(entries []rawEntry) error { return pass(f.ctx, f.entries, entries, f.taken[0]) }
	after := int64(0)
	for status := ""; ; {
		next, ended, err := followPart(f.ctx, luxi, f.id, status, &after, each)
		if err == nil {
			err = each(nil)
		}
		if err != nil || ended {
			return err
		}
		status = next
	}
}

// readFrames connects until the process of the job takes the reader, and reads what it sends.
func (f *follower) readFrames() {
	frames := f.frames
	defer close(frames)
	for !f.readConnection(frames) {
		select {
		case <-f.ctx.Done():
			return
		case <-time.After(openPause):
		}
	}
}

// readConnection reads over one connection. It reports whether the process has taken the reader, or the following has ended.
func (f *follower) readConnection(frames chan<- outflow.Frame) (over bool) {
	conn, err := f.open(admission.ClientOf(f.ctx), end.Hello{Job: f.id, Relayed: true})
	if err != nil {
		return false
	}
	defer conn.Close()
	defer context.AfterFunc(f.ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	r := end.NewReader(conn, outflow.Position{})
	defer r.Close()
	for ; ; over = true {
		frame, _, err := r.Next()
		if err != nil {
			return over || f.ctx.Err() != nil
		}
		if pass(f.ctx, frames, frame, f.taken[1]) != nil {
			return true
		}
	}
}

// follow writes what comes, until both the log and the frames have ended.
func (f *follower) follow() error {
	for {
		frames := f.frames
		if f.partial && !f.Streamed {
			frames = nil // the log may have what is before them
		}
		var err error
		select {
		case entries := <-f.entries:
			err = f.writeEntries(entries)
		case frame, open := <-frames:
			err = f.takeFrame(frame, open)
		case err = <-f.logEnd:
			if f.ended = true; err == nil {
				err = f.writeFirst()
			}
		case <-f.timer:
			if f.first == nil {
				return nil
			}
			err = f.writeFirst()
		case <-f.ctx.Done():
			err = context.Cause(f.ctx)
		}
		if err == nil {
			err = f.buffer.Flush()
		}
		if err != nil || f.ended && (f.frames == nil || !f.Streamed) {
			return err
		}
		if f.ended {
			f.timer = f.after(endPatience) // to write it may have taken long
		}
	}
}

func (f *follower) writeEntries(entries []rawEntry) error {
	for i := range entries {
		e := entries[i].delivered()
		if e.Type == job.LogTry {
			f.endTry()
		}
		if f.Loses(e) {
			f.awaitFirst()
		}
		if err := f.entry(e); err != nil {
			return err
		}
	}
	if f.partial = entries != nil; f.partial && f.first != nil {
		f.timer = nil // what was read at once is written before the frame, however long that takes
	}
	f.release(0)
	return f.joinFirst()
}

// endTry writes what the process of a try sends at its end, and begins to read from the process of the next one, before the entry that says
// so is written.
func (f *follower) endTry() {
	_ = f.writeFirst() // f.Err is the error
	for f.Streamed && f.frames != nil && f.Err == nil {
		select {
		case frame, open := <-f.frames:
			_ = f.takeFrame(frame, open)
		case <-f.after(endPatience):
			f.frames = nil
		case <-f.ctx.Done():
			f.Failed(context.Cause(f.ctx))
		}
	}
	wasStreamed := f.Streamed
	f.complete, f.gaveUp = false, false
	if wasStreamed && f.open != nil {
		f.read()
	}
}

// takeFrame takes a frame; open is false if none came because the connection is lost.
func (f *follower) takeFrame(frame outflow.Frame, open bool) error {
	switch {
	case !open:
		f.frames = nil
		return nil
	case !f.Streamed:
		f.begin(frame)
		return f.joinFirst()
	}
	return f.writeFrame(frame)
}

// joinFirst writes the first frame if the log was written up to its place. Otherwise the frame waits for the log.
func (f *follower) joinFirst() error {
	if f.first == nil || f.partial {
		return nil
	}
	if at := delivery.PositionIn(&f.Account); at.Stdout >= f.first.At.Stdout && at.Stderr >= f.first.At.Stderr {
		return f.writeFirst()
	}
	if f.timer == nil {
		f.timer = f.after(beginPatience)
	}
	return nil
}

func (f *follower) writeFirst() error {
	if f.first == nil {
		return nil
	}
	first := *f.first
	f.first, f.timer = nil, nil
	return f.writeFrame(first)
}

func (f *follower) writeFrame(frame outflow.Frame) error {
	f.Frame(f, frame)
	if frame.Ends() {
		f.complete, f.frames = true, nil
	}
	f.release(1)
	return f.Err
}

// begin takes the first frame, which is not written yet: what the log has after its place is not written.
func (f *follower) begin(first outflow.Frame) {
	f.Begin(first.At)
	f.first = &first
}

// release says that what came last of the entries (0) or frames (1) is not used any more.
func (f *follower) release(of int) {
	select {
	case f.taken[of] <- struct{}{}:
	case <-f.ctx.Done():
	}
}

// awaitFirst waits for the first frame, because the log has lost output.
func (f *follower) awaitFirst() {
	if f.frames == nil || f.Streamed || f.gaveUp {
		return
	}
	select {
	case frame, open := <-f.frames:
		if !open {
			f.frames = nil
			return
		}
		f.begin(frame)
	case <-f.after(beginPatience):
		f.gaveUp = true
	case <-f.ctx.Done():
		f.Failed(context.Cause(f.ctx))
	}
}

// rest writes what the log of the job, which has ended, has and was not written, because the connection to the process was lost.
func (f *follower) rest(luxi Luxi) error {
	ctx, release := admission.Part(f.ctx)
	defer release()
	l, err := readLog(ctx, luxi, f.id)
	if err != nil {
		return err
	}
	f.RestOfLog(f, func(yield func(delivery.Entry) bool) {
		for i := range l.entries {
			if !yield(l.entries[i].delivered()) {
				return
			}
		}
	})
	return f.Err
}

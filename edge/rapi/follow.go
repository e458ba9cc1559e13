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
	"lockstep/edge/admission"
	"lockstep/edge/outputs/end"
)

const (
	// openPause is the pause before a reader connects again: no process has taken it, because none has written much yet.
	openPause = 500 * time.Millisecond
	// beginPatience is how long output that the log has lost is expected from the job's process, before it counts as missing.
	beginPatience = 2 * time.Second
	// endPatience is how long the rest of the output may take when the job has ended.
	endPatience = 35 * time.Second
)

// follower writes the output of a job until the job has ended. Its goroutines bring the log, and what the job's process sends.
type follower struct {
	*output
	ctx     context.Context
	buffer  *bufio.Writer
	entries chan []rawEntry    // each is valid until the next message of taken
	frames  chan outflow.Frame // the same; closed when the connection is lost after the first one. nil: none comes
	taken   [2]chan struct{}   // of entries, of frames
	logEnd  chan error         // the log has ended; one message

	first    *outflow.Frame // the first one, which was not written yet
	gaveUp   bool           // it did not come in time
	complete bool           // the end of the output has come
}

// followOutput sends the output of a job until the job has ended.
func (s *Server) followOutput(c *call, id int64, stream string, begin func(missing int64) io.Writer) error {
	part, release := admission.Part(c.Context())
	l, err := readLog(part, s.config.Luxi, id)
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
	f := &follower{output: &output{Writer: w, ctx: ctx, open: s.config.Output, id: id, only: stream}, ctx: ctx, buffer: w,
		entries: make(chan []rawEntry), taken: [2]chan struct{}{make(chan struct{}), make(chan struct{})}, logEnd: make(chan error, 1)}
	reading.Go(func() { f.logEnd <- f.readLog(s.config.Luxi) })
	if f.open != nil && !IsFinal(l.status) {
		f.frames = make(chan outflow.Frame)
		reading.Go(f.readFrames)
	}
	err = f.follow()
	if err == nil && f.isLive && !f.complete {
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

// readLog passes the log on, with nothing after what there is of it at first.
func (f *follower) readLog(luxi Luxi) error {
	each := func(entries []rawEntry) error { return pass(f.ctx, f.entries, entries, f.taken[0]) }
	after := int64(0)
	for status := ""; ; {
		begins := status == ""
		next, ended, err := followPart(f.ctx, luxi, f.id, status, &after, each)
		if err == nil && begins {
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
	for r := end.NewReader(conn, outflow.Position{}); ; over = true {
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
	var late <-chan time.Time
	var frames <-chan outflow.Frame // nil until what the log has before them was written
	for logRead, logEnded := false, false; ; {
		if logRead {
			frames = f.frames
		}
		var err error
		select {
		case entries := <-f.entries:
			logRead = logRead || len(entries) == 0
			err = f.writeEntries(entries)
		case frame, open := <-frames:
			err = f.writeFrame(frame, open)
		case err = <-f.logEnd:
			logEnded, late = true, time.After(endPatience)
		case <-late:
			return nil
		case <-f.ctx.Done():
			err = context.Cause(f.ctx)
		}
		if err == nil {
			err = f.buffer.Flush()
		}
		if err != nil || logEnded && (f.frames == nil || !f.isLive) {
			return err
		}
	}
}

func (f *follower) writeEntries(entries []rawEntry) error {
	for i := range entries {
		if err := f.entry(&entries[i], f.awaitFirst); err != nil {
			return err
		}
	}
	f.release(0)
	if first := f.first; first != nil {
		f.first = nil
		return f.writeFrame(*first, true)
	}
	return nil
}

// writeFrame writes a frame; open is false if none came because the connection is lost.
func (f *follower) writeFrame(frame outflow.Frame, open bool) error {
	if !open {
		f.frames = nil
		return nil
	}
	f.begin(frame)
	err := f.frame(frame)
	if frame.Ends() {
		f.complete, f.frames = true, nil
	}
	f.release(1)
	return err
}

// begin notes the first frame: what the log has after its place is not written.
func (f *follower) begin(first outflow.Frame) {
	if !f.isLive {
		f.isLive, f.begins = true, first.At
	}
}

// release says that what came last of the entries (0) or frames (1) is not used any more.
func (f *follower) release(of int) {
	select {
	case f.taken[of] <- struct{}{}:
	case <-f.ctx.Done():
	}
}

// awaitFirst waits for the first frame, because the log has lost output.
func (f *follower) awaitFirst() error {
	if f.frames == nil || f.isLive || f.gaveUp {
		return nil
	}
	timer := time.NewTimer(beginPatience)
	defer timer.Stop()
	select {
	case frame, open := <-f.frames:
		if !open {
			f.frames = nil
			return nil
		}
		f.first = &frame
		f.begin(frame)
	case <-timer.C:
		f.gaveUp = true
	case <-f.ctx.Done():
		return context.Cause(f.ctx)
	}
	return nil
}

// rest writes what the log of the job, which has ended, has and was not written, because the connection to the process was lost.
func (f *follower) rest(luxi Luxi) error {
	ctx, release := admission.Part(f.ctx)
	defer release()
	l, err := readLog(ctx, luxi, f.id)
	if err != nil {
		return err
	}
	f.account, f.isLive = job.OutputAccount{}, false
	for i := range l.entries {
		if err := f.entry(&l.entries[i], func() error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

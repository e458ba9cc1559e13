package rapi

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"sort"
	"strconv"

	"lockstep/core/budget"
	"lockstep/core/job"
	"lockstep/core/outflow"
	"lockstep/edge/admission"
	"lockstep/edge/outputs/end"
)

// OpenOutput connects a reader of a job's output, which counts for a client (outputs.Server.Open).
type OpenOutput func(client budget.Client, h end.Hello) (*os.File, error)

const (
	// outputMemory is what a reader of output may take, in bytes: its buffers, and what is under way to it.
	outputMemory = 256 << 10
	// droppedHeader has how many bytes of the output are missing. A stream that is followed has it as a trailer.
	droppedHeader = "Lockstep-Dropped-Bytes"
)

// output writes the output of a job, each byte of a stream once and in order. It comes from the log and, of a running job, from its
// process. What neither has comes from the kept files, or is counted as missing.
type output struct {
	io.Writer
	ctx  context.Context
	open OpenOutput // nil: the log is all
	id   int64
	only string // stream that is wanted; "": both

	account job.OutputAccount // of the log
	have    outflow.Position  // what was written or counted
	missing outflow.Position
	noMore  [2]bool // by stream: the files have nothing of a place up to which was asked
	isLive  bool    // the process of the job sends its output, from begins on: the log's is not written there
	begins  outflow.Position
	buffer  []byte // of a frame from the files
}

var streamNames = [2]string{job.LogStdout, job.LogStderr}

func (o *output) wants(s outflow.Stream) bool { return o.only == "" || o.only == streamNames[s] }

// of is what a position has of a stream.
func of(p *outflow.Position, s outflow.Stream) *int64 {
	if s == outflow.Stderr {
		return &p.Stderr
	}
	return &p.Stdout
}

func positionOf(o job.Output) outflow.Position {
	return outflow.Position{Stdout: o.Stdout.Bytes, Stderr: o.Stderr.Bytes}
}

// missed is how much is missing of what is wanted.
func (o *output) missed() (bytes int64) {
	for s := range outflow.Stderr + 1 {
		if o.wants(s) {
			bytes += o.missing.Of(s)
		}
	}
	return bytes
}

// entry writes an entry of the log. lost is called before output that the log has lost is looked for.
func (o *output) entry(e *rawEntry, lost func() error) error {
	at := positionOf(o.account.Delivered.Plus(o.account.Missing))
	if gap := positionOf(o.account.Add(e.kind, e.payload)); gap != (outflow.Position{}) {
		if err := lost(); err != nil {
			return err
		}
		for s := range outflow.Stderr + 1 {
			to := at.Of(s) + gap.Of(s)
			if o.isLive {
				to = min(to, o.begins.Of(s))
			}
			if err := o.fill(s, to); err != nil {
				return err
			}
		}
	}
	name, piece, ok := job.DecodeOutput(e.kind, e.payload)
	if !ok {
		return nil
	}
	s := outflow.Stdout
	if name == job.LogStderr {
		s = outflow.Stderr
	}
	if o.isLive && at.Of(s) >= o.begins.Of(s) {
		return nil
	}
	return o.piece(s, at.Of(s), piece)
}

// piece writes output of a stream at its place, as far as it is new.
func (o *output) piece(s outflow.Stream, at int64, output []byte) error {
	if err := o.fill(s, at); err != nil {
		return err
	}
	have := of(&o.have, s)
	known := *have - at
	if known >= int64(len(output)) {
		return nil
	}
	*have = at + int64(len(output))
	if !o.wants(s) {
		return nil
	}
	_, err := o.Write(output[known:])
	return err
}

// frame writes a frame of the job's process. The end says where both streams end.
func (o *output) frame(f outflow.Frame) error {
	if !f.Ends() {
		return o.piece(f.Stream, f.At.Of(f.Stream), f.Output)
	}
	for s := range outflow.Stderr + 1 {
		if err := o.fill(s, f.At.Of(s)); err != nil {
			return err
		}
	}
	return nil
}

// fill writes a stream up to a place from the files, and counts the rest as missing.
func (o *output) fill(s outflow.Stream, to int64) error {
	have := of(&o.have, s)
	from := *have
	if from >= to {
		return nil
	}
	at := from
	var err error
	if !o.noMore[s] {
		at, err = o.kept(s, from, to, o.Writer)
		o.noMore[s] = at < to // what is kept of a stream is its beginning
	}
	*have = to
	*of(&o.missing, s) += to - at
	return err
}

// kept writes what the files have of a part of a stream, and returns the place after it. The error is that of w.
func (o *output) kept(s outflow.Stream, from, to int64, w io.Writer) (at int64, err error) {
	if at = from; o.open == nil || !o.wants(s) {
		return at, nil
	}
	conn, err := o.open(admission.ClientOf(o.ctx), end.Hello{Job: o.id, Kept: &end.Kept{Stream: s, From: from, To: to}})
	if err != nil {
		return at, nil // it is missing
	}
	defer conn.Close()
	defer context.AfterFunc(o.ctx, func() { _ = conn.Close() })()
	if o.buffer == nil {
		o.buffer = make([]byte, outflow.FrameMax)
	}
	for at < to {
		f, err := outflow.ReadFrame(conn, o.buffer)
		if err != nil || f.Ends() {
			break
		}
		if _, err := w.Write(f.Output); err != nil {
			return at, err
		}
		at += int64(len(f.Output))
	}
	return at, o.ctx.Err()
}

// keptUntil is the place up to which the files have a part of a stream.
func (o *output) keptUntil(s outflow.Stream, from, to int64) int64 {
	has := func(at int64) bool {
		after, err := o.kept(s, at, at+1, io.Discard)
		return err == nil && after > at
	}
	switch {
	case !has(from):
		return from
	case has(to - 1):
		return to
	}
	return from + int64(sort.Search(int(to-from), func(n int) bool { return !has(from + int64(n)) }))
}

// willMiss is how much of what is wanted the log and the files lack.
func (o *output) willMiss(l jobLog) (bytes int64) {
	var account job.OutputAccount
	var none [2]bool
	for i := range l.entries {
		at := positionOf(account.Delivered.Plus(account.Missing))
		gap := positionOf(account.Add(l.entries[i].kind, l.entries[i].payload))
		for s := range outflow.Stderr + 1 {
			from, to := at.Of(s), at.Of(s)+gap.Of(s)
			if from >= to || !o.wants(s) {
				continue
			}
			until := from
			if !none[s] {
				until = o.keptUntil(s, from, to)
			}
			none[s] = until < to
			bytes += to - until
		}
	}
	return bytes
}

// WriteLog writes the output of a job to w, exactly as its commands have written it: that of one stream, or of both in the
// order of their pieces if stream is empty. What the log has dropped comes from the kept files. begin is called before the first byte with
// the number of bytes that are missing nevertheless.
func WriteLog(ctx context.Context, luxi Luxi, open OpenOutput, id int64, stream string, begin func(missing int64) io.Writer) error {
	l, err := readLog(ctx, luxi, id)
	if err == nil && open != nil {
		err = admission.Take(ctx, outputMemory)
	}
	if err != nil {
		return err
	}
	o := &output{ctx: ctx, open: open, id: id, only: stream}
	missing := o.willMiss(l)
	w := bufio.NewWriterSize(begin(missing), outflow.FrameMax)
	o.Writer = w
	for i := range l.entries {
		if err := o.entry(&l.entries[i], func() error { return nil }); err != nil {
			return err
		}
	}
	if o.missed() != missing {
		return io.ErrUnexpectedEOF // a file was removed meanwhile
	}
	return w.Flush()
}

// LogHeader sets the headers of a download of a log. The body is never shown as a page: a browser saves it. missing is how many bytes of
// the output are; negative: that is known at the end.
func LogHeader(h http.Header, id int64, stream string, missing int64) {
	name := "job-" + strconv.FormatInt(id, 10)
	if stream != "" {
		name += "-" + stream
	}
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="`+name+`.log"`)
	if missing < 0 {
		h.Set("Trailer", droppedHeader)
		h.Set("X-Accel-Buffering", "no") // proxies must not buffer the stream
		return
	}
	h.Set(droppedHeader, strconv.FormatInt(missing, 10))
}

// log sends the output of a job, byte for byte: as it is now, or until the job has ended. A failure after the begin cuts the answer off.
func (s *Server) log(c *call) (any, error) {
	id, err := c.jobID()
	if err != nil {
		return nil, err
	}
	stream, err := streamArgument(c.Request)
	if err != nil {
		return nil, err
	}
	follows, err := followArgument(c.Request)
	if err != nil {
		return nil, err
	}
	begun := false
	begin := func(missing int64) io.Writer {
		begun = true
		LogHeader(c.ResponseWriter.Header(), id, stream, missing)
		c.request.Stream()
		c.WriteHeader(http.StatusOK)
		return streamTo(c.ResponseWriter)
	}
	if follows {
		err = s.followOutput(c, id, stream, begin)
	} else {
		err = WriteLog(c.Context(), s.config.Luxi, s.config.Output, id, stream, begin)
	}
	if err != nil && begun {
		panic(http.ErrAbortHandler) // an incomplete log must not look like a complete one
	}
	return alreadyWritten{}, err
}

// followArgument is whether the output is followed to the end of the job.
func followArgument(r *http.Request) (bool, error) {
	text := r.URL.Query().Get("follow")
	follows, err := strconv.ParseBool(text)
	if text != "" && err != nil {
		return false, newFailure(http.StatusBadRequest, "The 'follow' argument is true or false")
	}
	return follows, nil
}

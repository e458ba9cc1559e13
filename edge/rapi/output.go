package rapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"os"
	"sort"
	"strconv"

	"lockstep/core/budget"
	"lockstep/core/job"
	"lockstep/core/outflow"
	"lockstep/core/outflow/delivery"
	"lockstep/core/wire"
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

// output writes the output of a job. What neither its log nor its process has comes from the kept files, or is counted as missing.
type output struct {
	delivery.Delivery
	w    io.Writer
	ctx  context.Context
	open OpenOutput // nil: the log is all
	id   int64
	only string // stream that is wanted; "": both

	ends   outflow.Position // the files have nothing after it
	until  []int64          // up to where the next parts of the files are read; after these parts, as far as there is something
	buffer []byte           // of a frame from the files
}

func newOutput(ctx context.Context, open OpenOutput, id int64, only string) *output {
	o := &output{ctx: ctx, open: open, id: id, only: only, ends: everything}
	o.Kept = o.kept
	return o
}

// everything is after all output.
var everything = outflow.Position{Stdout: math.MaxInt64, Stderr: math.MaxInt64}

func (o *output) wants(s outflow.Stream) bool {
	return o.only == "" || o.only == delivery.StreamName(s)
}

// missed is how much is missing of what is wanted.
func (o *output) missed() (bytes int64) {
	for s := range outflow.Stderr + 1 {
		if o.wants(s) {
			bytes += delivery.AmountIn(&o.Missing, s).Bytes
		}
	}
	return bytes
}

// Output is part of delivery.Target.
func (o *output) Output(s outflow.Stream, output []byte) {
	if o.wants(s) {
		_, err := o.w.Write(output)
		o.Failed(err)
	}
}

// Lacks is part of delivery.Target.
func (o *output) Lacks(delivery.Gap) {}

// entry writes an entry of the log.
func (o *output) entry(e delivery.Entry) error {
	if o.Entry(o, e) {
		if name, piece, ok := job.DecodeOutput(e.Type, e.Payload); ok {
			o.Output(delivery.StreamOf(name), piece)
		}
	}
	return o.Err
}

// errKeptUnknown fails a request: what is kept may be there, so it is not missing.
var errKeptUnknown = &Failure{Code: http.StatusServiceUnavailable, Message: "Kept output cannot be read now; try again", RetryAfter: 2}

// kept reads what the files have of a part of a stream, up to the place that willMiss has found (delivery.ReadKept).
func (o *output) kept(part outflow.Part, take func([]byte) bool) (at int64) {
	if len(o.until) > 0 {
		part.To = min(part.To, o.until[0])
		o.until = o.until[1:]
	}
	return o.readKept(part, take)
}

// readKept reads what the files have of a part of a stream. Without an answer the request fails.
func (o *output) readKept(part outflow.Part, take func([]byte) bool) (at int64) {
	at = part.From
	part.To = min(part.To, o.ends.Of(part.Stream))
	if o.open == nil || !o.wants(part.Stream) || at >= part.To {
		return at
	}
	conn, err := o.open(admission.ClientOf(o.ctx), end.Hello{Job: o.id, Kept: &part})
	if err != nil {
		o.Failed(errKeptUnknown)
		return at
	}
	defer conn.Close()
	defer context.AfterFunc(o.ctx, func() { _ = conn.Close() })()
	if o.buffer == nil {
		o.buffer = make([]byte, outflow.FrameMax)
	}
	for at < part.To {
		f, err := outflow.ReadFrame(conn, o.buffer)
		if err != nil && context.Cause(o.ctx) == nil {
			o.Failed(errKeptUnknown)
		}
		if err != nil || f.Ends() {
			break
		}
		at += int64(len(f.Output))
		if !take(f.Output) {
			break
		}
	}
	o.Failed(context.Cause(o.ctx))
	return at
}

// keptUntil is the place up to which the files have a part of a stream. They are asked once if they have all of it, and not for what comes
// after the death of a process, of which the log does not know how much it is.
func (o *output) keptUntil(part outflow.Part) int64 {
	has := func(at int64) bool {
		return o.readKept(outflow.Part{Stream: part.Stream, From: at, To: at + 1, Tries: part.Tries}, func([]byte) bool { return true }) > at
	}
	if part.From >= part.To || part.To == math.MaxInt64 {
		return part.To
	}
	part.To = max(part.From, min(part.To, o.ends.Of(part.Stream)))
	switch {
	case part.From == part.To || has(part.To-1):
		return part.To
	case !has(part.From):
		return part.From
	}
	return part.From + int64(sort.Search(int(part.To-part.From), func(n int) bool { return !has(part.From + int64(n)) }))
}

// willMiss is how much of what is wanted the log and the files lack. It finds up to where the files are read.
func (o *output) willMiss(luxi Luxi, l jobLog) (bytes int64, err error) {
	if o.ends, err = o.mayKeep(o.ctx, luxi, l); err != nil {
		return 0, err
	}
	var until []int64
	bytes = o.dry(l, func(part outflow.Part) int64 {
		until = append(until, o.keptUntil(part))
		return until[len(until)-1]
	})
	o.until = until
	return bytes, o.Err
}

// dry is how much would be missing of what is wanted, if the files had each part of a stream up to the place that kept returns.
func (o *output) dry(l jobLog, kept func(outflow.Part) int64) (bytes int64) {
	dry := output{only: o.only}
	dry.Kept = func(part outflow.Part, _ func([]byte) bool) int64 { return kept(part) }
	for i := range l.entries {
		dry.Entry(&dry, l.entries[i].delivered())
	}
	return dry.missed()
}

// mayKeep is the place after what the files of a job can have at most. Most jobs keep nothing, and then no node is asked. A job that has
// ended vouches in its results for what was kept, unless a process of it has died. With tries it is not known where that is.
func (o *output) mayKeep(ctx context.Context, luxi Luxi, l jobLog) (outflow.Position, error) {
	var kept outflow.Position
	lacks, cut, tried := false, false, false
	for i := range l.entries {
		switch e := l.entries[i].delivered(); e.Type {
		case job.LogMissing:
			lacks = true
		case job.LogCut:
			cut = true
		case job.LogTry:
			var ended job.EndedTry
			_ = json.Unmarshal(e.Payload, &ended)
			kept, tried = plus(kept, keptIn(ended.Result)), true
		}
	}
	switch {
	case cut || !IsFinal(l.status):
		return everything, nil
	case o.open == nil || !lacks:
		return outflow.Position{}, nil
	}
	var rows [1][1][]json.RawMessage
	data, err := luxi.Call(ctx, Page, "QueryJobs", []int64{o.id}, []string{"opresult"})
	if err == nil && json.Unmarshal(data, &rows) != nil {
		err = &wire.MalformedResponse{Err: errors.New("the results of a job cannot be read")}
	}
	for _, result := range rows[0][0] {
		kept = plus(kept, keptIn(result))
	}
	if tried && kept != (outflow.Position{}) {
		kept = everything
	}
	return kept, err
}

func plus(a, b outflow.Position) outflow.Position {
	return outflow.Position{Stdout: a.Stdout + b.Stdout, Stderr: a.Stderr + b.Stderr}
}

// keptIn is what the result of an opcode says of its kept output, in bytes: {"kept": ...} or ["Class", [text, {"kept": ...}]].
func keptIn(result json.RawMessage) outflow.Position {
	var class string
	var arguments []json.RawMessage
	if json.Unmarshal(result, &[]any{&class, &arguments}) == nil && len(arguments) > 1 {
		result = arguments[1]
	}
	var object struct {
		Kept struct{ Stdout, Stderr struct{ Bytes int64 } }
	}
	if json.Unmarshal(result, &object) != nil { // of another opcode
		return outflow.Position{}
	}
	return outflow.Position{Stdout: max(0, object.Kept.Stdout.Bytes), Stderr: max(0, object.Kept.Stderr.Bytes)}
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
	o := newOutput(ctx, open, id, stream)
	missing, err := o.willMiss(luxi, l)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(begin(missing), outflow.FrameMax)
	o.w = w
	for i := range l.entries {
		if err := o.entry(l.entries[i].delivered()); err != nil {
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

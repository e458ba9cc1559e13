// Package delivery joins what there is of the output of a job for one reader: the job's log, the frames of its process, and the kept files.
//
// It has no goroutines and no clock. The command line, the remote API and the console drive it.
package delivery

import (
	"encoding/json"
	"iter"
	"math"

	"lockstep/core/job"
	"lockstep/core/outflow"
)

// Target is where a Delivery goes.
type Target interface {
	// Output shows output that is not from the log, at any place of a line. It is valid during the call.
	Output(s outflow.Stream, output []byte)
	// Lacks says that output is missing at this place.
	Lacks(g Gap)
}

// Entry is an entry of a log, outside Ganeti's form (job.FromMessage).
type Entry struct {
	Serial  int64
	Type    string
	Payload json.RawMessage
}

// Gap is output that is missing.
type Gap struct {
	job.Output
	Exact  bool       // the lines are counted, and Had is what comes before; not if only the bytes are known
	Had    job.Output // of the job before it
	Serial int64      // of the entry of the log that says so; 0: none
}

// ReadKept reads a part of a stream from the files of --keep-output. It passes the output to take, in order, until take returns false,
// and returns the place after the last byte; the beginning of the part if the files have none of it. The output is valid during the call.
type ReadKept func(part outflow.Part, take func(output []byte) bool) (at int64)

// Delivery passes each byte of a job's output once, in the order of its stream, or says that it is missing.
//
// Output comes from the log until the process of the job sends some. From the place where that begins, the log's output is not shown.
// What neither has is asked of the files.
type Delivery struct {
	// Kept reads the files; nil: they are not asked.
	Kept ReadKept

	Account   job.OutputAccount // of the log
	Streamed  bool              // the process sends
	Have      outflow.Position  // what was shown or is missing
	Missing   job.Output
	Uncounted bool  // of Missing, not all lines are known
	Err       error // the first error of a write
	Tries     int   // ended tries in the log so far, after each of which another process sends and keeps

	begins  outflow.Position // where the process has begun to send
	keptEnd [2]bool          // by stream: the files of the process have nothing of a place up to which was asked
	cut     bool             // the process has died, and sent what is not in the log
}

// StreamName is a stream as the log calls it.
func StreamName(s outflow.Stream) string {
	if s == outflow.Stderr {
		return job.LogStderr
	}
	return job.LogStdout
}

// StreamOf is the stream that the log calls so.
func StreamOf(name string) outflow.Stream {
	if name == job.LogStderr {
		return outflow.Stderr
	}
	return outflow.Stdout
}

// AmountIn is what an amount has of one stream.
func AmountIn(o *job.Output, s outflow.Stream) *job.StreamOutput {
	if s == outflow.Stderr {
		return &o.Stderr
	}
	return &o.Stdout
}

// PositionIn is the place up to which a log was read.
func PositionIn(log *job.OutputAccount) outflow.Position {
	return outflow.After(log.Delivered.Plus(log.Missing))
}

// Failed notes the error of a write; nil: none. The files are not read on.
func (d *Delivery) Failed(err error) {
	if d.Err == nil {
		d.Err = err
	}
}

// Begin says that the process of the job sends its output from a place on. A second call has no effect: after a new connection it goes on.
func (d *Delivery) Begin(at outflow.Position) {
	if !d.Streamed {
		d.Streamed, d.begins = true, at
	}
}

// endTry takes an entry which says that all output of a try is over that the log knows, and that the output of another process follows.
// What the process of the try has not sent, and not kept, is missing.
func (d *Delivery) endTry(to Target) {
	at := PositionIn(&d.Account)
	d.upTo(to, outflow.Stdout, at.Stdout)
	d.upTo(to, outflow.Stderr, at.Stderr)
	if d.cut {
		d.afterCut(to)
	}
	d.Tries++
	// The process of a lost try may have sent or kept what the log does not have; the account says that this is uncertain.
	d.Have, d.Streamed, d.begins, d.keptEnd, d.cut = at, false, outflow.Position{}, [2]bool{}, false
}

// Loses reports whether the next entry of the log says that output is lost.
func (d *Delivery) Loses(e Entry) bool {
	account := d.Account
	return e.Type == job.LogMissing && account.Add(e.Type, e.Payload) != (job.Output{})
}

// Entry takes the next entry of the log, and passes what comes before it. It reports whether the caller is to show the entry itself.
func (d *Delivery) Entry(to Target, e Entry) (shows bool) {
	at, had := PositionIn(&d.Account), d.Account.Delivered
	lost := d.Account.Add(e.Type, e.Payload)
	if lost != (job.Output{}) {
		g := Gap{Output: d.fillLost(to, lost, at), Serial: e.Serial}
		if g.Output == (job.Output{}) {
			return false // it is there
		}
		g.Exact = g.Output == lost
		g.Had = d.Account.Delivered.Plus(d.Account.Missing).Minus(lost)
		d.lack(to, g)
	}
	amount := outflow.After(d.Account.Delivered.Minus(had))
	switch {
	case amount != (outflow.Position{}):
		s := outflow.Stdout
		if amount.Stderr > 0 {
			s = outflow.Stderr
		}
		if place := at.Of(s); place < d.Have.Of(s) || d.Streamed && place >= d.begins.Of(s) {
			return false
		}
		*d.Have.In(s) += amount.Of(s)
	case d.Streamed && (job.IsOutput(e.Type) || e.Type == job.LogMissing):
		return false
	case e.Type == job.LogCut && !d.Streamed:
		d.afterCut(to)
	case e.Type == job.LogCut:
		d.cut = true
	case e.Type == job.LogTry:
		d.endTry(to)
	}
	return true
}

// fillLost passes from the files what the log has lost after a place, and returns the rest, which is missing. What the process sends, or
// was shown, is not asked for.
func (d *Delivery) fillLost(to Target, lost job.Output, at outflow.Position) (rest job.Output) {
	rest = lost
	for s := range outflow.Stderr + 1 {
		amount := AmountIn(&rest, s)
		from, until := max(at.Of(s), d.Have.Of(s)), at.Of(s)+amount.Bytes
		if d.Streamed {
			until = min(until, d.begins.Of(s))
		}
		left := int64(0)
		if from < until {
			left = until - d.fromKept(to, s, from, until)
			*d.Have.In(s) = until
		}
		if left != amount.Bytes {
			*amount = job.StreamOutput{Bytes: left}
		}
	}
	return rest
}

// fromKept passes what the files have of a part of a stream, and returns the place after it.
func (d *Delivery) fromKept(to Target, s outflow.Stream, from, until int64) (at int64) {
	if d.Kept == nil || d.keptEnd[s] {
		return from
	}
	at = d.Kept(outflow.Part{Stream: s, From: from, To: until, Tries: d.Tries}, func(output []byte) bool {
		to.Output(s, output)
		return d.Err == nil
	})
	d.keptEnd[s] = at < until // what a process keeps of a stream is its beginning
	return at
}

// afterCut passes what the files have and the log has not, because the process of the job died before it had saved it there.
func (d *Delivery) afterCut(to Target) {
	for s := range outflow.Stderr + 1 {
		*d.Have.In(s) = d.fromKept(to, s, d.Have.Of(s), math.MaxInt64)
	}
}

func (d *Delivery) lack(to Target, g Gap) {
	d.Missing = d.Missing.Plus(g.Output)
	d.Uncounted = d.Uncounted || !g.Exact
	to.Lacks(g)
}

// upTo passes a stream from the files up to the place where other output begins.
func (d *Delivery) upTo(to Target, s outflow.Stream, place int64) {
	from := d.Have.Of(s)
	if from >= place {
		return
	}
	at := d.fromKept(to, s, from, place)
	*d.Have.In(s) = place
	if at < place {
		var g Gap
		AmountIn(&g.Output, s).Bytes = place - at
		d.lack(to, g)
	}
}

// Frame takes the next frame of the job's process, and passes what is new of it.
func (d *Delivery) Frame(to Target, f outflow.Frame) {
	d.Begin(f.At)
	d.rest(to, f)
}

// rest passes output at its place, as far as it is new, or the end of all output.
func (d *Delivery) rest(to Target, f outflow.Frame) {
	if f.Ends() {
		d.upTo(to, outflow.Stdout, f.At.Stdout)
		d.upTo(to, outflow.Stderr, f.At.Stderr)
		return
	}
	place := f.At.Of(f.Stream)
	d.upTo(to, f.Stream, place)
	if known := d.Have.Of(f.Stream) - place; known < int64(len(f.Output)) {
		*d.Have.In(f.Stream) = place + int64(len(f.Output))
		to.Output(f.Stream, f.Output[max(known, 0):])
	}
}

// RestOfLog passes what is in the whole log of a job and was not shown: the process, the last one of the job, does not send its rest.
func (d *Delivery) RestOfLog(to Target, entries iter.Seq[Entry]) {
	var log job.OutputAccount
	cut := false
	for e := range entries {
		at := PositionIn(&log)
		log.Add(e.Type, e.Payload)
		if name, output, ok := job.DecodeOutput(e.Type, e.Payload); ok && len(output) > 0 {
			d.rest(to, outflow.Frame{At: at, Stream: StreamOf(name), Output: output})
		}
		cut = e.Type == job.LogCut || cut && e.Type != job.LogTry
	}
	d.rest(to, outflow.Frame{At: PositionIn(&log)})
	// After a failover the log may be shorter than what the former master has shown of it, so its last entries have known serials.
	d.Account.Uncertain = d.Account.Uncertain || log.Uncertain
	if cut {
		d.afterCut(to)
	}
}

package follow

import (
	"math"
	"slices"

	"lockstep/core/job"
	"lockstep/core/outflow"
	"lockstep/edge/outputs/end"
)

// view is where a delivery goes.
type view interface {
	// entry shows an entry of the log. typ and payload are its type and payload outside Ganeti's form.
	entry(e LogEntry, typ string, payload []byte)
	// output shows output that is not from the log, at any place of a line.
	output(s outflow.Stream, output []byte)
	// lacks says that output is missing at this place.
	lacks(g gap)
}

// gap is output that is missing.
type gap struct {
	job.Output
	exact  bool       // the lines are counted, and had is what comes before; not if only the bytes are known
	had    job.Output // of the job before it
	serial int64      // of the entry of the log that says so; 0: none
}

// delivery brings together what there is of the output of a job: its log, a Stream, and the kept files. It passes each byte to a view
// once, in the order of its stream, or says that it is missing.
//
// Output comes from the log until a Stream brings some. From the place where the Stream begins, the log's output is not shown.
// What neither has is asked of the files.
type delivery struct {
	// Kept reads the files; nil: they are not asked.
	Kept ReadKept

	keptEnd   [2]bool           // by stream: the files have nothing of a place up to which was asked
	account   job.OutputAccount // of the log
	streamed  bool              // a Stream has begun
	begins    outflow.Position  // where it has
	have      outflow.Position  // what was shown or is missing
	missing   job.Output
	uncounted bool  // of missing, not all lines are known
	unwritten error // the first error of a write
}

// streamName is a stream as the log calls it.
func streamName(s outflow.Stream) string {
	if s == outflow.Stderr {
		return job.LogStderr
	}
	return job.LogStdout
}

func streamOf(name string) outflow.Stream {
	if name == job.LogStderr {
		return outflow.Stderr
	}
	return outflow.Stdout
}

func bytesOf(o job.Output) outflow.Position {
	return outflow.Position{Stdout: o.Stdout.Bytes, Stderr: o.Stderr.Bytes}
}

// placeIn and amountIn are what is of one stream.
func placeIn(p *outflow.Position, s outflow.Stream) *int64 {
	if s == outflow.Stderr {
		return &p.Stderr
	}
	return &p.Stdout
}

func amountIn(o *job.Output, s outflow.Stream) *job.StreamOutput {
	if s == outflow.Stderr {
		return &o.Stderr
	}
	return &o.Stdout
}

// beginStream says that a Stream brings the output from a place on. A second call has no effect: a Stream that connects again goes on.
func (d *delivery) beginStream(at outflow.Position) {
	if !d.streamed {
		d.streamed, d.begins = true, at
	}
}

// entries shows entries of the log.
func (d *delivery) entries(v view, entries []LogEntry) {
	for _, e := range entries {
		typ, payload := job.FromMessage(e.Type, e.Payload)
		at := bytesOf(d.account.Delivered.Plus(d.account.Missing))
		lost := d.account.Add(typ, payload)
		if lost != (job.Output{}) {
			g := gap{Output: d.fillLost(v, lost, at), serial: e.Serial}
			if g.Output == (job.Output{}) {
				continue // it is there
			}
			g.exact = g.Output == lost
			g.had = d.account.Delivered.Plus(d.account.Missing).Minus(lost)
			d.lack(v, g)
		}
		name, output, isOutput := job.DecodeOutput(typ, payload)
		switch {
		case isOutput:
			s := streamOf(name)
			if place := at.Of(s); place < d.have.Of(s) || d.streamed && place >= d.begins.Of(s) {
				continue
			}
			*placeIn(&d.have, s) += int64(len(output))
		case d.streamed && (job.IsOutput(typ) || typ == job.LogMissing):
			continue
		case typ == job.LogCut && !d.streamed:
			d.afterCut(v)
		}
		v.entry(e, typ, payload)
	}
}

// fillLost shows from the files what the log has lost after a place, and returns the rest, which is missing. What a Stream brings, or was
// shown, is not asked for.
func (d *delivery) fillLost(v view, lost job.Output, at outflow.Position) (rest job.Output) {
	rest = lost
	for _, s := range []outflow.Stream{outflow.Stdout, outflow.Stderr} {
		amount := amountIn(&rest, s)
		from, to := max(at.Of(s), d.have.Of(s)), at.Of(s)+amount.Bytes
		if d.streamed {
			to = min(to, d.begins.Of(s))
		}
		left := int64(0)
		if from < to {
			left = to - d.fromKept(v, s, from, to)
			*placeIn(&d.have, s) = to
		}
		if left != amount.Bytes {
			*amount = job.StreamOutput{Bytes: left}
		}
	}
	return rest
}

// fromKept shows what the files have of a part of a stream, and returns the place after it.
func (d *delivery) fromKept(v view, s outflow.Stream, from, to int64) (at int64) {
	if d.Kept == nil || d.keptEnd[s] {
		return from
	}
	at = d.Kept(end.Kept{Stream: s, From: from, To: to}, func(output []byte) bool {
		v.output(s, output)
		return d.unwritten == nil
	})
	d.keptEnd[s] = at < to // what is kept of a stream is its beginning
	return at
}

// afterCut shows what the files have and the log has not, because the process of the job died before it had saved it there.
func (d *delivery) afterCut(v view) {
	for _, s := range []outflow.Stream{outflow.Stdout, outflow.Stderr} {
		*placeIn(&d.have, s) = d.fromKept(v, s, d.have.Of(s), math.MaxInt64)
	}
}

func (d *delivery) lack(v view, g gap) {
	d.missing = d.missing.Plus(g.Output)
	d.uncounted = d.uncounted || !g.exact
	v.lacks(g)
}

// upTo shows a stream from the files up to the place where other output begins.
func (d *delivery) upTo(v view, s outflow.Stream, to int64) {
	from := d.have.Of(s)
	if from >= to {
		return
	}
	at := d.fromKept(v, s, from, to)
	*placeIn(&d.have, s) = to
	if at < to {
		var g gap
		amountIn(&g.Output, s).Bytes = to - at
		d.lack(v, g)
	}
}

// frame shows a frame of a Stream, as far as it is new.
func (d *delivery) frame(v view, f outflow.Frame) {
	d.beginStream(f.At)
	d.rest(v, f)
}

// rest shows output at its place, as far as it is new, or the end of all output.
func (d *delivery) rest(v view, f outflow.Frame) {
	if f.Ends() {
		d.upTo(v, outflow.Stdout, f.At.Stdout)
		d.upTo(v, outflow.Stderr, f.At.Stderr)
		return
	}
	place := f.At.Of(f.Stream)
	d.upTo(v, f.Stream, place)
	if known := d.have.Of(f.Stream) - place; known < int64(len(f.Output)) {
		*placeIn(&d.have, f.Stream) = place + int64(len(f.Output))
		v.output(f.Stream, f.Output[max(known, 0):])
	}
}

// restOfLog shows what is in the whole log of a job and was not shown: the Stream has broken off.
func (d *delivery) restOfLog(v view, entries []LogEntry) {
	var log job.OutputAccount
	for _, e := range entries {
		at := bytesOf(log.Delivered.Plus(log.Missing))
		typ, payload := job.FromMessage(e.Type, e.Payload)
		log.Add(typ, payload)
		if name, output, ok := job.DecodeOutput(typ, payload); ok && len(output) > 0 {
			d.rest(v, outflow.Frame{At: at, Stream: streamOf(name), Output: output})
		}
	}
	d.rest(v, outflow.Frame{At: bytesOf(log.Delivered.Plus(log.Missing))})
	// After a failover the log may be shorter than what the former master has shown of it, so its last entries have known serials.
	d.account.Uncertain = d.account.Uncertain || log.Uncertain
	if slices.ContainsFunc(entries, func(e LogEntry) bool { return typeOf(e) == job.LogCut }) {
		d.afterCut(v)
	}
}

func (d *delivery) keep(err error) {
	if d.unwritten == nil {
		d.unwritten = err
	}
}

// losses are what is missing of the output that was shown.
func (d *delivery) losses() Losses {
	switch {
	case d.unwritten != nil:
		return Losses("output could not be written: " + d.unwritten.Error())
	case d.missing != (job.Output{}):
		return "output is missing"
	case d.account.Unreadable > 0 && !d.streamed:
		return "output is missing, since log entries cannot be read"
	case d.account.Uncertain:
		return "output may be missing"
	}
	return ""
}

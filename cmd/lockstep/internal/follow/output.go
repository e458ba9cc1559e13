package follow

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/outflow"
	"lockstep/core/outflow/delivery"
)

// OutputHelp is the part of the help of run and log about a command's output.
const OutputHelp = `Standard output goes to standard output and standard error to standard error. In
a pipe or file the bytes are exactly those of the command. On a terminal, escape
sequences and control characters are removed; a carriage return begins the line of
one job again. The order of lines of different streams is approximate.

Who runs a command and follows it gets all of its output: the command waits until
the output is taken, as it would wait at a pipe, and "list" and "why" say so. It goes
on alone when the one who follows ends, after 30 seconds without that one, and when
nothing was taken for the setting output_wait, one hour. Other readers, by watch and
log --follow, delay no command. They read the latest 1 MB, and may fall behind.

The log of a job is bounded: it keeps the first 250 kB and the last 750 kB or more
of each opcode, a quarter and three quarters of the setting log_limit; less if the
job has more than four opcodes. --keep-output of run keeps all output in files, and
watch and log read there what they miss. Nowhere is what processes that the command
leaves behind write later than a second after its end, and what a job process that
dies had not saved.

Where output is missing, standard error states how much, and at the end the totals
and the end of the command; the exit code is 125. --partial accepts missing output.`

// MissingEventHelp and LogTypesHelp are parts of the help of commands with JSON lines.
const (
	MissingEventHelp = `{"event": "missing", "job", "serial", "missing"}: the output missing at this place,
{"stdout": {"lines", "bytes"}, "stderr": {"lines", "bytes"}, "messages": number};
lines that were not counted are 0. Without serial no entry of the log says so.`
	LogTypesHelp = `Types of a log entry and their payloads: "stdout" and "stderr" a line without its
newline; "stdout-part" a piece of text without a newline at its end;
"stdout-base64" a piece that is not UTF-8, in base64; the same for "stderr";
"output-missing" {"missing", "written"}: output dropped at this place, and
written by the job up to this place; "output-open" the streams that other
processes had open after the end; "output-cut" null, the job process died here;
"output-note" a text about the output; "try-ended" {"try", "most", "end", "result",
"due_ts"}: a try has failed, another one follows; "message" a text; others a value. Output that is not from the log has no serial, and
the time at which it came.`
)

// JobOutput writes the log of a job for people: the output of its commands and the messages of its opcodes. Output of a command goes to
// the same stream: byte for byte, or for a terminal without control characters. Missing output is reported on standard error only.
type JobOutput struct {
	ID      int64
	Streams cli.Streams
	// Others: entries without text are shown, too.
	Others bool
	// Quiet: the ends of tries are not reported.
	Quiet bool
	// Mixed: other lines are written between those of standard output, which is then not
	// byte for byte.
	Mixed bool
	// Stamped: each line begins with its timestamp.
	Stamped bool
	// Prefixed: lines of other jobs come between, so that no line is written again.
	Prefixed bool

	delivery.Delivery
	lines  [2]*jobproc.LineSplitter // by stream, of output that is not from the log
	states map[string]lineState
	open   string // the stream whose last line has no newline yet
}

// lineState is the state of a stream after its last piece.
type lineState uint8

const (
	lineBegins lineState = iota
	lineGoesOn
	afterReturn // the last piece ended with a carriage return
)

func (o *JobOutput) entries(entries []LogEntry) {
	for _, e := range entries {
		if d := e.delivered(); o.Entry(o, d) {
			e.Type, e.Payload = d.Type, d.Payload
			o.entry(e)
		}
	}
}

// entry shows an entry that is not in Ganeti's form.
func (o *JobOutput) entry(entry LogEntry) {
	typ, payload := entry.Type, entry.Payload
	stream, piece, ok := job.DecodeOutput(typ, payload)
	switch {
	case ok:
		o.flushLines()
		o.write(stream, entry, piece)
	case typ == job.LogMissing:
		if _, known := decodeMissing(payload); !known {
			o.report(unreadableText)
		}
	case job.IsOutput(typ):
		o.report(unreadableText)
	case typ == job.LogOpen:
		o.report(openText(payload))
	case typ == job.LogCut:
		o.report(job.CutText)
	case typ == job.LogTry && o.Quiet:
	case typ == job.LogNote || typ == job.LogTry:
		o.report(entry.Text())
	case typ == job.LogMessage || o.Others:
		o.flushLines()
		o.write(job.LogStdout, entry, []byte(entry.Text()+"\n"))
	}
}

// Output is part of delivery.Target. For a terminal, with timestamps, and between other lines it is cut into lines, as the log has them.
func (o *JobOutput) Output(s outflow.Stream, output []byte) {
	name := delivery.StreamName(s)
	if _, terminal := o.writer(name); !terminal && !o.Stamped && !o.Mixed {
		o.write(name, LogEntry{}, output)
		return
	}
	if o.lines[s] == nil {
		o.lines[s] = &jobproc.LineSplitter{Emit: func(line []byte) {
			o.write(name, LogEntry{Time: client.Timestamp{Time: o.Streams.Now()}}, line)
		}}
	}
	o.lines[s].Write(output)
}

// flushLines writes lines that are not complete.
func (o *JobOutput) flushLines() {
	for _, l := range o.lines {
		if l != nil {
			l.Flush()
		}
	}
}

func (o *JobOutput) writer(stream string) (w io.Writer, terminal bool) {
	if stream == job.LogStderr {
		return o.Streams.Err, o.Streams.ErrTerminal
	}
	return o.Streams.Out, o.Streams.OutTerminal
}

// report writes one line about the current place to standard error.
func (o *JobOutput) report(text string) {
	o.flushLines()
	o.EndLine()
	cli.PrintError(o.Streams.Err, fmt.Sprintf("job %d: %s", o.ID, text))
}

// put writes text to a stream and keeps the first error.
func (o *JobOutput) put(w io.Writer, text []byte) {
	_, err := w.Write(text)
	o.Failed(err)
}

// write writes one piece of a stream to its output, at a terminal without control characters and with lines of both streams kept apart.
func (o *JobOutput) write(stream string, entry LogEntry, piece []byte) {
	before := o.states[stream]
	if o.states == nil {
		o.states = map[string]lineState{}
	}
	o.states[stream] = stateAfter(piece)
	restOfEnd := before == afterReturn && string(piece) == "\n"
	prefix := ""
	if o.Stamped && before != lineGoesOn && !restOfEnd {
		prefix = term.FullClock(o.Streams.Now(), entry.Time.Time) + "  "
	}
	w, terminal := o.writer(stream)
	if !terminal {
		if prefix != "" {
			piece = append([]byte(prefix), piece...)
		}
		o.put(w, piece)
		if o.Mixed && stream == job.LogStdout {
			o.open = ""
			if o.states[stream] == lineGoesOn {
				o.open = stream
			}
		}
		return
	}
	o.writeToTerminal(w, stream, restOfEnd, before == afterReturn, prefix, piece)
}

// writeToTerminal writes one piece of a stream without control characters. After a carriage return the line is written again. Where it
// cannot be, because lines of other jobs come between, the carriage return ends it.
func (o *JobOutput) writeToTerminal(w io.Writer, stream string, restOfEnd, returned bool, prefix string, piece []byte) {
	again := returned && o.open == stream
	if restOfEnd {
		if again {
			o.EndLine()
		}
		return // the carriage return was the first part of the end of the line
	}
	if o.open != stream {
		o.EndLine()
	}
	text := term.Stripped(strings.ToValidUTF8(string(piece), "\ufffd"))
	if again && strings.Trim(text, "\n") != "" {
		prefix = term.EraseLine + prefix
	}
	o.open = stream
	switch state := o.states[stream]; {
	case state == afterReturn && o.Prefixed:
		text += "\n"
		o.open = ""
	case state == lineBegins:
		o.open = ""
	}
	o.put(w, []byte(prefix+text))
}

func stateAfter(piece []byte) lineState {
	switch {
	case bytes.HasSuffix(piece, []byte("\n")):
		return lineBegins
	case bytes.HasSuffix(piece, []byte("\r")):
		return afterReturn
	default:
		return lineGoesOn
	}
}

// EndLine ends an open line before other text. Without an open line it does nothing.
func (o *JobOutput) EndLine() {
	if o.open != "" {
		w, _ := o.writer(o.open)
		fmt.Fprintln(w)
		o.open = ""
	}
}

// Lacks is part of delivery.Target.
func (o *JobOutput) Lacks(g delivery.Gap) {
	say := func(name string, missing, had job.StreamOutput) {
		switch {
		case missing == (job.StreamOutput{}):
		case g.Exact:
			o.report(fmt.Sprintf("missing here: %s (%s) of %s, after line %d",
				term.Count(missing.Lines, "line"), term.Count(missing.Bytes, "byte"), name, had.Lines))
		default:
			o.report("missing here: " + term.Count(missing.Bytes, "byte") + " of " + name)
		}
	}
	say("standard output", g.Stdout, g.Had.Stdout)
	say("standard error", g.Stderr, g.Had.Stderr)
	if g.Messages > 0 {
		o.report("missing here: " + term.Count(g.Messages, "log message"))
	}
}

// finish ends the last line, also one that a stream keeps back, and reports the total of missing output.
func (o *JobOutput) finish() {
	o.flushLines()
	o.EndLine()
	for _, w := range []io.Writer{o.Streams.Out, o.Streams.Err} {
		if w, is := w.(interface{ Flush() error }); is {
			o.Failed(w.Flush())
		}
	}
	if o.Missing == (job.Output{}) {
		return
	}
	cli.PrintError(o.Streams.Err, fmt.Sprintf("job %d: missing in all: %s. The log of a job is bounded; "+
		"\"lockstep run --keep-output\" keeps all output of a command", o.ID, strings.Join(o.totals(), " and ")))
}

// totals are how much of what is missing.
func (o *JobOutput) totals() []string {
	all := o.Account.Delivered.Plus(o.Account.Missing)
	var parts []string
	part := func(name string, missing, all job.StreamOutput, shown int64) {
		switch {
		case missing == (job.StreamOutput{}):
		case o.Uncounted:
			parts = append(parts, fmt.Sprintf("%d of %s of %s", missing.Bytes, term.Count(max(shown, all.Bytes), "byte"), name))
		default:
			parts = append(parts, fmt.Sprintf("%d of %s of %s (%d of %s)", missing.Lines, term.Count(all.Lines, "line"), name,
				missing.Bytes, term.Count(all.Bytes, "byte")))
		}
	}
	part("standard output", o.Missing.Stdout, all.Stdout, o.Have.Stdout)
	part("standard error", o.Missing.Stderr, all.Stderr, o.Have.Stderr)
	if o.Missing.Messages > 0 {
		parts = append(parts, fmt.Sprintf("%d of %s", o.Missing.Messages, term.Count(all.Messages, "log message")))
	}
	return parts
}

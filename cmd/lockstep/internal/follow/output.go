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
	"lockstep/core/outflow"
)

// OutputHelp is the part of the help of run and log about a command's output.
const OutputHelp = `Standard output goes to standard output and standard error to standard error. In
a pipe or file the bytes are exactly those of the command. On a terminal, escape
sequences and control characters are removed. The order of lines of different
streams is approximate.

The log of a job is bounded: it keeps the first 250 kB and the last 750 kB or more
of each opcode, a quarter and three quarters of the setting log_limit; less if the
job has more than four opcodes. A follower also misses
output if the command writes faster than the follower reads. Not in the log is what
processes that the command leaves behind write later than a second after its end,
and what a job process that dies had not saved. Where lines are missing, standard
error states the number of lines and bytes, and at the end the totals and the end
of the command; the exit code is 125. --partial accepts missing output. To keep all
output, redirect it in the command: sh -c 'COMMAND > FILE'.`

// MissingEventHelp and LogTypesHelp are parts of the help of commands with JSON lines.
const (
	MissingEventHelp = `{"event": "missing", "job", "serial", "missing"}: the output missing before the
entry with that serial, {"stdout": {"lines", "bytes"}, "stderr": {"lines", "bytes"},
"messages": number}.`
	LogTypesHelp = `Types of a log entry and their payloads: "stdout" and "stderr" a line without its
newline; "stdout-part" a piece of text without a newline at its end;
"stdout-base64" a piece that is not UTF-8, in base64; the same for "stderr";
"output-missing" {"missing", "written"}: output dropped at this place, and
written by the job up to this place; "output-open" the streams that other
processes had open after the end; "output-cut" null, the job process died here;
"message" a text; others a value.`
)

// JobOutput writes the log of a job for people: the output of its commands and the messages of its opcodes. Output of a command goes to
// the same stream: byte for byte, or for a terminal without control characters. Missing output is reported on standard error only.
type JobOutput struct {
	ID      int64
	Streams cli.Streams
	// Others: entries without text are shown, too.
	Others bool
	// Mixed: other lines are written between those of standard output, which is then not
	// byte for byte.
	Mixed bool
	// Stamped: each line begins with its timestamp.
	Stamped bool

	account job.OutputAccount // of the log
	// streamed: output comes by a Stream, beside the log, whose output is not shown then. have is what was shown of the output or reported
	// as missing.
	streamed  bool
	have      outflow.Position
	missed    outflow.Position // of have: what was missing on the Stream
	unwritten error            // the first error of a write
	states    map[string]lineState
	open      string // the stream whose last line has no newline yet
}

// lineState is the state of a stream after its last piece.
type lineState uint8

const (
	lineBegins lineState = iota
	lineGoesOn
	afterReturn // the last piece ended with a carriage return
)

// Show writes log entries to their streams, and reports missing ones at their places.
func (o *JobOutput) Show(entries []LogEntry) {
	for _, entry := range entries {
		entry.Type, entry.Payload = job.FromMessage(entry.Type, entry.Payload)
		gap := o.account.Add(entry.Type, entry.Payload)
		if o.streamed && (job.IsOutput(entry.Type) || entry.Type == job.LogMissing) {
			continue
		}
		if gap != (job.Output{}) {
			o.reportMissing(gap)
		}
		o.have = outputOf(o.account.Delivered.Plus(o.account.Missing))
		stream, piece, ok := job.DecodeOutput(entry.Type, entry.Payload)
		switch {
		case ok:
			o.write(stream, entry, piece)
		case entry.Type == job.LogMissing:
			if _, known := decodeMissing(entry.Payload); !known {
				o.report(unreadableText)
			}
		case job.IsOutput(entry.Type):
			o.report(unreadableText)
		case entry.Type == job.LogOpen:
			o.report(openText(entry.Payload))
		case entry.Type == job.LogCut:
			o.report(job.CutText)
		case entry.Type == job.LogMessage || o.Others:
			o.write(job.LogStdout, entry, []byte(entry.Text()+"\n"))
		}
	}
}

func outputOf(o job.Output) outflow.Position {
	return outflow.Position{Stdout: o.Stdout.Bytes, Stderr: o.Stderr.Bytes}
}

// ShowPiece writes output of a Stream, as far as the log has not brought it already.
func (o *JobOutput) ShowPiece(p Piece) {
	o.streamed = true
	name, have := job.LogStdout, &o.have.Stdout
	if p.Stream == outflow.Stderr {
		name, have = job.LogStderr, &o.have.Stderr
	}
	if p.Ends() {
		o.reportGap(job.LogStdout, p.At.Stdout-o.have.Stdout, &o.missed.Stdout)
		o.reportGap(job.LogStderr, p.At.Stderr-o.have.Stderr, &o.missed.Stderr)
		o.have = p.At
		return
	}
	from := p.At.Of(p.Stream)
	if p.Stream == outflow.Stderr {
		o.reportGap(name, from-*have, &o.missed.Stderr)
	} else {
		o.reportGap(name, from-*have, &o.missed.Stdout)
	}
	if shown := *have - from; shown < int64(len(p.Output)) {
		o.write(name, LogEntry{Time: client.Timestamp{Time: o.Streams.Now()}}, p.Output[max(shown, 0):])
		*have = from + int64(len(p.Output))
	}
}

// ShowRest shows what is in the whole log of a job and was not shown: the Stream has broken off.
func (o *JobOutput) ShowRest(entries []LogEntry) {
	var log job.OutputAccount
	for _, entry := range entries {
		before := outputOf(log.Delivered.Plus(log.Missing))
		log.Add(entry.Type, entry.Payload)
		if name, output, ok := job.DecodeOutput(entry.Type, entry.Payload); ok {
			p := Piece{Frame: outflow.Frame{At: before, Output: output}}
			if name == job.LogStderr {
				p.Stream = outflow.Stderr
			}
			o.ShowPiece(p)
		}
	}
	o.ShowPiece(Piece{Frame: outflow.Frame{At: outputOf(log.Delivered.Plus(log.Missing))}})
}

// IsStreamed reports whether output has come by a Stream.
func (o *JobOutput) IsStreamed() bool { return o.streamed }

// LogLacksOutput reports whether the log has lost output.
func (o *JobOutput) LogLacksOutput() bool { return o.account.Missing != (job.Output{}) }

// reportGap reports bytes of a stream that a Stream did not bring; there is none if the number is not positive.
func (o *JobOutput) reportGap(stream string, bytes int64, missed *int64) {
	if bytes > 0 {
		*missed += bytes
		o.report("missing here: " + term.Count(bytes, "byte") + " of " + streamWords.Replace(stream))
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
	o.EndLine()
	cli.PrintError(o.Streams.Err, fmt.Sprintf("job %d: %s", o.ID, text))
}

// put writes text to a stream and keeps the first error.
func (o *JobOutput) put(w io.Writer, text []byte) {
	_, err := w.Write(text)
	o.keep(err)
}

func (o *JobOutput) keep(err error) {
	if o.unwritten == nil {
		o.unwritten = err
	}
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
	if restOfEnd {
		return // the carriage return has ended the line
	}
	if o.open != stream {
		o.EndLine()
	}
	text := prefix + term.Stripped(strings.ToValidUTF8(string(piece), "\ufffd"))
	if o.states[stream] == afterReturn {
		text += "\n"
	}
	o.open = ""
	if o.states[stream] == lineGoesOn {
		o.open = stream
	}
	o.put(w, []byte(text))
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

// reportMissing reports the output missing at the current place.
func (o *JobOutput) reportMissing(gap job.Output) {
	had := o.account.Delivered.Plus(o.account.Missing).Minus(gap)
	say := func(name string, gap, had job.StreamOutput) {
		if gap != (job.StreamOutput{}) {
			o.report(fmt.Sprintf("missing here: %s (%s) of %s, after line %d",
				term.Count(gap.Lines, "line"), term.Count(gap.Bytes, "byte"), name, had.Lines))
		}
	}
	say("standard output", gap.Stdout, had.Stdout)
	say("standard error", gap.Stderr, had.Stderr)
	if gap.Messages > 0 {
		o.report("missing here: " + term.Count(gap.Messages, "log message"))
	}
}

// Losses are what is missing of the output that was shown.
func (o *JobOutput) Losses() Losses {
	account := o.account
	if o.streamed {
		account.Missing, account.Unreadable = o.streamMissing(), 0
	}
	return lossesOf(account, o.unwritten)
}

// streamMissing is what is missing of a Stream, in bytes: its lines were not seen.
func (o *JobOutput) streamMissing() job.Output {
	return job.Output{Stdout: job.StreamOutput{Bytes: o.missed.Stdout}, Stderr: job.StreamOutput{Bytes: o.missed.Stderr}}
}

// Finish ends the last line, also one that a stream keeps back, and reports the total of missing output.
func (o *JobOutput) Finish() {
	o.EndLine()
	for _, w := range []io.Writer{o.Streams.Out, o.Streams.Err} {
		if w, is := w.(interface{ Flush() error }); is {
			o.keep(w.Flush())
		}
	}
	missing := o.account.Missing
	all := o.account.Delivered.Plus(missing)
	if o.streamed {
		missing = o.streamMissing()
	}
	if missing == (job.Output{}) {
		return
	}
	var parts []string
	part := func(name string, missing, all job.StreamOutput) {
		switch {
		case missing == (job.StreamOutput{}):
		case missing.Lines == 0:
			parts = append(parts, term.Count(missing.Bytes, "byte")+" of "+name)
		default:
			parts = append(parts, fmt.Sprintf("%d of %s of %s (%d of %s)", missing.Lines, term.Count(all.Lines, "line"), name,
				missing.Bytes, term.Count(all.Bytes, "byte")))
		}
	}
	part("standard output", missing.Stdout, all.Stdout)
	part("standard error", missing.Stderr, all.Stderr)
	if missing.Messages > 0 {
		parts = append(parts, fmt.Sprintf("%d of %s", missing.Messages, term.Count(all.Messages, "log message")))
	}
	cli.PrintError(o.Streams.Err, fmt.Sprintf("job %d: missing in all: %s. The log of a job is bounded; to keep all output of a command, "+
		"redirect it in the command: sh -c 'COMMAND > FILE'", o.ID, strings.Join(parts, " and ")))
}

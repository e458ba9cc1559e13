package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"lockstep/core/job"
)

// exitIncomplete is the exit code with --strict-output if some output is missing.
const exitIncomplete = 125

// outputHelp says, in the help of run and log, what becomes of a command's output.
const outputHelp = `Standard output goes to standard output and standard error to standard error. In
a pipe or file the bytes are those that the command wrote. On a terminal, escape
sequences and control characters are removed. In which order the command wrote
lines of different streams is kept only roughly.

The log of a job is bounded: of each opcode it keeps the first 256 kB and the
last 768 kB or more, less if the job has more than four opcodes. A follower gets
all of it while it keeps pace, so a command that writes a lot quickly may lose
some for its follower too. Where lines are missing, standard error says how many
lines and bytes, and at the end how many of all. With --strict-output the exit
code is then 125. To keep all, redirect the output in the command:
sh -c 'COMMAND > FILE'.`

// missingEventHelp and logTypesHelp are for the help of commands with JSON lines.
const (
	missingEventHelp = `{"event": "missing", "job", "serial", "missing"}: what is missing before the entry
with that serial, {"stdout": {"lines", "bytes"}, "stderr": {"lines", "bytes"},
"messages": number}.`
	logTypesHelp = `Types of a log entry and their payloads: "stdout" and "stderr" a line without its
newline; "stdout-part" a piece of text whose line does not end with it in a
newline; "stdout-base64" a piece that is not UTF-8, in base64; the same for
"stderr"; "output-missing" {"missing", "written"}: dropped at this place, and
written by the job up to this place; "message" a text; others a value.`
)

const strictOutputUsage = "exit with code 125 if output is missing, however the job ended"

// jobOutput shows the log of a job. What a command wrote goes to the stream that it
// wrote it to: as it is, or without anything that could act on a terminal. What is
// missing is said on standard error, never on standard output.
type jobOutput struct {
	id      int64
	streams Streams
	// others: entries that are no text are shown too.
	others bool
	// mixed: other lines come between those of standard output, which is not
	// kept as it is for that reason.
	mixed bool
	// stamped: each line begins with its time.
	stamped bool

	account job.Account
	states  map[string]lineState
	open    string // the stream whose line has no end yet, where more may follow
}

// lineState is where a stream stands after its last piece.
type lineState uint8

const (
	lineBegins lineState = iota
	lineGoesOn
	afterReturn // the last piece ended with a carriage return
)

func (o *jobOutput) show(entries []logEntry) {
	for _, entry := range entries {
		if gap := o.account.Take(entry.Type, entry.Payload); gap != (job.Written{}) {
			o.sayMissing(gap)
		}
		stream, piece, ok := job.Output(entry.Type, entry.Payload)
		switch {
		case ok:
			o.write(stream, entry, piece)
		case entry.Type == job.LogMissing:
		case entry.Type == job.LogMessage || o.others:
			o.write(job.LogStdout, entry, []byte(entry.text()+"\n"))
		}
	}
}

func (o *jobOutput) writer(stream string) (w io.Writer, terminal bool) {
	if stream == job.LogStderr {
		return o.streams.Err, o.streams.ErrTerminal
	}
	return o.streams.Out, o.streams.OutTerminal
}

// write shows one piece of a stream. Errors of standard output are kept by its writer.
func (o *jobOutput) write(stream string, entry logEntry, piece []byte) {
	before := o.states[stream]
	if o.states == nil {
		o.states = map[string]lineState{}
	}
	o.states[stream] = stateAfter(piece)
	restOfEnd := before == afterReturn && string(piece) == "\n"
	prefix := ""
	if o.stamped && before != lineGoesOn && !restOfEnd {
		prefix = fullClock(o.streams.Now(), entry.Time.Time) + "  "
	}
	w, terminal := o.writer(stream)
	if !terminal {
		_, _ = w.Write(append([]byte(prefix), piece...))
		if o.mixed && stream == job.LogStdout {
			o.open = ""
			if o.states[stream] == lineGoesOn {
				o.open = stream
			}
		}
		return
	}
	if restOfEnd {
		return // the line has ended with the carriage return
	}
	if o.open != stream {
		o.endLine()
	}
	text := prefix + stripped(strings.ToValidUTF8(string(piece), "\ufffd"))
	if o.states[stream] == afterReturn {
		text += "\n"
	}
	o.open = ""
	if o.states[stream] == lineGoesOn {
		o.open = stream
	}
	_, _ = io.WriteString(w, text)
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

// endLine ends a line that has no end yet, before something else is shown.
func (o *jobOutput) endLine() {
	if o.open != "" {
		w, _ := o.writer(o.open)
		fmt.Fprintln(w)
		o.open = ""
	}
}

// sayMissing says what is missing where the output stands now.
func (o *jobOutput) sayMissing(gap job.Written) {
	o.endLine()
	had := o.account.Given.Plus(o.account.Missing).Minus(gap)
	say := func(name string, gap, had job.Volume) {
		if gap != (job.Volume{}) {
			complain(o.streams.Err, fmt.Sprintf("job %d: missing here: %s (%s) of %s, after line %d",
				o.id, counted(gap.Lines, "line"), counted(gap.Bytes, "byte"), name, had.Lines))
		}
	}
	say("standard output", gap.Stdout, had.Stdout)
	say("standard error", gap.Stderr, had.Stderr)
	if gap.Messages > 0 {
		complain(o.streams.Err, fmt.Sprintf("job %d: missing here: %s", o.id, counted(gap.Messages, "log message")))
	}
}

func counted(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (o *jobOutput) incomplete() bool { return o.account.Missing != (job.Written{}) }

// finish ends the last line and says how much is missing of all.
func (o *jobOutput) finish() {
	o.endLine()
	if !o.incomplete() {
		return
	}
	missing := o.account.Missing
	all := o.account.Given.Plus(missing)
	var parts []string
	part := func(name string, missing, all job.Volume) {
		if missing != (job.Volume{}) {
			parts = append(parts, fmt.Sprintf("%d of %s of %s (%d of %s)", missing.Lines, counted(all.Lines, "line"), name,
				missing.Bytes, counted(all.Bytes, "byte")))
		}
	}
	part("standard output", missing.Stdout, all.Stdout)
	part("standard error", missing.Stderr, all.Stderr)
	if missing.Messages > 0 {
		parts = append(parts, fmt.Sprintf("%d of %s", missing.Messages, counted(all.Messages, "log message")))
	}
	complain(o.streams.Err, fmt.Sprintf("job %d: missing in all: %s. The log of a job is bounded; to keep all output of a command, "+
		"redirect it in the command: sh -c 'COMMAND > FILE'", o.id, strings.Join(parts, " and ")))
}

// missingText describes an entry in whose place others were dropped.
func missingText(payload json.RawMessage) string {
	var note job.Missing
	if json.Unmarshal(payload, &note) != nil {
		return job.LogMissing
	}
	m := note.Missing
	text := fmt.Sprintf("[missing here: %s (%s) of output", counted(m.Stdout.Lines+m.Stderr.Lines, "line"),
		counted(m.Stdout.Bytes+m.Stderr.Bytes, "byte"))
	if m.Messages > 0 {
		text += ", and " + counted(m.Messages, "log message")
	}
	return text + "]"
}

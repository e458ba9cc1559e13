package follow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/core/job"
)

// ExitIncomplete is the exit code with --strict-output if some output is missing.
const ExitIncomplete = 125

// OutputHelp says, in the help of run and log, what becomes of a command's output.
const OutputHelp = `Standard output goes to standard output and standard error to standard error. In
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

// MissingEventHelp and LogTypesHelp are for the help of commands with JSON lines.
const (
	MissingEventHelp = `{"event": "missing", "job", "serial", "missing"}: what is missing before the entry
with that serial, {"stdout": {"lines", "bytes"}, "stderr": {"lines", "bytes"},
"messages": number}.`
	LogTypesHelp = `Types of a log entry and their payloads: "stdout" and "stderr" a line without its
newline; "stdout-part" a piece of text whose line does not end with it in a
newline; "stdout-base64" a piece that is not UTF-8, in base64; the same for
"stderr"; "output-missing" {"missing", "written"}: dropped at this place, and
written by the job up to this place; "message" a text; others a value.`
)

// StrictOutputUsage is the help of the flag --strict-output.
const StrictOutputUsage = "exit with code 125 if output is missing, however the job ended"

// JobOutput shows the log of a job. What a command wrote goes to the stream that it
// wrote it to: as it is, or without anything that could act on a terminal. What is
// missing is said on standard error, never on standard output.
type JobOutput struct {
	ID      int64
	Streams cli.Streams
	// Others: entries that are no text are shown too.
	Others bool
	// Mixed: other lines come between those of standard output, which is not
	// kept as it is for that reason.
	Mixed bool
	// Stamped: each line begins with its time.
	Stamped bool

	account job.OutputAccount
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

// Show shows log entries, each in its stream, and says where some are missing.
func (o *JobOutput) Show(entries []LogEntry) {
	for _, entry := range entries {
		if gap := o.account.Add(entry.Type, entry.Payload); gap != (job.Output{}) {
			o.reportMissing(gap)
		}
		stream, piece, ok := job.DecodeOutput(entry.Type, entry.Payload)
		switch {
		case ok:
			o.write(stream, entry, piece)
		case entry.Type == job.LogMissing:
		case entry.Type == job.LogMessage || o.Others:
			o.write(job.LogStdout, entry, []byte(entry.Text()+"\n"))
		}
	}
}

func (o *JobOutput) writer(stream string) (w io.Writer, terminal bool) {
	if stream == job.LogStderr {
		return o.Streams.Err, o.Streams.ErrTerminal
	}
	return o.Streams.Out, o.Streams.OutTerminal
}

// write shows one piece of a stream. Errors of standard output are kept by its writer.
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
		_, _ = w.Write(append([]byte(prefix), piece...))
		if o.Mixed && stream == job.LogStdout {
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

// EndLine ends a line that has no end yet, before something else is shown.
func (o *JobOutput) EndLine() {
	if o.open != "" {
		w, _ := o.writer(o.open)
		fmt.Fprintln(w)
		o.open = ""
	}
}

// reportMissing says what is missing where the output stands now.
func (o *JobOutput) reportMissing(gap job.Output) {
	o.EndLine()
	had := o.account.Delivered.Plus(o.account.Missing).Minus(gap)
	say := func(name string, gap, had job.StreamOutput) {
		if gap != (job.StreamOutput{}) {
			cli.PrintError(o.Streams.Err, fmt.Sprintf("job %d: missing here: %s (%s) of %s, after line %d",
				o.ID, term.Count(gap.Lines, "line"), term.Count(gap.Bytes, "byte"), name, had.Lines))
		}
	}
	say("standard output", gap.Stdout, had.Stdout)
	say("standard error", gap.Stderr, had.Stderr)
	if gap.Messages > 0 {
		cli.PrintError(o.Streams.Err, fmt.Sprintf("job %d: missing here: %s", o.ID, term.Count(gap.Messages, "log message")))
	}
}

// Incomplete tells whether some output was missing so far.
func (o *JobOutput) Incomplete() bool { return o.account.Missing != (job.Output{}) }

// Finish ends the last line and says how much is missing of all.
func (o *JobOutput) Finish() {
	o.EndLine()
	if !o.Incomplete() {
		return
	}
	missing := o.account.Missing
	all := o.account.Delivered.Plus(missing)
	var parts []string
	part := func(name string, missing, all job.StreamOutput) {
		if missing != (job.StreamOutput{}) {
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

// missingText describes an entry in whose place others were dropped.
func missingText(payload json.RawMessage) string {
	var note job.MissingOutput
	if json.Unmarshal(payload, &note) != nil {
		return job.LogMissing
	}
	m := note.Missing
	text := fmt.Sprintf("[missing here: %s (%s) of output", term.Count(m.Stdout.Lines+m.Stderr.Lines, "line"),
		term.Count(m.Stdout.Bytes+m.Stderr.Bytes, "byte"))
	if m.Messages > 0 {
		text += ", and " + term.Count(m.Messages, "log message")
	}
	return text + "]"
}

package follow

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/core/job"
	"lockstep/core/outflow/delivery"
)

// ExitIncomplete is the exit code if output is missing, or may be missing.
const ExitIncomplete = 125

// PartialFlag registers --partial, which accepts missing output, and --strict-output, which earlier
// versions had and which has no effect.
func PartialFlag(command *cobra.Command, partial *bool) {
	flags := command.Flags()
	flags.BoolVar(partial, "partial", false, "accept missing output: the exit code is as if all output were there")
	flags.Bool("strict-output", true, "no effect: missing output has exit code 125")
	if err := flags.MarkHidden("strict-output"); err != nil { // the flag exists
		panic(err)
	}
}

// Losses describe in words what is missing of a job's output; "" if all of it was written.
type Losses string

// Error is the error of a command that has shown the output of job id, which is not complete. end is a
// sentence about the job: its end, as if the output were complete.
func (l Losses) Error(id int64, end string) *cli.ExitError {
	return &cli.ExitError{Code: ExitIncomplete, Err: fmt.Errorf("job %d: %s; %s", id, l, end)}
}

// lossesOf are what is missing of the output that was shown.
func lossesOf(d *delivery.Delivery) Losses {
	switch {
	case d.Err != nil:
		return Losses("output could not be written: " + d.Err.Error())
	case d.Missing != (job.Output{}):
		return "output is missing"
	case d.Account.Unreadable > 0 && !d.Streamed:
		return "output is missing, since log entries cannot be read"
	case d.Account.Uncertain:
		return "output may be missing"
	}
	return ""
}

var streamWords = strings.NewReplacer(job.LogStdout, "standard output", job.LogStderr, "standard error")

const unreadableText = "a log entry of output cannot be read here"

func decodeMissing(payload json.RawMessage) (note job.MissingOutput, known bool) {
	return note, json.Unmarshal(payload, &note) == nil
}

// openText describes an entry about streams that were open after the end of the command.
func openText(payload json.RawMessage) string {
	var streams []string
	if json.Unmarshal(payload, &streams) != nil {
		streams = nil
	}
	names := streamWords.Replace(strings.Join(streams, " and "))
	return "a process outside the command's group had " + names + " open a second after the end of the command; what it writes then is missing"
}

// missingText describes an entry that stands for dropped entries, with their amount if that is known.
func missingText(payload json.RawMessage) string {
	note, known := decodeMissing(payload)
	if !known {
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

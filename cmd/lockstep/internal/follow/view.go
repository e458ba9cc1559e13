package follow

import (
	"fmt"
	"io"
	"strings"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/job"
)

// EventView prints the course of a job for programs, as JSON lines. A line that cannot be written is missing output.
type EventView struct {
	Out  io.Writer
	ID   int64
	last Change

	account   job.OutputAccount
	unwritten error // the first error of a write
}

// Losses are what is missing of the output that was shown.
func (v *EventView) Losses() Losses { return lossesOf(v.account, v.unwritten) }

func (v *EventView) print(e Event) {
	if err := PrintEvent(v.Out, e); err != nil && v.unwritten == nil {
		v.unwritten = err
	}
}

// Submitted prints that the job was submitted, to a daemon.
func (v *EventView) Submitted(daemon client.Whose) {
	v.print(Event{Event: "submitted", Job: v.ID, Daemon: daemon})
}

// End prints the end of the job, with what is missing. Losses knows afterwards whether that line was written.
func (v *EventView) End(status string, exitCode *int, text string) {
	e := Event{Event: "end", Job: v.ID, Status: status, ExitCode: exitCode, Error: text, Incomplete: v.Losses() != ""}
	if v.account.Missing != (job.Output{}) {
		e.Missing = &v.account.Missing
	}
	v.print(e)
}

// Show prints the events of one change in their order.
func (v *EventView) Show(c Change) {
	// Log entries precede a final status and follow any other status.
	if !client.Final(c.Status) {
		v.status(c)
	}
	v.Entries(c.Entries)
	if c.Final {
		v.status(c)
	}
}

// Entries prints log entries, each after the report of output missing before it.
func (v *EventView) Entries(entries []LogEntry) {
	for _, entry := range entries {
		if gap := v.account.Add(entry.Type, entry.Payload); gap != (job.Output{}) {
			v.print(Event{Event: "missing", Job: v.ID, Serial: entry.Serial, Missing: &gap})
		}
		v.print(entry.event(v.ID))
	}
}

func (v *EventView) status(c Change) {
	if !SameProgress(v.last, c) {
		v.last = c
		v.print(Event{Event: "status", Job: v.ID, Status: c.Status, OpcodeStatus: c.OpStatus})
	}
}

// ProgressText is a short text about the progress of a job.
func ProgressText(id int64, c Change) string {
	state := c.Status
	switch c.Status {
	case client.StatusQueued:
		state = "queued…"
	case client.StatusWaiting:
		state = "waiting…"
	case client.StatusCanceling:
		state = "being canceled…"
	}
	text := fmt.Sprintf("job %d %s", id, term.Visible(state))
	if at := CurrentOpcode(c.OpStatus); at > 0 && !client.Final(c.Status) {
		text += fmt.Sprintf(" (opcode %d of %d)", at, len(c.OpStatus))
	}
	return text
}

// CurrentOpcode is the number of the running opcode, from 1; 0 for a job with one opcode or without a
// running one.
func CurrentOpcode(opStatus []string) int {
	if len(opStatus) < 2 {
		return 0
	}
	for i, status := range opStatus {
		if status == client.StatusWaiting || status == client.StatusRunning || status == client.StatusCanceling {
			return i + 1
		}
	}
	return 0
}

// SameProgress reports whether two changes are equal except for their log entries.
func SameProgress(a, b Change) bool {
	return a.Status == b.Status && strings.Join(a.OpStatus, ",") == strings.Join(b.OpStatus, ",")
}

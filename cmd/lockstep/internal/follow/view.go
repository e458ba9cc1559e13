package follow

import (
	"fmt"
	"io"
	"strings"
	"time"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/outflow"
	"lockstep/core/outflow/delivery"
)

// EventView prints the course of a job for programs, as JSON lines. A line that cannot be written is missing output.
type EventView struct {
	Out io.Writer
	ID  int64
	// Now is the time of output that is not from the log.
	Now  func() time.Time
	last Change

	delivery.Delivery
	lines [2]*jobproc.LineSplitter // by stream, of output that is not from the log
}

func (v *EventView) print(e Event) { v.Failed(PrintEvent(v.Out, e)) }

// Submitted prints that the job was submitted, to a daemon. at is before which time it does not start, in RFC 3339; "": it starts at once.
func (v *EventView) Submitted(daemon client.Whose, at string) {
	v.print(Event{Event: "submitted", Job: v.ID, Daemon: daemon, At: at})
}

// End prints the end of the job, with what is missing. losses knows afterwards whether that line was written.
func (v *EventView) End(status string, exitCode *int, text string) {
	e := Event{Event: "end", Job: v.ID, Status: status, ExitCode: exitCode, Error: text, Incomplete: lossesOf(&v.Delivery) != ""}
	if v.Missing != (job.Output{}) {
		e.Missing = &v.Missing
	}
	v.print(e)
}

// Show prints the events of one change in their order.
func (v *EventView) Show(c Change) {
	// Log entries precede a final status and follow any other status.
	if !client.Final(c.Status) {
		v.status(c)
	}
	v.entries(c.Entries)
	if c.Final {
		v.status(c)
	}
}

func (v *EventView) entries(entries []LogEntry) {
	for _, e := range entries {
		d := e.delivered()
		if !v.Entry(v, d) {
			continue
		}
		if job.IsOutput(d.Type) {
			v.flush()
		}
		v.print(e.event(v.ID))
	}
}

// Output is part of delivery.Target.
func (v *EventView) Output(s outflow.Stream, output []byte) {
	if v.lines[s] == nil {
		v.lines[s] = &jobproc.LineSplitter{Emit: func(line []byte) {
			e := LogEntry{Time: client.Timestamp{Time: v.Now()}}
			e.Type, e.Payload = job.EncodeOutput(delivery.StreamName(s), line)
			v.print(e.event(v.ID))
		}}
	}
	v.lines[s].Write(output)
}

// Lacks is part of delivery.Target.
func (v *EventView) Lacks(g delivery.Gap) {
	v.flush()
	v.print(Event{Event: "missing", Job: v.ID, Serial: g.Serial, Missing: &g.Output})
}

// flush prints lines that are not complete.
func (v *EventView) flush() {
	for _, l := range v.lines {
		if l != nil {
			l.Flush()
		}
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

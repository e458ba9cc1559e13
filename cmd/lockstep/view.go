package main

import (
	"fmt"
	"io"
	"strings"

	"lockstep/core/job"
)

// statusLine is one line on a terminal that replaces itself. When it is not on, it
// prints nothing.
type statusLine struct {
	out   io.Writer
	on    bool
	shown string
}

const eraseLine = "\r\x1b[K"

func (s *statusLine) set(text string) {
	if s.on && text != s.shown {
		fmt.Fprint(s.out, eraseLine, text)
		s.shown = text
	}
}

// clear makes room for other output; the line comes back with the next other text.
func (s *statusLine) clear() {
	if s.on && s.shown != "" {
		fmt.Fprint(s.out, eraseLine)
		s.shown = ""
	}
}

// eventView prints what happens to a job as JSON lines. Its writer keeps its errors.
type eventView struct {
	out  io.Writer
	id   int64
	last change

	account job.Account
}

func (v *eventView) show(c change) {
	// Entries of an answer with a final status came before it, of any other after it.
	if !final(c.status) {
		v.status(c)
	}
	v.entries(c.entries)
	if c.final {
		v.status(c)
	}
}

func (v *eventView) entries(entries []logEntry) {
	for _, entry := range entries {
		if gap := v.account.Take(entry.Type, entry.Payload); gap != (job.Written{}) {
			_ = printEvent(v.out, event{Event: "missing", Job: v.id, Serial: entry.Serial, Missing: &gap})
		}
		_ = printEvent(v.out, entry.event(v.id))
	}
}

// missing is what was missing in all, nil if nothing was.
func (v *eventView) missing() *job.Written {
	if v.account.Missing == (job.Written{}) {
		return nil
	}
	return &v.account.Missing
}

func (v *eventView) status(c change) {
	if !sameProgress(v.last, c) {
		v.last = c
		_ = printEvent(v.out, event{Event: "status", Job: v.id, Status: c.status, OpcodeStatus: c.opStatus})
	}
}

// progressText says in a few words how far a job is.
func progressText(id int64, c change) string {
	state := c.status
	switch c.status {
	case statusQueued:
		state = "queued…"
	case statusWaiting:
		state = "waiting…"
	case statusCanceling:
		state = "being canceled…"
	}
	text := fmt.Sprintf("job %d %s", id, visible(state))
	if at := currentOpcode(c.opStatus); at > 0 && !final(c.status) {
		text += fmt.Sprintf(" (opcode %d of %d)", at, len(c.opStatus))
	}
	return text
}

// currentOpcode returns which opcode is under way, from 1, and 0 for a job that has
// only one or is not under way.
func currentOpcode(opStatus []string) int {
	if len(opStatus) < 2 {
		return 0
	}
	for i, status := range opStatus {
		if status == statusWaiting || status == statusRunning || status == statusCanceling {
			return i + 1
		}
	}
	return 0
}

// sameProgress tells whether two changes look alike but for their log entries.
func sameProgress(a, b change) bool {
	return a.status == b.status && strings.Join(a.opStatus, ",") == strings.Join(b.opStatus, ",")
}

package client

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"time"

	"lockstep/core/job"
)

// TrailSource is the source in reason trails of what this program has submitted.
const TrailSource = "gnt:client:lockstep"

// ReasonTrail returns the trail that a submission appends to the reason of each of its
// opcodes (queue.md 3.6): the user's text, if any, then the submitting command.
func ReasonTrail(text, subcommand string, now time.Time) [][]any {
	var trail [][]any
	if text != "" {
		trail = append(trail, []any{"gnt:user", text, now.UnixNano()})
	}
	return append(trail, []any{TrailSource, subcommand, now.UnixNano()})
}

// NewRequestName returns a unique random name for a submission.
func NewRequestName() string {
	var name [16]byte
	_, _ = rand.Read(name[:]) // never fails
	return hex.EncodeToString(name[:])
}

// Trails are the entries that a submission appends to reason trails: First to the first opcode of
// each job, Other to the others.
type Trails struct{ First, Other [][]any }

// NewTrails returns the trails of a new submission. First contains its name, request: the daemon
// makes the jobs of a name once, however often the client sends it.
func NewTrails(now time.Time, request, text, subcommand string) Trails {
	other := ReasonTrail(text, subcommand, now)
	name := []any{job.SubmissionSource, request, now.UnixNano()}
	return Trails{First: slices.Insert(slices.Clone(other), len(other)-1, name), Other: other}
}

// NamesRequest reports whether a step of a decoded trail is the name of a submission, which is
// not shown to users.
func NamesRequest(step any) bool {
	parts, ok := step.([]any)
	return ok && len(parts) > 0 && parts[0] == any(job.SubmissionSource)
}

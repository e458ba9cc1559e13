package client

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"time"

	"lockstep/core/job"
)

// ReasonTrail returns the trail that a submission appends to the reason of each of its
// opcodes (queue.md 3.6): the user's text, if any, then what submitted it.
func ReasonTrail(text, subcommand string, now time.Time) [][]any {
	var trail [][]any
	if text != "" {
		trail = append(trail, []any{"gnt:user", text, now.UnixNano()})
	}
	return append(trail, []any{"gnt:client:lockstep", subcommand, now.UnixNano()})
}

// NewRequestName is a name that no other submission has.
func NewRequestName() string {
	var name [16]byte
	_, _ = rand.Read(name[:]) // never fails
	return hex.EncodeToString(name[:])
}

// Trails are what a submission appends to the reason trails of its opcodes: first to
// those that are the first of their jobs, other to the rest.
type Trails struct{ First, Other [][]any }

// NewTrails makes the trails of a new submission. In first it has its name, request, by
// which the daemon makes its jobs once, however often it is sent.
func NewTrails(now time.Time, request, text, subcommand string) Trails {
	other := ReasonTrail(text, subcommand, now)
	name := []any{job.SubmissionSource, request, now.UnixNano()}
	return Trails{First: slices.Insert(slices.Clone(other), len(other)-1, name), Other: other}
}

// NamesRequest tells whether a step of a decoded trail is the name of a submission,
// which tells people nothing.
func NamesRequest(step any) bool {
	parts, ok := step.([]any)
	return ok && len(parts) > 0 && parts[0] == any(job.SubmissionSource)
}

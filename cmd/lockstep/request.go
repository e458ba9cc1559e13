package main

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"time"

	"lockstep/core/job"
)

// newRequestName is a name that no other submission has.
func newRequestName() string {
	var name [16]byte
	_, _ = rand.Read(name[:]) // never fails
	return hex.EncodeToString(name[:])
}

// trails are what a submission appends to the reason trails of its opcodes: first to
// those that are the first of their jobs, other to the rest.
type trails struct{ first, other [][]any }

// newTrails makes the trails of a new submission. In first it has its name, request, by
// which the daemon makes its jobs once, however often it is sent.
func newTrails(now time.Time, request, text, subcommand string) trails {
	other := reasonTrail(text, subcommand, now)
	name := []any{job.RequestSource, request, now.UnixNano()}
	return trails{first: slices.Insert(slices.Clone(other), len(other)-1, name), other: other}
}

// namesRequest tells whether a step of a decoded trail is the name of a submission,
// which tells people nothing.
func namesRequest(step any) bool {
	parts, ok := step.([]any)
	return ok && len(parts) > 0 && parts[0] == any(job.RequestSource)
}

// namesOtherRequest is namesRequest for a step in a file: one that was copied from a job
// would make the daemon answer with that job instead of making a new one.
func namesOtherRequest(step node) bool {
	return step.kind == listNode && len(step.values) > 0 && step.values[0].scalar == any(job.RequestSource)
}

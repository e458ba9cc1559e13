package why

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lockstep/cmd/internal/term"
)

// order says what the job waits for in the order: locks, reservations, or its turn.
func (r whyReason) order() string {
	if r.isHeldBack() {
		return r.heldBack()
	}
	switch {
	case r.Pending <= 1:
		return "It is next."
	case r.Position <= 1 && !r.AtLeast:
		return fmt.Sprintf("It is next of %d pending jobs.", r.Pending)
	}
	text := r.place() + r.promise()
	if len(r.Causes) == 0 {
		return text
	}
	var causes []string
	for _, cause := range r.Causes {
		word := blockerName(cause.Job, cause.Owner)
		if cause.Lock != "" {
			word += " for " + cause.Lock
		}
		causes = append(causes, word)
	}
	return fmt.Sprintf("%s Others of its priority come before it, because it would contend with %s; that counts less the longer it waits (its weight is %.1f).",
		text, term.Enumerate(causes, "and"), r.Weight)
}

// place is the job's position among all pending jobs.
func (r whyReason) place() string {
	if r.AtLeast {
		return fmt.Sprintf("At least %d of %d pending jobs go before it.", r.Position-1, r.Pending)
	}
	return fmt.Sprintf("It is number %d of %d pending jobs.", r.Position, r.Pending)
}

// isHeldBack reports whether locks or reservations keep the job from starting, in the order expected.
func (r whyReason) isHeldBack() bool {
	return len(r.BlockedBy) > 0 || r.ReservedBy != 0 || r.ReservationsBefore > 0
}

// heldBack says which locks and reservations keep the job from starting.
func (r whyReason) heldBack() string {
	var parts []string
	switch {
	case len(r.BlockedBy) > 0 && r.Reserves:
		parts = append(parts, "It has a reservation, and "+r.startsAfter()+".")
	case len(r.BlockedBy) > 0:
		parts = append(parts, "It waits for "+r.awaitedLocks()+".")
	case r.ReservedBy != 0:
		parts = append(parts, fmt.Sprintf("Job %d has a reservation for locks that it wants, and starts before it.", r.ReservedBy))
	}
	switch {
	case r.ReservationsBefore == 1:
		parts = append(parts, "1 reservation is before it.")
	case r.ReservationsBefore > 1:
		parts = append(parts, fmt.Sprintf("%d reservations are before it.", r.ReservationsBefore))
	}
	if r.Position > 1 || r.AtLeast {
		parts = append(parts, r.place())
	}
	return strings.Join(parts, " ") + r.promise()
}

// promise is the sentence about jobs that are less urgent than others.
func (r whyReason) promise() string {
	if !r.NothingPromised {
		return ""
	}
	return " More urgent jobs are pending, and nothing is promised to it while such jobs come."
}

// startsAfter says at whose ends the job starts.
func (r whyReason) startsAfter() string {
	var jobs, owners []string
	for _, b := range r.BlockedBy {
		owners = append(owners, blockerName(b.Job, b.Owner))
		if b.Owner == "" {
			jobs = append(jobs, strconv.FormatInt(b.Job, 10))
		}
	}
	switch {
	case len(jobs) < len(owners):
		return "starts when " + withMore(owners, r.OtherBlockers) + " have left its locks"
	case len(jobs) == 1 && r.OtherBlockers == 0:
		return "starts when job " + jobs[0] + " has ended"
	}
	return "starts when jobs " + withMore(jobs, r.OtherBlockers) + " have ended"
}

// awaitedLocks are the locks that the job waits for, with their owners.
func (r whyReason) awaitedLocks() string {
	var all []string
	for _, b := range r.BlockedBy {
		verb := "gets first"
		if b.Holds {
			verb = "has"
		}
		all = append(all, fmt.Sprintf("%s, which %s %s", withMore(visibleAll(b.Locks), b.OtherLocks), blockerName(b.Job, b.Owner), verb))
	}
	text := strings.Join(all, "; ")
	if r.OtherBlockers > 0 {
		text += "; and for " + term.Count(int(r.OtherBlockers), "other owner")
	}
	return text
}

// withMore joins words, and adds the number of those that are missing.
func withMore(words []string, others int64) string {
	if others > 0 {
		words = append(slices.Clone(words), fmt.Sprintf("%d more", others))
	}
	return term.Enumerate(words, "and")
}

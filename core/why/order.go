package why

import "lockstep/core/answer"

// order says what the job waits for in the order: locks, reservations, or its turn.
func (w Style) order(r answer.Reason) Sentence {
	if IsHeldBack(r) {
		return w.heldBack(r)
	}
	switch {
	case r.Pending <= 1:
		return Sentence{}.text("It is next.")
	case r.Position <= 1 && !r.AtLeast:
		return Sentence{}.text("It is next of %d pending jobs.", r.Pending)
	}
	s := Sentence{}.place(r).promise(r)
	if len(r.Causes) == 0 {
		return s
	}
	s = s.text(" Others of its priority come before it, because it would contend with ")
	s = s.enumerate(len(r.Causes), "and", func(s Sentence, i int) Sentence {
		s = w.owner(s, r.Causes[i].Job, r.Causes[i].Owner)
		if r.Causes[i].Lock != "" {
			s = s.text(" for %s", w.Clean(r.Causes[i].Lock))
		}
		return s
	})
	return s.text("; that counts less the longer it waits (its weight is %.1f).", r.Weight)
}

// place is the job's position among all pending jobs.
func (s Sentence) place(r answer.Reason) Sentence {
	if r.AtLeast {
		return s.text("At least %d of %d pending jobs go before it.", r.Position-1, r.Pending)
	}
	return s.text("It is number %d of %d pending jobs.", r.Position, r.Pending)
}

// promise is the sentence about jobs that are less urgent than others.
func (s Sentence) promise(r answer.Reason) Sentence {
	if !r.NothingPromised {
		return s
	}
	return s.text(" More urgent jobs are pending, and nothing is promised to it while such jobs come.")
}

// IsHeldBack reports whether locks or reservations keep the job from starting. It is true only if the scheduler's order is the one that
// is called expected: the reasons of other orders have none of these fields.
func IsHeldBack(r answer.Reason) bool {
	return len(r.BlockedBy) > 0 || r.ReservedBy != 0 || r.ReservationsBefore > 0
}

// heldBack says which locks and reservations keep the job from starting.
func (w Style) heldBack(r answer.Reason) Sentence {
	var s Sentence
	switch {
	case len(r.BlockedBy) > 0 && r.Reserves:
		s = append(s.text("It has a reservation, and "), w.StartsAfter(r)...).text(".")
	case len(r.BlockedBy) > 0:
		s = w.awaitedLocks(s.text("It waits for "), r).text(".")
	case r.ReservedBy != 0:
		s = append(s, Part{Text: "Job " + decimal(r.ReservedBy), Job: r.ReservedBy})
		s = s.text(" has a reservation for locks that it wants, and starts before it.")
	}
	switch {
	case r.ReservationsBefore == 1:
		s = s.space().text("1 reservation is before it.")
	case r.ReservationsBefore > 1:
		s = s.space().text("%d reservations are before it.", r.ReservationsBefore)
	}
	if r.Position > 1 || r.AtLeast {
		s = s.space().place(r)
	}
	return s.promise(r)
}

// StartsAfter says at whose ends a job with a reservation starts, without a full stop. r has at least one of BlockedBy.
func (w Style) StartsAfter(r answer.Reason) Sentence {
	var s Sentence
	jobs := 0
	for _, b := range r.BlockedBy {
		if b.Owner == "" {
			jobs++
		}
	}
	if jobs < len(r.BlockedBy) {
		s = s.text("starts when ").enumerateWithMore(len(r.BlockedBy), r.OtherBlockers, func(s Sentence, i int) Sentence {
			return w.owner(s, r.BlockedBy[i].Job, r.BlockedBy[i].Owner)
		})
		if len(r.BlockedBy) == 1 && r.OtherBlockers == 0 {
			return s.text(" has left its locks")
		}
		return s.text(" have left its locks")
	}
	if jobs == 1 && r.OtherBlockers == 0 {
		return s.text("starts when ").job(r.BlockedBy[0].Job).text(" has ended")
	}
	return s.text("starts when jobs ").enumerateWithMore(jobs, r.OtherBlockers, func(s Sentence, i int) Sentence {
		return append(s, Part{Text: decimal(r.BlockedBy[i].Job), Job: r.BlockedBy[i].Job})
	}).text(" have ended")
}

// awaitedLocks are the locks that the job waits for, with their owners.
func (w Style) awaitedLocks(s Sentence, r answer.Reason) Sentence {
	for i, b := range r.BlockedBy {
		if i > 0 {
			s = s.text("; ")
		}
		s = s.enumerateWithMore(len(b.Locks), b.OtherLocks, func(s Sentence, i int) Sentence { return s.text("%s", w.Clean(b.Locks[i])) })
		s = w.owner(s.text(", which "), b.Job, b.Owner)
		if b.Holds {
			s = s.text(" has")
		} else {
			s = s.text(" gets first")
		}
	}
	switch {
	case r.OtherBlockers == 1:
		s = s.text("; and for 1 other owner")
	case r.OtherBlockers > 1:
		s = s.text("; and for %d other owners", r.OtherBlockers)
	}
	return s
}

// enumerateWithMore is enumerate, with the number of elements that are missing as the last one.
func (s Sentence) enumerateWithMore(count int, missing int64, add func(Sentence, int) Sentence) Sentence {
	if missing <= 0 {
		return s.enumerate(count, "and", add)
	}
	return s.enumerate(count+1, "and", func(s Sentence, i int) Sentence {
		if i == count {
			return s.text("%d more", missing)
		}
		return add(s, i)
	})
}

package lock

import (
	"slices"
	"time"

	"lockstep/core/job"
)

// Withheld jobs (design.md "Differences"). A pending request of a withheld job is not granted, blocks no request and has no age; it stays
// pending until the job is allowed, or the client drops it. Requests that do not wait, and releases, are as for any job.
//
// A State of Settings.WithholdJobs withholds all jobs until AllowOthers: it is not known yet which are withheld.

// withheld is the jobs that are withheld, each with its requests.
//
// Invariant: a pending request of a withheld job is in one of these queues, and no other request is.
type withheld struct {
	jobs   map[job.ID]*queue
	others *queue // of all jobs that are not in jobs; nil: those are not withheld
}

// queueOf is where the request of an owner waits that is withheld; nil: it is not.
func (w *withheld) queueOf(o Owner) *queue {
	if o.Named {
		return nil
	}
	if q := w.jobs[o.Job]; q != nil {
		return q
	}
	return w.others
}

// isWithheld reports whether the queue is that of withheld requests.
func (q *queue) isWithheld() bool { return q != nil && q.point == nil && q.behind == nil }

// Withheld reports whether the owner has a pending request that is withheld, because Withhold names its job.
func (s *State) Withheld(o Owner) bool {
	h := s.table.holders[o]
	return h != nil && h.pending != nil && !o.Named && h.pending.queue == s.withheld.jobs[o.Job]
}

// Withhold withholds a job; for one that is withheld already it does nothing. owners are those of its owners that the State has. The
// owners of other requests may get their locks, which waited behind one of the job.
func (s *State) Withhold(now time.Time, id job.ID, owners []Owner) Update {
	if s.withheld.jobs[id] != nil {
		return Update{}
	}
	q := &queue{}
	s.withheld.jobs[id] = q
	s.beginPass(now)
	for _, o := range owners {
		h := s.table.holders[o]
		if h == nil || h.pending == nil {
			continue
		}
		was := h.pending
		s.withdraw(was)
		s.enqueue(&request{Pending: was.Pending, holder: h, arrival: s.arrivalCount}, q)
		// Clients see for how long the owner waits. For the bounded bypass the request is new when it is allowed.
		h.pending.since = was.since
	}
	return s.finishPass(&holder{}, false)
}

// Allow ends Withhold. The requests of the job are as old as if they were made now.
func (s *State) Allow(now time.Time, id job.ID) Update {
	q := s.withheld.jobs[id]
	delete(s.withheld.jobs, id)
	return s.allow(now, q)
}

// AllowOthers allows all jobs that no Withhold names, in a State of Settings.WithholdJobs.
func (s *State) AllowOthers(now time.Time) Update {
	q := s.withheld.others
	s.withheld.others = nil
	return s.allow(now, q)
}

func (s *State) allow(now time.Time, q *queue) Update {
	if q == nil {
		return Update{}
	}
	s.beginPass(now)
	for _, r := range slices.SortedFunc(slices.Values(q.heap.Items()), func(a, b *request) int { return a.Compare(&b.Pending) }) {
		r.arrival, r.since = s.arrivalCount, s.bypass.now
		s.arrivalCount++
		s.bypass.track(r)
		s.pass.ready.Push(grantCandidate{first: r})
	}
	return s.finishPass(&holder{}, false)
}

package queuecopy

import (
	"fmt"
	"time"
)

// Result says how a call of a node daemon has ended, for Tracker.Done.
type Result struct {
	Err error // nil: the call has succeeded
	// Master is the answer to AskMaster.
	Master string
	// Missing: Update or Refill has not found the file here, and has made no call.
	Missing bool
	// Rewritten: the file of Update has changed here between its reading and the end of the call.
	Rewritten bool
	// Serial is what Update of Serial has sent.
	Serial int64
	// Found answers Check, one for each unit, in their order.
	Found []Found
}

// Found is what both nodes have of a job: digests of its live and of its archived file, "" without a file. If there is a live
// file here, the archived ones are not looked at.
type Found struct {
	Here, ArchivedHere   string
	There, ArchivedThere string
	Age                  time.Duration // since the last write of the live file here
}

// Effect says what a result means, for the log.
type Effect struct {
	Obsolete  bool          // the node is no longer a candidate
	Failures  int           // in a row; 0: the call has succeeded
	Err       error         // why the call has failed
	Retry     time.Duration // pause before the next call; after a failure
	Recovered bool          // the call has succeeded after failures
	Repaired  int           // jobs of a comparison that the candidate lacks, or has in another state
}

// OtherMasterError says that a candidate names another node as the master. It is sent nothing.
type OtherMasterError struct{ Name string }

func (e *OtherMasterError) Error() string {
	return fmt.Sprintf("its ssconf files name %s as the master", e.Name)
}

// Done records the result of a call. The result is dropped, and the effect is Obsolete, if the tracker does not know the call any more
// or the node is no longer a candidate.
func (t *Tracker) Done(now time.Time, number uint64, r Result) Effect {
	f := t.calls[number]
	if f == nil {
		return Effect{Obsolete: true}
	}
	p := f.peer
	t.end(f)
	if p.gone {
		return Effect{Obsolete: true}
	}
	if f.sweep {
		p.sweep.inCall = false
	}
	if f.Op == AskMaster && r.Err == nil && r.Master != t.master {
		r.Err = &OtherMasterError{r.Master}
	}
	if r.Err != nil {
		return t.failed(now, f, r.Err)
	}
	var e Effect
	if p.failures > 0 && f.epoch == p.epoch {
		e.Recovered = true
		if now.Sub(p.failingSince) >= AwayMin {
			p.compareAll(now, now)
		}
		p.failures, p.err, p.failedAt, p.retryAt = 0, nil, time.Time{}, time.Time{}
	}
	switch f.Op {
	case AskMaster:
		p.known = true
	case Update, Refill:
		t.sent(now, f, r)
	case Archive:
		for _, u := range f.Units {
			p.copiedNow(now, u, f.taken[u])
		}
	case Check:
		e.Repaired = t.compared(now, f, r.Found)
	}
	return e
}

// sent evaluates a call that has sent one unit: the candidate has it, unless it reports something missing; then the unit is marked again,
// with what is to be done.
func (t *Tracker) sent(now time.Time, f *flight, r Result) {
	p, u := f.peer, f.Units[0]
	m := f.taken[u]
	switch {
	case u == Serial:
		p.serial, t.serial = Unit(r.Serial), max(t.serial, Unit(r.Serial-f.Ahead))
		t.reserve(now, p) // ids were given meanwhile
	case u.IsJob() && r.Missing:
		p.put(u, check, m.since, m.awaits...)
		return
	case f.Op == Refill:
		p.put(u, archive, m.since, m.awaits...)
		return
	case r.Rewritten:
		p.later(now, u)
	}
	p.copiedNow(now, u, m)
}

// copiedNow counts a unit that the candidate has from now on, unless it has changed again.
func (p *peer) copiedNow(now time.Time, u Unit, m mark) {
	p.has(m.awaits)
	p.copied++
	if _, again := p.marks[u]; !again {
		p.lags.add(now.Sub(m.since))
	}
}

// compared evaluates a comparison: units that differ are marked with what repairs them, and the others count as there.
func (t *Tracker) compared(now time.Time, f *flight, found []Found) (repaired int) {
	p := f.peer
	for i, u := range f.Units {
		n, differs := found[i].need()
		m, marked := f.taken[u]
		if !marked {
			m.since = now
		}
		switch {
		case !differs:
			p.has(m.awaits)
		case t.running[u] && found[i].Age < Settle && !m.isAwaited():
			p.later(now, u) // its process is about to send it
		default:
			repaired++
			p.put(u, n, m.since, m.awaits...)
		}
	}
	if f.sweep && p.sweep.begun {
		p.sweep.at = now.Add(sweepPause)
		if p.sweep.next < 0 {
			p.sweep = sweep{}
		}
	}
	return repaired
}

// need is what the candidate needs to have the same as this node. differs is false if it needs nothing. There is no call that removes a
// file, so a live file of a job that this node lacks goes to the archive.
func (f Found) need() (n need, differs bool) {
	switch {
	case f.Here != "":
		return update, f.There != f.Here
	case f.ArchivedHere == "":
		return archive, f.There != ""
	case f.There == f.ArchivedHere:
		return archive, true
	case f.There != "":
		return refill, true
	}
	return refill, f.ArchivedThere != f.ArchivedHere
}

// failed puts the units of a failed call back, behind the others, and sets the time of the next try. A node daemon may have carried the
// call out, or may do so after the connection is closed, so what it may have moved is compared first. The failures of calls that were in
// progress at the same time count as one.
func (t *Tracker) failed(now time.Time, f *flight, err error) Effect {
	p := f.peer
	if f.sweep && p.sweep.begun {
		p.sweep.next = f.Units[0]
	}
	for _, u := range f.Units {
		m, was := f.taken[u]
		if !was {
			continue // of a sweep, which goes on at the same place
		}
		n := m.need
		if n == archive || n == refill {
			n = check
		}
		if f.Op != Check {
			p.later(now, u)
		}
		if n != update || !t.running[u] || m.isAwaited() {
			p.put(u, n, m.since, m.awaits...)
		}
	}
	if f.epoch != p.epoch {
		return Effect{}
	}
	if p.failures == 0 {
		p.failingSince = now
	}
	p.known = false
	p.epoch++
	pause := min(retryFirst<<min(p.failures, 16), retryMax)
	p.failures++
	p.err, p.failedAt, p.retryAt = err, now, now.Add(pause)
	return Effect{Failures: p.failures, Err: err, Retry: pause}
}

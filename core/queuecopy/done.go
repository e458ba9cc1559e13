package queuecopy

import (
	"fmt"
	"time"
)

// Result is the result of a call.
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

// Done records the result of a call.
func (t *Tracker) Done(now time.Time, number uint64, r Result) Effect {
	p := t.calls[number]
	if p == nil {
		return Effect{Obsolete: true}
	}
	delete(t.calls, number)
	c, taken := p.call, p.taken
	p.call, p.taken = nil, nil
	if p.gone {
		return Effect{Obsolete: true}
	}
	if c.Op == AskMaster && r.Err == nil && r.Master != t.master {
		r.Err = &OtherMasterError{r.Master}
	}
	if r.Err != nil {
		return t.failed(now, p, c, taken, r.Err)
	}
	e := Effect{Recovered: p.failures > 0}
	if e.Recovered && now.Sub(p.failingSince) >= AwayMin {
		p.compareAll(now, now)
	}
	p.failures, p.err, p.failedAt, p.retryAt = 0, nil, time.Time{}, time.Time{}
	switch c.Op {
	case AskMaster:
		p.known = true
	case Update, Refill:
		t.sent(now, p, c, taken, r)
	case Archive:
		for _, u := range c.Units {
			p.copiedNow(now, u, taken[u])
		}
	case Check:
		e.Repaired = t.compared(now, p, c, taken, r.Found)
	}
	return e
}

// sent records that one unit was sent.
func (t *Tracker) sent(now time.Time, p *peer, c *Call, taken map[Unit]mark, r Result) {
	u := c.Units[0]
	m := taken[u]
	if u == Serial {
		t.serial = max(t.serial, Unit(r.Serial))
	}
	if u.IsJob() && r.Missing {
		p.put(u, check, m.since)
		return
	}
	if c.Op == Refill {
		p.put(u, archive, m.since)
		return
	}
	p.copiedNow(now, u, m)
	if r.Rewritten {
		p.later(now, u)
	}
}

// copiedNow counts a unit that the candidate has from now on, unless it has changed again.
func (p *peer) copiedNow(now time.Time, u Unit, m mark) {
	p.copied++
	if _, again := p.marks[u]; !again {
		p.lags.add(now.Sub(m.since))
	}
}

// compared decides what follows from a comparison.
func (t *Tracker) compared(now time.Time, p *peer, c *Call, taken map[Unit]mark, found []Found) (repaired int) {
	isSweep := len(taken) == 0
	for i, u := range c.Units {
		f := found[i]
		n, differs := f.need()
		if !differs {
			continue
		}
		since := now
		if m, marked := taken[u]; marked {
			since = m.since
		}
		if t.running[u] && f.Age < Settle {
			p.later(now, u) // its process is about to send it
			continue
		}
		repaired++
		p.put(u, n, since)
	}
	if !isSweep || !p.sweep.begun {
		return repaired
	}
	p.sweep.next, p.sweep.at = c.Units[len(c.Units)-1]-1, now.Add(sweepPause)
	if p.sweep.next < 0 {
		p.sweep = sweep{}
	}
	return repaired
}

// need is what the candidate needs to have the same as this node. There is no call that removes a file, so a live file of a job
// that this node lacks goes to the archive.
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

// failed puts the units of a call back, behind the others. A node daemon may have carried the call out, or may do so after the
// connection is closed.
func (t *Tracker) failed(now time.Time, p *peer, c *Call, taken map[Unit]mark, err error) Effect {
	if p.failures == 0 {
		p.failingSince = now
	}
	for _, u := range c.Units {
		m, was := taken[u]
		if !was {
			continue // of a sweep, which goes on at the same place
		}
		n := m.need
		if n == archive || n == refill {
			n = check
		}
		if c.Op != Check {
			p.later(now, u)
		}
		if n != update || !t.running[u] {
			p.put(u, n, m.since)
		}
	}
	p.known = false
	pause := min(retryFirst<<min(p.failures, 16), retryMax)
	p.failures++
	p.err, p.failedAt, p.retryAt = err, now, now.Add(pause)
	return Effect{Failures: p.failures, Err: err, Retry: pause}
}

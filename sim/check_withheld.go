package sim

import (
	"bytes"
	"fmt"
	"slices"

	"lockstep/core/lock"
	"lockstep/core/paths"
	"lockstep/sim/simdisk"
)

// checkWithheld: while a rule that was acknowledged pauses or rejects a job of Ganeti's program, or a client holds the job, nothing
// is granted to its process unless an opcode executes. Such a job's request is in nobody's way: the process of another job does
// not wait for it alone. It is judged by the lock manager's journal.
type checkWithheld struct {
	owners map[lock.Owner]lock.Record
	read   int // read bytes of the journal
	holds  checkHolds
}

func (*checkWithheld) Name() string { return "withheld requests" }

func (c *checkWithheld) See(w *World, event any) error {
	switch e := event.(type) {
	case holdSent, holdAnswered, garbled:
		return c.holds.See(w, e)
	case deciderStarted, powerLost:
		c.owners, c.read = nil, 0
	case otherFileChanged:
		switch {
		case e.path != paths.LocksJournalPath || !w.options.Ganeti:
		case e.call == simdisk.CallAppend && c.owners != nil:
			return c.appended(w)
		default: // a fold, which changes no lock
			return c.readAll(w)
		}
	case timePassed:
		if w.disturbance.recovered(w) && w.effective.known {
			return c.blocksNobody(w)
		}
	}
	return nil
}

func (c *checkWithheld) readAll(w *World) error {
	snapshot, err := w.lockState()
	if err != nil {
		return err
	}
	c.owners = map[lock.Owner]lock.Record{}
	for _, h := range snapshot.Holdings {
		c.owners[h.Owner] = lock.Record{Owner: h.Owner, Locks: h.Locks}
	}
	for _, p := range snapshot.Pending {
		r := c.owners[p.Owner]
		r.Owner, r.Pending = p.Owner, &p
		c.owners[p.Owner] = r
	}
	c.read = 0
	if f := w.decider.disk.Find(paths.LocksJournalPath); f != nil {
		c.read = bytes.LastIndexByte(f.Data, '\n') + 1
	}
	return nil
}

// appended judges what was appended to the journal: no process that must not begin its opcode gets a lock.
func (c *checkWithheld) appended(w *World) error {
	f := w.decider.disk.Find(paths.LocksJournalPath)
	complete := bytes.LastIndexByte(f.Data, '\n') + 1
	if complete <= c.read || c.read == 0 {
		return c.readAll(w)
	}
	records, err := lock.DecodeRecords(f.Data[c.read:complete])
	if err != nil {
		return fmt.Errorf("%s: %w", paths.LocksJournalPath, err)
	}
	c.read = complete
	for _, r := range records {
		taken := gained(c.owners[r.Owner].Locks, r.Locks)
		c.owners[r.Owner] = r
		if p := w.ganetiProcessOf(r.Owner); p != nil && p.awaitsPermission && len(taken) > 0 {
			if why := c.barred(w, p); why != "" {
				return fmt.Errorf("job %d is granted %s for opcode %d, but %s", p.job, taken[0].Lock, p.ganeti.op, why)
			}
		}
	}
	return nil
}

// ganetiProcessOf is the living process of an owner, if its program is Ganeti's.
func (w *World) ganetiProcessOf(o lock.Owner) *process {
	p := w.decider.machine.livelocks[o.Livelock]
	if o.Named || p == nil || p.life.Over || p.ganeti == nil {
		return nil
	}
	return p
}

// barred says why the process must not be granted locks; "" if it may be, as far as is certain.
func (c *checkWithheld) barred(w *World, p *process) string {
	if v, known := w.effective.verdict(w.Job(p.job)); known && v.bars() && c.barredBefore(w, p) {
		return fmt.Sprintf("rule %s says %s", v.uuid, v.action.Verb)
	}
	if j := c.holds.held(p.job); j != nil && j.may != p.ganeti.op {
		return "it is held"
	}
	return ""
}

// barredBefore reports whether the rules barred the job at the opcode before, too. A rule about the locks of an opcode is judged
// when the file says that the job has come to it, and Ganeti's process asks for the locks in the same moment.
func (c *checkWithheld) barredBefore(w *World, p *process) bool {
	if p.ganeti.op == 0 || !w.effective.rules.ReadsLocks() {
		return true
	}
	v, known := w.effective.verdictAt(w.Job(p.job), p.ganeti.op-1)
	return known && v.bars()
}

// blocksNobody checks that no process of lockstep's program waits for the requests of barred jobs alone.
func (c *checkWithheld) blocksNobody(w *World) error {
	for o, r := range c.owners {
		if r.Pending == nil || !w.livesOf(o) || w.ganetiProcessOf(o) != nil {
			continue
		}
		var alone *process
		waits := false
		for other, k := range c.owners {
			if other == o {
				continue
			}
			if _, clash := conflict(r.Pending.Request, k.Locks); clash {
				waits = true
				break
			}
			if k.Pending == nil {
				continue
			}
			if _, clash := conflict(r.Pending.Request, k.Pending.Request); !clash {
				continue
			}
			if p := w.ganetiProcessOf(other); p != nil && c.barred(w, p) != "" {
				alone = p
			} else {
				waits = true
			}
		}
		if !waits && alone != nil {
			return fmt.Errorf("%s waits only for job %d, which must get no locks", o, alone.job)
		}
	}
	return nil
}

func (w *World) livesOf(o lock.Owner) bool {
	p := w.decider.machine.livelocks[o.Livelock]
	return !o.Named && p != nil && !p.life.Over && !p.hung && slices.Contains(w.decider.machine.processes, p)
}

package sim

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"lockstep/core/lock"
	"lockstep/core/paths"
	"lockstep/sim/simdisk"
)

// checkTable: each change in the lock manager's journals is valid. No two owners hold locks that
// exclude each other. An owner takes only locks that follow the locks it holds in the lock order,
// which prevents deadlocks. An owner that arrives when a request is overdue does not overtake it
// (design.md "Bounded bypass").
type checkTable struct {
	owners         map[lock.Owner]*tableOwner
	read           map[string]int // read bytes of the journals, by path
	effectiveSince time.Time
	generation     int // generation of the known settings
}

// tableOwner is the latest record of an owner in the journal.
type tableOwner struct {
	lock.Record
	arrived   time.Time // since then it has held or wanted a lock
	requested time.Time // of its pending request
	// isReleasing says that Ganeti's journal has the release of all locks and the journal of the free locks has it not yet: it is
	// written second. Until then an owner that takes locks again has none of the free locks that the files name.
	isReleasing bool
}

func (*checkTable) Name() string { return "the lock table" }

func (c *checkTable) See(w *World, event any) error {
	switch e := event.(type) {
	case deciderStarted, powerLost:
		return c.readAll(w)
	case panicked: // requests are as old as the actor
		for _, o := range c.owners {
			o.requested = w.clock.Now()
		}
	case otherFileChanged:
		switch {
		case e.path != paths.LocksJournalPath && e.path != paths.FreeLocksJournalPath:
		case e.call == simdisk.CallAppend:
			return c.readAppended(w, e.disk, e.path)
		default:
			return c.readAll(w)
		}
	}
	return nil
}

// readAll reads the lock files from the beginning, in place of what was known of owners.
func (c *checkTable) readAll(w *World) error {
	c.owners, c.read = map[lock.Owner]*tableOwner{}, map[string]int{}
	snapshot, err := w.lockState()
	if err != nil {
		return err
	}
	owner := func(o lock.Owner) *tableOwner {
		if c.owners[o] == nil {
			c.owners[o] = &tableOwner{Record: lock.Record{Owner: o}, arrived: w.clock.Now(), requested: w.clock.Now()}
		}
		return c.owners[o]
	}
	for _, h := range snapshot.Holdings {
		owner(h.Owner).Locks = h.Locks
	}
	for _, p := range snapshot.Pending {
		owner(p.Owner).Pending = &p
	}
	for _, path := range []string{paths.LocksJournalPath, paths.FreeLocksJournalPath} {
		if f := w.decider.disk.Find(path); f != nil {
			c.read[path] = bytes.LastIndexByte(f.Data, '\n') + 1
		}
	}
	return nil
}

// readAppended reads what was appended to a journal since the last call, and judges each change.
func (c *checkTable) readAppended(w *World, disk *simdisk.Disk, path string) error {
	f := disk.Find(path)
	complete := bytes.LastIndexByte(f.Data, '\n') + 1
	if complete <= c.read[path] || c.owners == nil {
		return nil
	}
	if c.read[path] == 0 { // the header of the journal
		return c.readAll(w)
	}
	records, err := lock.DecodeRecords(f.Data[c.read[path]:complete])
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	c.read[path] = complete
	for _, r := range records {
		var ganeti, free lock.Record
		if was := c.owners[r.Owner]; was != nil {
			ganeti, free = was.Split()
		}
		isReleasing := false
		if path == paths.FreeLocksJournalPath {
			free = r
		} else {
			ganeti = r
			isReleasing = len(free.Locks) > 0 && (len(r.Locks) == 0 || c.owners[r.Owner].isReleasing)
		}
		whole := lock.Record{Owner: r.Owner, Locks: slices.Concat(ganeti.Locks, free.Locks), Pending: ganeti.Pending}
		if whole.Pending == nil {
			whole.Pending = free.Pending
		}
		if err := c.change(w, whole); err != nil {
			return err
		}
		if is := c.owners[r.Owner]; is != nil {
			is.isReleasing = isReleasing
		}
	}
	return nil
}

func (c *checkTable) change(w *World, r lock.Record) error {
	was := c.owners[r.Owner]
	if was == nil {
		was = &tableOwner{arrived: w.waitingSince(r.Owner)}
	}
	is := &tableOwner{Record: r, arrived: was.arrived, requested: w.clock.Now()}
	if r.Pending != nil && was.Pending != nil && slices.Equal(r.Pending.Request, was.Pending.Request) {
		is.requested = was.requested
	}
	gained := gained(was.Locks, r.Locks)
	if len(was.Locks) > 0 && !was.isReleasing {
		last := was.Locks[len(was.Locks)-1].Lock
		for _, i := range gained {
			if i.Lock.Compare(last) < 0 {
				return fmt.Errorf("%s takes %s while it has %s, which comes later", r.Owner, i.Lock, last)
			}
		}
	}
	for _, other := range c.owners { // the order matters only after a violation
		if other.Owner == r.Owner {
			continue
		}
		if l, clash := conflict(gained, other.Locks); clash {
			return fmt.Errorf("%s and %s both hold %s", other.Owner, r.Owner, l)
		}
		if err := c.overtakes(w, is, len(was.Locks) == 0, gained, other); err != nil {
			return err
		}
	}
	c.owners[r.Owner] = is
	if len(r.Locks) == 0 && r.Pending == nil {
		delete(c.owners, r.Owner)
	}
	return nil
}

// waitingSince is when a job's process began to want locks. The lock manager may write its
// journal later.
func (w *World) waitingSince(o lock.Owner) time.Time {
	for _, p := range w.decider.machine.processes {
		if !o.Named && p.job == int64(o.Job) && p.pid == o.PID && p.shell != nil && !p.shell.locksWantedSince.IsZero() {
			return p.shell.locksWantedSince
		}
	}
	for _, p := range w.programs {
		if o.Livelock == p.process.livelock && p.wants != nil {
			return p.since
		}
	}
	return w.clock.Now()
}

// gained are the locks that an owner has now and did not have, or had only shared.
func gained(was, is []lock.Item) []lock.Item {
	var more []lock.Item
	for _, i := range is {
		at := slices.IndexFunc(was, func(k lock.Item) bool { return k.Lock == i.Lock })
		if at < 0 || was[at].Mode < i.Mode {
			more = append(more, i)
		}
	}
	return more
}

// overtakes reports whether an owner that had no lock when another's request was overdue gets a
// lock that this request waits for.
func (c *checkTable) overtakes(w *World, is *tableOwner, hadNothing bool, gained []lock.Item, waits *tableOwner) error {
	if c.generation != w.effective.generation {
		c.generation, c.effectiveSince = w.effective.generation, w.clock.Now()
	}
	limit := w.effective.settings.LockBypass()
	if !w.effective.known || limit == 0 || !hadNothing || waits.Pending == nil {
		return nil
	}
	if p := w.ganetiProcessOf(waits.Owner); p != nil && p.awaitsPermission {
		return nil // its request may be withheld, and then others overtake it (check_withheld.go)
	}
	overdue := waits.requested.Add(limit)
	if overdue.Before(c.effectiveSince) {
		overdue = c.effectiveSince
	}
	if l, clash := conflict(gained, waits.Pending.Request); clash && is.arrived.After(overdue) {
		return fmt.Errorf("%s gets %s, for which %s has waited %v; it came %v after that was overdue",
			is.Owner, l, waits.Owner, w.clock.Now().Sub(waits.requested), is.arrived.Sub(overdue))
	}
	return nil
}

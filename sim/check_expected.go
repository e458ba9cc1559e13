package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lockstep/core/config"
	"lockstep/core/job"
	"lockstep/core/paths"
)

// checkExpected judges the order expected with lists of jobs and the names of their locks. It knows no expected
// durations.
//
//   - A job is chosen only if no active job has, or is about to take, locks that exclude its own.
//   - Nobody starves: the oldest job past reserve_after may be passed by jobs that want the same only for a time that a
//     wrong expectation explains: as long as the longest opcode so far took, and a minute at least. The time begins with
//     the first choice since the job is the oldest.
//   - No slot is empty beside a job that could run: one that shares no lock with an active job or with any other waiting
//     job, which might have a reservation.
//
// It is for work of commands without faults, rules and client orders, in which only jobs own locks.
type checkExpected struct {
	waiting map[int64]*lockingJob
	active  map[int64]*lockingJob
	oldest  int64     // the job that must be passed no more, once it has waited
	since   time.Time // the first choice since it is the oldest and past reserve_after
	longest time.Duration
	changes int // since the last search for jobs that could run
	judged  int // choices and searches
}

// lockingJob is a job with the locks of its opcodes, by name and mode.
type lockingJob struct {
	id        int64
	priority  int
	received  time.Time
	ops       [][][2]string
	op        int
	claims    bool // it has the locks of the opcode, or is about to take them
	executing time.Time
}

func (*checkExpected) Name() string { return "expected order" }

func (c *checkExpected) See(w *World, event any) error {
	if c.waiting == nil {
		c.waiting, c.active = map[int64]*lockingJob{}, map[int64]*lockingJob{}
	}
	c.changes++
	switch e := event.(type) {
	case fileChanged:
		if e.job != nil && e.job.Status() == job.Queued && !paths.IsJobLivelock(e.job.Livelock) && c.active[e.id] == nil && c.waiting[e.id] == nil {
			c.waiting[e.id] = newLockingJob(e.job)
		}
	case jobPicked:
		return c.picked(w, e.id)
	case opPermitted:
		c.began(e.process.job, e.op)
	case opcodeStarted:
		if j := c.active[e.job]; j != nil {
			j.executing = w.clock.Now()
		}
	case opcodeEnded:
		if j := c.active[e.process.job]; j != nil {
			j.claims = false
			c.longest = max(c.longest, w.clock.Now().Sub(j.executing))
		}
	case processEnded:
		delete(c.active, e.process.job)
	case timePassed:
		return c.search(w)
	default:
		c.changes--
	}
	return nil
}

func newLockingJob(j *job.Job) *lockingJob {
	known := &lockingJob{id: int64(j.ID), priority: j.Priority(), received: time.Unix(j.Received.Sec, j.Received.Usec*1000)}
	for i := range j.Ops {
		var op struct{ Locks [][2]string }
		mustDecode(j.Ops[i].Input, &op)
		known.ops = append(known.ops, op.Locks)
	}
	return known
}

func (c *checkExpected) began(id int64, op int) {
	if j := c.active[id]; j != nil {
		j.op, j.claims = op, true
	}
}

func (c *checkExpected) applies(w *World) bool {
	return w.effective.known && w.effective.settings.Order == config.OrderExpected
}

func (c *checkExpected) picked(w *World, id int64) error {
	j := c.waiting[id]
	if j == nil || c.active[id] != nil {
		return nil
	}
	delete(c.waiting, id)
	j.claims = true
	defer func() { c.active[id] = j }()
	if !c.applies(w) {
		return nil
	}
	c.judged++
	for _, other := range c.active {
		if other.claims && excludeEachOther(j.ops[0], other.ops[other.op]) {
			return fmt.Errorf("job %d was chosen, but job %d has locks that it wants", id, other.id)
		}
	}
	return c.passed(w, j)
}

// passed judges that the oldest job was passed.
func (c *checkExpected) passed(w *World, chosen *lockingJob) error {
	now, reserveAfter := w.clock.Now(), w.effective.settings.ReserveAfter()
	var oldest *lockingJob
	for _, other := range c.waiting {
		if now.Sub(other.received) < reserveAfter {
			continue
		}
		if oldest == nil || other.priority < oldest.priority || other.priority == oldest.priority && other.id < oldest.id {
			oldest = other
		}
	}
	if oldest == nil {
		return nil
	}
	if oldest.id != c.oldest {
		c.oldest, c.since = oldest.id, now
	}
	patience := max(time.Minute, c.longest)
	for _, j := range c.active {
		if j.claims && !j.executing.IsZero() {
			patience = max(patience, now.Sub(j.executing))
		}
	}
	if wait := now.Sub(c.since); wait > patience+patience/4 && oldest.priority <= chosen.priority && excludeEachOther(oldest.ops[0], chosen.ops[0]) {
		return fmt.Errorf("job %d was chosen before job %d, which has been the oldest for %v and wants the same locks", chosen.id, oldest.id, wait)
	}
	return nil
}

// searchEvery is how many events pass between two searches.
const searchEvery = 64

// search looks for a job that could run. Everything was at rest before the time passed.
func (c *checkExpected) search(w *World) error {
	if c.changes < searchEvery || !c.applies(w) || len(w.occupying()) >= w.effective.slots || w.effective.quiescentAt == 0 {
		return nil
	}
	c.changes = 0
	c.judged++
	wanted := map[string]int{} // how many waiting jobs name a lock
	levels := map[string]int{} // how many name the whole level, and how many name anything at a level
	for _, j := range c.waiting {
		for _, item := range j.ops[0] {
			wanted[item[0]]++
			levels[level(item[0])]++
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.waiting)) {
		j := c.waiting[id]
		if c.free(j) && alone(j, wanted, levels) {
			return fmt.Errorf("job %d could run, and %d of %d slots are in use", id, len(c.active), w.effective.slots)
		}
	}
	return nil
}

// free reports whether no active job names a lock that excludes those of the job, in its present or a later opcode.
func (c *checkExpected) free(j *lockingJob) bool {
	for _, other := range c.active {
		for _, locks := range other.ops[other.op:] {
			if excludeEachOther(j.ops[0], locks) {
				return false
			}
		}
	}
	return true
}

// alone reports whether no other waiting job names a lock of the job.
func alone(j *lockingJob, wanted, levels map[string]int) bool {
	for _, item := range j.ops[0] {
		whole := level(item[0]) + "/[lockset]"
		if wanted[item[0]] > 1 || item[0] != whole && wanted[whole] > 0 || item[0] == whole && levels[level(item[0])] > 1 {
			return false
		}
	}
	return wanted["cluster/BGL"] == 0 || len(j.ops[0]) == 0
}

func level(lock string) string {
	name, _, _ := strings.Cut(lock, "/")
	return name
}

// excludeEachOther compares two lists of names and modes. Every job with locks shares the big lock.
func excludeEachOther(a, b [][2]string) bool {
	const big = "cluster/BGL"
	for _, x := range a {
		for _, y := range b {
			whole := level(x[0]) == level(y[0]) && (strings.HasSuffix(x[0], "/[lockset]") || strings.HasSuffix(y[0], "/[lockset]"))
			switch exclusive := "exclusive"; {
			case x == [2]string{big, exclusive}, y == [2]string{big, exclusive}:
				return true
			case (x[0] == y[0] || whole) && (x[1] == exclusive || y[1] == exclusive):
				return true
			}
		}
	}
	return false
}

package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"lockstep/core/config"
	"lockstep/core/filter"
	"lockstep/core/job"
)

// checkExpected judges the order expected with lists of jobs and the names of their locks. It knows no expected
// durations, and asks no code of core/sched.
//
//   - A job is chosen only if no active job has locks that exclude its own, nor a job that was just chosen; or it is past
//     reserve_after, and no other such job of its priority waits in its slot.
//   - No job is chosen before an eligible more urgent one that wants no other locks.
//   - No job starves. Jobs that want the same may pass the oldest job past reserve_after for a limited time, because
//     expectations can be wrong: as long as the longest opcode so far took, and a minute at least. The time begins with
//     the first choice since the job is the oldest, counted with jobs between two opcodes.
//   - No slot is empty beside a job that could run: one that shares no lock with an active job or with any other eligible
//     job, which might have a reservation.
//
// Only jobs are judged whose opcodes are all commands with a fixed list of locks.
type checkExpected struct {
	eligibility
	known   map[int64]*lockingJob // jobs that have waited
	active  map[int64]*lockingJob
	oldest  int64     // the job that must be passed no more, once it has waited
	since   time.Time // the first choice since it is the oldest and past reserve_after
	longest time.Duration
	ended   time.Time // of the last process; the daemon notices it at this time at the earliest
	changes int       // since the last search for jobs that could run
	judged  int       // choices and searches
}

// lockingJob is a job with the locks of its opcodes, by name and mode.
type lockingJob struct {
	id        int64
	received  time.Time
	ops       [][][2]string
	fixed     bool // the locks of all opcodes are known
	op        int
	claims    bool // it has the locks of the opcode, or was just chosen
	process   bool // it has had a process
	executing time.Time
	priority  int       // when it was chosen
	chosen    time.Time // zero: its choice was not seen
	blocked   bool      // it was chosen although others had its locks, and has not got them
	rules     int       // the generation of rules and settings at its choice
}

func (*checkExpected) Name() string { return "expected order" }

func (c *checkExpected) See(w *World, event any) error {
	if c.known == nil {
		c.known, c.active = map[int64]*lockingJob{}, map[int64]*lockingJob{}
	}
	chosen, isChoice := event.(jobPicked)
	var before *waitingJob
	if isChoice {
		before = c.waiting[chosen.id]
	}
	c.observe(w, event)
	c.changes++
	switch e := event.(type) {
	case fileChanged:
		if e.job != nil && e.job.Status() == job.Queued && c.active[e.id] == nil { // an id without a commit record is given again
			c.known[e.id] = newLockingJob(e.job)
		}
		if j := c.active[e.id]; j != nil && (e.job == nil || e.job.Status().Final()) {
			j.claims = false
			if !j.process {
				delete(c.active, e.id) // it was canceled before it had a process
			}
		}
	case jobPicked:
		if before != nil {
			return c.picked(w, e.id, before.job)
		}
		if c.active[e.id] == nil { // what it wants is not known, but it has a slot
			c.active[e.id] = &lockingJob{id: e.id}
		}
	case jobReturned:
		delete(c.active, e.id)
		c.oldest = 0 // a start that came to nothing, maybe after long, has passed no job
	case garbled:
		c.damaged(e.id)
	case processPermitted:
		c.running(e.process.job)
	case orderSent:
		if j := c.active[e.id]; j != nil && j.executing.IsZero() {
			j.claims = false // it may end the job, or take it back
		}
	case opcodeStarted:
		if j := c.running(e.job); j != nil {
			j.op, j.claims, j.executing, j.blocked = e.op, true, w.clock.Now(), false
			return c.overtaken(w, j)
		}
	case opcodeEnded:
		if j := c.active[e.process.job]; j != nil {
			j.claims = false
			c.longest = max(c.longest, w.clock.Now().Sub(j.executing))
		}
	case processEnded:
		delete(c.active, e.process.job)
		c.ended = w.clock.Now()
	case diskFailed:
		if strings.HasPrefix(path.Base(e.path), "locks.") {
			c.requestsLost()
		}
	case deciderStarted, queueStarted: // a choice that has not led to a process is forgotten
		maps.DeleteFunc(c.active, func(_ int64, j *lockingJob) bool { return !j.process })
	case powerLost:
		clear(c.active)
	case timePassed:
		return c.search(w)
	default:
		c.changes--
	}
	return nil
}

// requestsLost records that the lock manager could not write a grant. It reads its files again, and does not know of the request
// of a job that has not begun its first opcode until the process repeats it.
func (c *checkExpected) requestsLost() {
	for _, j := range c.active { // the order does not matter
		j.claims = j.claims && !j.executing.IsZero()
	}
}

// damaged records a job whose file was replaced from outside: what becomes of it is not judged.
func (c *checkExpected) damaged(id int64) {
	if j := c.known[id]; j != nil {
		j.fixed = false
	}
	if j := c.active[id]; j != nil && !j.process {
		delete(c.active, id)
	}
}

// running is the active job that has a process; nil if the job is not known.
func (c *checkExpected) running(id int64) *lockingJob {
	j := c.known[id]
	if j != nil {
		j.process = true
		c.active[id] = j
	}
	return j
}

func newLockingJob(j *job.Job) *lockingJob {
	known := &lockingJob{id: int64(j.ID), received: time.Unix(j.Received.Sec, j.Received.Usec*1000), fixed: true}
	for i := range j.Ops {
		var op struct {
			OpID  string `json:"OP_ID"`
			Locks [][2]string
			Any   json.RawMessage `json:"opportunistic_locks"`
		}
		mustDecode(j.Ops[i].Input, &op)
		known.ops = append(known.ops, op.Locks)
		known.fixed = known.fixed && op.OpID == "OP_RUN_COMMAND" && op.Any == nil
	}
	return known
}

func (c *checkExpected) applies(w *World) bool {
	return w.effective.known && w.effective.settings.Order == config.OrderExpected
}

// picked judges the choice of a job, whose file was that one: no job that goes before it could have been chosen.
func (c *checkExpected) picked(w *World, id int64, file *job.Job) error {
	j := c.known[id]
	if j == nil || c.active[id] != nil {
		return nil
	}
	// The queue may have had an order for the job before the choice, and then drops the choice.
	j.op, j.claims, j.process, j.executing, j.blocked, j.rules = 0, c.orders[id] == 0, false, time.Time{}, false, w.effective.generation
	j.priority, j.chosen = file.Priority(), w.clock.Now()
	defer func() { c.active[id] = j }()
	if !c.applies(w) || !j.fixed {
		return nil
	}
	c.judged++
	if other := c.inTheWay(w, j); other != nil {
		if first := c.blockedAlready(j.priority); first != nil || w.clock.Now().Sub(j.received) < w.effective.settings.ReserveAfter() {
			return fmt.Errorf("job %d was chosen, but job %d has locks that it wants", id, other.id)
		}
		j.blocked = true
	}
	for _, other := range slices.Sorted(maps.Keys(c.waiting)) {
		u := c.known[other]
		if u == nil || !u.fixed || c.waiting[other].job.Priority() >= file.Priority() || !among(u.ops[0], j.ops[0]) {
			continue
		}
		if c.eligible(w, other) && w.disturbance.recovered(w) {
			return fmt.Errorf("job %d was chosen before job %d, which is more urgent and wants no other locks", id, other)
		}
	}
	return c.passed(w, j, file.Priority())
}

// among reports whether a list has all locks of another one that is not empty.
func among(some, list [][2]string) bool {
	return len(some) > 0 && !slices.ContainsFunc(some, func(item [2]string) bool { return !slices.Contains(list, item) })
}

// inTheWay is an active job that has locks that a job wants, or nil.
func (c *checkExpected) inTheWay(w *World, j *lockingJob) *lockingJob {
	for _, id := range slices.Sorted(maps.Keys(c.active)) {
		if other := c.active[id]; other.fixed && other.claims && !c.mayPause(w, other) && excludeEachOther(j.ops[0], other.ops[other.op]) {
			return other
		}
	}
	return nil
}

// blockedAlready is a job of a priority that was chosen although others had its locks, and for which an executing opcode has one
// still; or nil.
func (c *checkExpected) blockedAlready(priority int) *lockingJob {
	for _, id := range slices.Sorted(maps.Keys(c.active)) {
		j := c.active[id]
		if !j.blocked || j.priority != priority {
			continue
		}
		for _, other := range c.active { // the order does not matter
			if other.fixed && other.claims && !other.executing.IsZero() && excludeEachOther(j.ops[0], other.ops[other.op]) {
				return j
			}
		}
	}
	return nil
}

// mayPause reports whether a hold or a rule may keep an active job from its first opcode, or has kept it since its choice. It then
// has no locks: if the rule is gone, the job waits until they are free.
func (c *checkExpected) mayPause(w *World, j *lockingJob) bool {
	file := w.Job(j.id)
	if !j.executing.IsZero() || file == nil {
		return false
	}
	v, judged := w.effective.verdict(file)
	return c.held[j.id] || !judged || j.rules != w.effective.generation || v.action.Verb != filter.Accept
}

// onlyFixed reports whether the locks of all active jobs are known to the checker.
func (c *checkExpected) onlyFixed() bool {
	for _, j := range c.active {
		if !j.fixed {
			return false
		}
	}
	return true
}

// passed judges that the oldest job was passed by a choice. The error says that this was so for longer than a reservation permits.
func (c *checkExpected) passed(w *World, chosen *lockingJob, urgency int) error {
	now, reserveAfter := w.clock.Now(), w.effective.settings.ReserveAfter()
	var oldest *lockingJob
	priority := 0
	for _, id := range slices.Sorted(maps.Keys(c.waiting)) {
		other, its := c.known[id], c.waiting[id].job.Priority()
		if other != nil && now.Sub(other.received) >= reserveAfter && (oldest == nil || its < priority) && c.eligible(w, id) {
			oldest, priority = other, its
		}
	}
	if oldest == nil || !oldest.fixed || c.olderBetween(w, oldest.id, priority, now.Add(-reserveAfter)) {
		c.oldest = 0
		return nil
	}
	if oldest.id != c.oldest {
		c.oldest, c.since = oldest.id, now
	}
	if chosen.id < oldest.id && priority == urgency && now.Sub(chosen.received) >= reserveAfter {
		return nil // it is the older one, which was not certain to be eligible
	}
	patience := c.patience(now)
	if wait := now.Sub(c.since); wait > patience && priority <= urgency && excludeEachOther(oldest.ops[0], chosen.ops[0]) {
		return fmt.Errorf("job %d was chosen before job %d, which has been the oldest for %v and wants the same locks",
			chosen.id, oldest.id, wait)
	}
	return nil
}

// patience is for how long a wrong expectation may let others pass: as long as the longest opcode so far took, and a minute at
// least; a quarter more.
func (c *checkExpected) patience(now time.Time) time.Duration {
	patience := max(time.Minute, c.longest)
	for _, j := range c.active {
		if j.claims && !j.executing.IsZero() {
			patience = max(patience, now.Sub(j.executing))
		}
	}
	return patience + patience/4
}

// overtaken judges an opcode that has got its locks: of a job that was chosen after another one of at most its priority, which was
// past reserve_after then and has waited in its slot since, for longer than lock_bypass_after and than any opcode takes, and
// wants the same.
func (c *checkExpected) overtaken(w *World, j *lockingJob) error {
	now := w.clock.Now()
	if !c.applies(w) || !j.fixed || j.chosen.IsZero() || !w.disturbance.recovered(w) {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(c.active)) {
		v := c.active[id]
		if v == j || !v.blocked || !v.claims || c.mayPause(w, v) || v.priority > j.priority || !v.chosen.Before(j.chosen) {
			continue
		}
		wait := now.Sub(v.chosen)
		if wait > c.patience(now)+w.effective.settings.LockBypass() && excludeEachOther(v.ops[0], j.ops[j.op]) {
			return fmt.Errorf("job %d has its locks before job %d, which came to its slot earlier and has waited there for %v", j.id, id, wait)
		}
	}
	return nil
}

// olderBetween reports whether a job between two opcodes may have the aged reservation: it is as old as before says, and precedes the
// job with that id and priority.
func (c *checkExpected) olderBetween(w *World, id int64, priority int, before time.Time) bool {
	for _, j := range c.active {
		file := w.Job(j.id)
		if j.process && !j.claims && j.op+1 < len(j.ops) && !j.received.After(before) && file != nil &&
			(file.Priority() < priority || file.Priority() == priority && j.id < id) {
			return true
		}
	}
	return false
}

// searchEvery is how many events pass between two searches.
const searchEvery = 64

// search looks for a job that could run, which is an error. Everything was at rest before the time passed. A process that has ended with
// the new time is not noticed yet.
func (c *checkExpected) search(w *World) error {
	switch slots := w.effective.slots; {
	case c.changes < searchEvery, !c.applies(w), w.effective.quiescentAt == 0, !w.disturbance.recovered(w), !c.onlyFixed():
		return nil
	case c.ended.Equal(w.clock.Now()):
		return nil
	case len(w.occupying()) >= slots, len(c.active) >= slots: // a job that is being started or ended has a slot
		return nil
	}
	c.changes = 0
	c.judged++
	wanted := map[string]int{} // how many waiting jobs name a lock
	levels := map[string]int{} // how many name the whole level, and how many name anything at a level
	var could []*lockingJob
	for _, id := range slices.Sorted(maps.Keys(c.waiting)) {
		j := c.known[id]
		if v, judged := w.effective.verdict(c.waiting[id].job); j == nil || judged && v.action.Verb == filter.Pause {
			continue
		}
		if !j.fixed {
			return nil
		}
		for _, item := range j.ops[0] {
			wanted[item[0]]++
			levels[level(item[0])]++
		}
		could = append(could, j)
	}
	for _, j := range could {
		if c.free(j) && alone(j, wanted, levels) && c.eligible(w, j.id) && !w.mayHaveProgram(j.ops[0]) {
			return fmt.Errorf("job %d could run, and %d of %d slots are in use", j.id, len(c.active), w.effective.slots)
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

// excludeEachOther reports whether two lists of names and modes cannot be held together. Every job with locks shares the big lock.
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

// Package retention decides which ended jobs leave the queue for the archive: those that ended some time ago, except
// the last ones of each name. It is pure and keeps no files: after a crash it is filled again from the queue. The cost
// of one job is logarithmic in their number, so that nothing is searched when a job becomes due.
package retention

import (
	"cmp"
	"slices"
	"time"

	"lockstep/core/heap"
)

// Job is an ended job, as far as its age and name decide when it leaves the queue.
type Job struct {
	ID     int64
	Name   string // "" for most jobs
	EndUs  int64  // microseconds since 1970
	FromUs int64  // from which its age counts, in microseconds since 1970; at least EndUs
}

// compare is the order of ends; jobs that ended at the same time are ordered by id.
func (j Job) compare(k Job) int {
	return cmp.Or(cmp.Compare(j.EndUs, k.EndUs), cmp.Compare(j.ID, k.ID))
}

// Keeper decides which ended jobs are due to be archived: the old ones, except the last ones of each name. Which jobs are due depends on
// these jobs only, not on those that were in the queue before: so it is the same after a restart.
//
// Invariant: a job is older than the last ones of its name, or it is one of these. A name with older jobs has keepLast last ones.
type Keeper struct {
	keepLast int
	oldest   heap.Heap[*older, ageOrder] // all older jobs
	older    map[int64]*older            // the same, by id
	names    map[string]*named           // no name is without jobs
}

// older is an ended job that is not among the last ones of its name, so it becomes due by age. It is in two heaps: of all such jobs by
// age, and of its name by end.
type older struct {
	Job
	ofAll, ofName int // places in Keeper.oldest and named.older
}

// named has the ended jobs of one name: the last ones, which are kept, and the older ones.
type named struct {
	last  []Job                       // in the order of ends
	older heap.Heap[*older, endOrder] // the last one first
}

type ageOrder struct{}

func (ageOrder) Before(a, b *older) bool {
	return cmp.Or(cmp.Compare(a.FromUs, b.FromUs), cmp.Compare(a.ID, b.ID)) < 0
}
func (ageOrder) Moved(o *older, i int) { o.ofAll = i }

type endOrder struct{}

func (endOrder) Before(a, b *older) bool { return a.compare(b.Job) > 0 }
func (endOrder) Moved(o *older, i int)   { o.ofName = i }

// NewKeeper returns a Keeper that never lets the last keepLast jobs of a name be archived; 0: all may be. Add gives it the ended jobs.
func NewKeeper(keepLast int) *Keeper {
	return &Keeper{keepLast: keepLast, older: map[int64]*older{}, names: map[string]*named{}}
}

// Add adds a job that has ended. If its name has more than keepLast jobs then, the oldest of them is no longer protected. A job that is
// there already changes nothing.
func (k *Keeper) Add(j Job) {
	if k.older[j.ID] != nil {
		return
	}
	if !k.protects(j) {
		k.addOlder(j)
		return
	}
	n := k.names[j.Name]
	if n == nil {
		n = &named{}
		k.names[j.Name] = n
	}
	at, there := slices.BinarySearchFunc(n.last, j, Job.compare)
	if there {
		return
	}
	n.last = slices.Insert(n.last, at, j)
	if len(n.last) > k.keepLast {
		n.older.Push(k.addOlder(n.last[0]))
		n.last = slices.Delete(n.last, 0, 1)
	}
}

// Forget drops a job that has left the queue by another way than TakeDue. The next one of its name is one of the last then.
func (k *Keeper) Forget(j Job) {
	if o := k.older[j.ID]; o != nil {
		k.removeOlder(o)
		return
	}
	n := k.names[j.Name]
	if n == nil {
		return
	}
	at := slices.IndexFunc(n.last, func(other Job) bool { return other.ID == j.ID })
	if at < 0 {
		return // it was due
	}
	n.last = slices.Delete(n.last, at, at+1)
	if n.older.Len() > 0 {
		next := n.older.First()
		k.removeOlder(next)
		n.last = slices.Insert(n.last, 0, next.Job)
	}
	if len(n.last) == 0 {
		delete(k.names, j.Name)
	}
}

// TakeDue removes and returns the jobs whose age counts from before a time, oldest first, at most as many as given.
func (k *Keeper) TakeDue(before time.Time, most int) []int64 {
	var due []int64
	for len(due) < most && k.oldest.Len() > 0 && k.oldest.First().FromUs < before.UnixMicro() {
		first := k.oldest.First()
		k.removeOlder(first)
		due = append(due, first.ID)
	}
	return due
}

func (k *Keeper) protects(j Job) bool { return j.Name != "" && k.keepLast > 0 }

func (k *Keeper) addOlder(j Job) *older {
	o := &older{Job: j}
	k.older[j.ID] = o
	k.oldest.Push(o)
	return o
}

func (k *Keeper) removeOlder(o *older) {
	delete(k.older, o.ID)
	k.oldest.Remove(o.ofAll)
	if k.protects(o.Job) {
		k.names[o.Name].older.Remove(o.ofName)
	}
}

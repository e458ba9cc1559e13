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

// Job is an ended job.
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

// Keeper holds the ended jobs of a queue.
//
// Invariant: a job is in the heap, or it is one of the keepLast last ones of its name.
type Keeper struct {
	keepLast int
	oldest   heap.Heap[Job, ageOrder]
	last     map[string][]Job // by name, in the order of ends; at most keepLast, no list is empty
}

type ageOrder struct{}

func (ageOrder) Before(a, b Job) bool {
	return cmp.Or(cmp.Compare(a.FromUs, b.FromUs), cmp.Compare(a.ID, b.ID)) < 0
}
func (ageOrder) Moved(Job, int) {}

// NewKeeper is a Keeper without jobs that keeps the last jobs of each name; 0 keeps none.
func NewKeeper(keepLast int) *Keeper {
	return &Keeper{keepLast: keepLast, last: map[string][]Job{}}
}

// Add adds a job that has ended.
func (k *Keeper) Add(j Job) {
	if j.Name == "" || k.keepLast == 0 {
		k.oldest.Push(j)
		return
	}
	at, _ := slices.BinarySearchFunc(k.last[j.Name], j, Job.compare)
	last := slices.Insert(k.last[j.Name], at, j)
	if len(last) > k.keepLast {
		k.oldest.Push(last[0])
		last = slices.Delete(last, 0, 1)
	}
	k.last[j.Name] = last
}

// Forget drops a job that has left the queue otherwise, so that it is not counted as one of the last of its name.
func (k *Keeper) Forget(j Job) {
	last := k.last[j.Name]
	at := slices.IndexFunc(last, func(other Job) bool { return other.ID == j.ID })
	if at < 0 {
		return // it is in the heap, until it is due
	}
	if last = slices.Delete(last, at, at+1); len(last) == 0 {
		delete(k.last, j.Name)
		return
	}
	k.last[j.Name] = last
}

// TakeDue removes and returns the jobs whose age counts from before a time, oldest first, at most as many as given. Some may have
// left the queue already.
func (k *Keeper) TakeDue(before time.Time, most int) []int64 {
	var due []int64
	for len(due) < most && k.oldest.Len() > 0 && k.oldest.First().FromUs < before.UnixMicro() {
		due = append(due, k.oldest.Pop().ID)
	}
	return due
}

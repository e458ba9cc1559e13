// Package sched decides which pending jobs run next. Pure: the scheduler actor
// feeds it and acts on what it returns.
package sched

import "lockstep/actors/core/job"

// Pending is a job that may be picked. Smaller priorities go first.
type Pending struct {
	ID       job.ID
	Priority int
}

// before is the plain order: priority, then id (queue.md 4.4, step 4).
func (p Pending) before(q Pending) bool {
	if p.Priority != q.Priority {
		return p.Priority < q.Priority
	}
	return p.ID < q.ID
}

// Order keeps pending jobs in plain order. Put, Remove and Pop cost the
// logarithm of their number: nothing on the way of one job may grow with the
// queue's length.
//
// Invariant: heap is a binary heap under before, and at[heap[i].ID] == i.
type Order struct {
	heap []Pending
	at   map[job.ID]int
}

// Len is the number of pending jobs.
func (o *Order) Len() int { return len(o.heap) }

// Put adds a job, or moves it if its priority has changed.
func (o *Order) Put(p Pending) {
	if o.at == nil {
		o.at = map[job.ID]int{}
	}
	i, known := o.at[p.ID]
	if !known {
		i = len(o.heap)
		o.heap = append(o.heap, p)
		o.at[p.ID] = i
	}
	o.heap[i] = p
	o.settle(i)
}

// Remove takes a job out and reports whether it was there.
func (o *Order) Remove(id job.ID) bool {
	i, known := o.at[id]
	if !known {
		return false
	}
	last := len(o.heap) - 1
	o.swap(i, last)
	o.heap = o.heap[:last]
	delete(o.at, id)
	if i < last {
		o.settle(i)
	}
	return true
}

// Pop takes out the job that goes first.
func (o *Order) Pop() (Pending, bool) {
	if len(o.heap) == 0 {
		return Pending{}, false
	}
	first := o.heap[0]
	o.Remove(first.ID)
	return first, true
}

func (o *Order) swap(i, k int) {
	o.heap[i], o.heap[k] = o.heap[k], o.heap[i]
	o.at[o.heap[i].ID], o.at[o.heap[k].ID] = i, k
}

// settle restores the heap around an element that may be too high or too low.
func (o *Order) settle(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !o.heap[i].before(o.heap[parent]) {
			break
		}
		o.swap(i, parent)
		i = parent
	}
	for {
		least := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < len(o.heap) && o.heap[child].before(o.heap[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		o.swap(i, least)
		i = least
	}
}

package throughput

import (
	"container/heap"
	"time"
)

// scheduledEvent is the end of an opcode, or the arrival of a job after another's end.
type scheduledEvent struct {
	at      time.Duration
	order   int // order of scheduling, among the events of one moment
	ends    *activeJob
	arrives int
}

// eventHeap is a heap of scheduled events.
type eventHeap []*scheduledEvent

func (s eventHeap) Len() int      { return len(s) }
func (s eventHeap) Swap(i, k int) { s[i], s[k] = s[k], s[i] }
func (s eventHeap) Less(i, k int) bool {
	if s[i].at != s[k].at {
		return s[i].at < s[k].at
	}
	return s[i].order < s[k].order
}
func (s *eventHeap) Push(x any) { *s = append(*s, x.(*scheduledEvent)) }
func (s *eventHeap) Pop() any {
	last := len(*s) - 1
	popped := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	return popped
}

// schedule adds an event; it refuses one that is too far away.
func (w *engine) schedule(e scheduledEvent) error {
	if e.at > timeMax {
		return errEndless
	}
	w.order++
	e.order = w.order
	heap.Push(&w.scheduled, &e)
	return nil
}

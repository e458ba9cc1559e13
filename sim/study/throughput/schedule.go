package throughput

import (
	"container/heap"
	"time"
)

// opcodeEnd is the scheduled end of a job's current opcode.
type opcodeEnd struct {
	at    time.Duration
	order int // order of scheduling, among the ends of one moment
	ends  *activeJob
}

// eventHeap is a heap of scheduled ends.
type eventHeap []*opcodeEnd

func (s eventHeap) Len() int      { return len(s) }
func (s eventHeap) Swap(i, k int) { s[i], s[k] = s[k], s[i] }
func (s eventHeap) Less(i, k int) bool {
	if s[i].at != s[k].at {
		return s[i].at < s[k].at
	}
	return s[i].order < s[k].order
}
func (s *eventHeap) Push(x any) { *s = append(*s, x.(*opcodeEnd)) }
func (s *eventHeap) Pop() any {
	last := len(*s) - 1
	popped := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	return popped
}

// schedule adds an end; it refuses one that is too far away.
func (w *engine) schedule(e opcodeEnd) error {
	if e.at > timeMax {
		return errEndless
	}
	w.order++
	e.order = w.order
	heap.Push(&w.scheduled, &e)
	return nil
}

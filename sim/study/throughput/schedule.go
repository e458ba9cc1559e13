package throughput

import (
	"container/heap"
	"time"
)

// scheduled is the end of an opcode, or else the coming of a job after another's
// end.
type scheduled struct {
	at    time.Duration
	order int // of being scheduled, among those of one moment
	ends  *active
	comes int
}

// schedule is a heap of what will happen.
type schedule []*scheduled

func (s schedule) Len() int      { return len(s) }
func (s schedule) Swap(i, k int) { s[i], s[k] = s[k], s[i] }
func (s schedule) Less(i, k int) bool {
	if s[i].at != s[k].at {
		return s[i].at < s[k].at
	}
	return s[i].order < s[k].order
}
func (s *schedule) Push(x any) { *s = append(*s, x.(*scheduled)) }
func (s *schedule) Pop() any {
	last := len(*s) - 1
	popped := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	return popped
}

// schedule adds what will happen; it refuses what is too far away.
func (w *world) schedule(e scheduled) error {
	if e.at > timeMax {
		return errEndless
	}
	w.order++
	e.order = w.order
	heap.Push(&w.scheduled, &e)
	return nil
}

package sched

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/actors/core/job"
)

// The order is compared with the obvious one: sort everything, take the first.
func TestOrderPopsWhatSortingWouldPutFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o Order
		model := map[job.ID]Pending{}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				p := Pending{job.ID(rapid.IntRange(1, 30).Draw(t, "id")), rapid.IntRange(-20, 19).Draw(t, "priority")}
				o.Put(p)
				model[p.ID] = p
			},
			"remove": func(t *rapid.T) {
				id := job.ID(rapid.IntRange(1, 30).Draw(t, "id"))
				_, known := model[id]
				require.Equal(t, known, o.Remove(id))
				delete(model, id)
			},
			"pop": func(t *rapid.T) {
				got, any := o.Pop()
				require.Equal(t, len(model) > 0, any)
				if !any {
					return
				}
				require.Equal(t, first(model), got)
				delete(model, got.ID)
			},
			"": func(t *rapid.T) { require.Equal(t, len(model), o.Len()) },
		})
	})
}

func first(model map[job.ID]Pending) Pending {
	all := make([]Pending, 0, len(model))
	for _, p := range model {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Pending) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.ID, b.ID))
	})
	return all[0]
}

func TestSlotsAreNeverOverfilledAndNeverIdle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.IntRange(1, 5).Draw(t, "slots")
		s := NewState(slots, nil, nil)
		next := job.ID(1)
		t.Repeat(map[string]func(*rapid.T){
			"submit": func(t *rapid.T) {
				s.Enqueue(Pending{next, rapid.SampledFrom([]int{-10, 0, 10}).Draw(t, "priority")})
				next++
			},
			"end": func(t *rapid.T) {
				if running := s.Running(); len(running) > 0 {
					s.Leave(rapid.SampledFrom(running).Draw(t, "which"))
				}
			},
			"cancel": func(t *rapid.T) { s.Leave(job.ID(rapid.IntRange(1, int(next)).Draw(t, "which"))) },
			"": func(t *rapid.T) {
				s.Pick()
				require.LessOrEqual(t, len(s.Running()), slots)
				require.True(t, s.Waiting() == 0 || len(s.Running()) == slots, "a slot is free and a job waits")
			},
		})
	})
}

func TestAPickedJobDoesNotWaitAgain(t *testing.T) {
	s := NewState(1, []Pending{{1, 0}, {2, -10}}, nil)
	require.Equal(t, []job.ID{2}, s.Pick())
	s.Enqueue(Pending{2, -10})
	s.Leave(2)
	require.Equal(t, []job.ID{1}, s.Pick())
	require.Zero(t, s.Waiting())
}

func BenchmarkPickOneOfMany(b *testing.B) {
	for _, waiting := range []int{1_000, 100_000} {
		b.Run(map[int]string{1_000: "waiting=1000", 100_000: "waiting=100000"}[waiting], func(b *testing.B) {
			s := NewState(1, nil, nil)
			for i := range waiting {
				s.Enqueue(Pending{job.ID(i), i % 3})
			}
			next := job.ID(waiting)
			for b.Loop() {
				for _, id := range s.Pick() {
					s.Leave(id)
				}
				s.Enqueue(Pending{next, int(next % 3)})
				next++
			}
		})
	}
}

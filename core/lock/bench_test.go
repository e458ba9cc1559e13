package lock

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func must(b *testing.B) func(Update, error) Update {
	return func(u Update, err error) Update {
		if err != nil {
			b.Fatal(err)
		}
		return u
	}
}

// The cost of one job's locks must not grow with the locks of other owners.
func BenchmarkUncontended(b *testing.B) {
	for _, others := range []int{10, 100_000} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) {
			s := New(Settings{Hierarchy: Implied, BypassAfter: time.Minute})
			for k := range others {
				must(b)(s.TryUpdate(epoch, jobOwner(k/10), Request{{BGL, Shared}, {Member(Node, fmt.Sprintf("other-%d", k)), Exclusive}}[min(k%10, 1):]))
			}
			o := jobOwner(others)
			req := Request{{BGL, Shared}, {Member(Instance, "mine"), Exclusive}, {Member(Node, "z"), Exclusive}}
			b.ReportAllocs()
			for b.Loop() {
				if u := must(b)(s.UpdateWaiting(epoch, Pending{0, o, req})); !u.Granted {
					b.Fatal(u)
				}
				s.Release(epoch, o)
			}
		})
	}
}

// Many owners wait for one lock, and release it one after another: the cost of each must not grow with their number.
// With a limit, all of them are overdue.
func BenchmarkConvoy(b *testing.B) {
	for _, after := range []time.Duration{0, time.Second} {
		for _, waiters := range []int{100, 1_000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("limit=%v/waiters=%d", after, waiters), func(b *testing.B) {
				for b.Loop() {
					s := New(Settings{Hierarchy: Implied, BypassAfter: after})
					req := Request{{Member(Node, "a"), Exclusive}}
					for k := range waiters {
						must(b)(s.UpdateWaiting(epoch, Pending{k % 7, jobOwner(k), req}))
					}
					next, released := jobOwner(0), 0
					for later := epoch.Add(time.Minute); ; released++ {
						u := s.Release(later, next)
						if len(u.Notify) == 0 {
							break
						}
						next = u.Notify[0]
					}
					require.Equal(b, waiters-1, released)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*waiters), "ns/owner")
			})
		}
	}
}

// nodesHeld is a State in which each owner holds one node.
func nodesHeld(b *testing.B, owners int, mode Mode) *State {
	s := New(Settings{Hierarchy: Implied})
	for k := range owners {
		must(b)(s.TryUpdate(epoch, jobOwner(k), Request{{Member(Node, fmt.Sprint(k)), mode}}))
	}
	return s
}

func BenchmarkGroup(b *testing.B) {
	const owners = 10_000
	group, all := jobOwner(owners), func(m Mode) Request { return Request{{Group(Node), m}} }
	b.Run("shared against shared members", func(b *testing.B) {
		s := nodesHeld(b, owners, Shared)
		for b.Loop() {
			if u := must(b)(s.TryUpdate(epoch, group, all(Shared))); !u.Granted {
				b.Fatal(u)
			}
			s.Release(epoch, group)
		}
	})
	b.Run("exclusive against members, naming all", func(b *testing.B) {
		s := nodesHeld(b, owners, Shared)
		for b.Loop() {
			if u := must(b)(s.TryUpdate(epoch, group, all(Exclusive))); len(u.Blockers) != owners {
				b.Fatal(u)
			}
		}
	})
	b.Run("member comes and goes under a waiting group", func(b *testing.B) {
		s := nodesHeld(b, owners, Exclusive)
		must(b)(s.UpdateWaiting(epoch, Pending{0, group, all(Exclusive)}))
		req := Request{{Member(Node, "0"), Exclusive}}
		for b.Loop() {
			s.Release(epoch, jobOwner(0))
			must(b)(s.TryUpdate(epoch, jobOwner(0), req))
		}
	})
}

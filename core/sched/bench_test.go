package sched

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// distinct jobs each work on a different instance and on two of 200 nodes, so no two declarations are equal. Alike jobs
// work on one of 20 nodes.
func distinct(i int) Candidate {
	var d lock.Declaration
	nodes := []string{benchNames[i%200], benchNames[i*7%199]}
	slices.Sort(nodes)
	d.Demands[0] = lock.Demand{Kind: lock.ExclusiveSet, Names: []string{fmt.Sprintf("instance%d.example.com", i)}}
	d.Demands[2] = lock.Demand{Kind: lock.ExclusiveSet, Names: slices.Compact(nodes)}
	d.Demands[3] = d.Demands[2]
	return Candidate{ID: job.ID(i), ReceivedUs: benchTime(i).UnixMicro(), Declared: d}
}

func similarCandidate(i int) Candidate {
	var d lock.Declaration
	d.Demands[2] = lock.Demand{Kind: lock.SharedSet, Names: benchNames[i%20 : i%20+1]}
	return Candidate{ID: job.ID(i), ReceivedUs: benchTime(i).UnixMicro(), Declared: d, Limits: []Limit{{"rate-limit:90:move", 90}}}
}

// common jobs each work on a different instance, and all on one node: each change of that node concerns all jobs.
func common(i int) Candidate {
	c := distinct(i)
	node := lock.Demand{Kind: lock.SharedSet, Names: benchNames[:1]}
	if i%100 == 0 {
		node.Kind = lock.ExclusiveSet
	}
	c.Declared.Demands[2], c.Declared.Demands[3] = node, lock.Demand{}
	return c
}

// oneName jobs differ in a single name.
func oneName(i int) Candidate {
	c := distinct(i)
	c.Declared.Demands[2], c.Declared.Demands[3] = lock.Demand{}, lock.Demand{}
	return c
}

var benchNames = func() []string {
	var names []string
	for i := range 200 {
		names = append(names, fmt.Sprintf("%08x-2f1d-4b7c-9a53-%012x", i*7919, i))
	}
	return names
}()

// benchTime is close to the times of other jobs. An old job would go first whatever it demands, which costs little.
func benchTime(i int) time.Time {
	return time.Unix(1_700_000_000, 0).Add(time.Duration(i) * time.Millisecond)
}

var benchKinds = []struct {
	name string
	make func(int) Candidate
}{{"distinct", distinct}, {"alike", similarCandidate}, {"common", common}}

var benchSizes = []int{1_000, 10_000, 100_000}

// full is a State with a number of pending jobs and 100 running ones, whose locks are known.
func full(pending int, make func(int) Candidate) *State {
	settings := Defaults()
	settings.Slots = 100
	s := NewState(settings)
	for i := 1; i <= pending+settings.Slots; i++ {
		s.Enqueue(make(i))
	}
	for _, id := range s.Pick(benchTime(pending)) {
		hold(s, id, make)
	}
	return s
}

func hold(s *State, id job.ID, make func(int) Candidate) {
	held := []lock.Item{{Lock: lock.BGL, Mode: lock.Shared}}
	for k, w := range make(int(id)).Declared.Demands {
		mode := lock.Shared
		if w.Kind == lock.ExclusiveSet {
			mode = lock.Exclusive
		}
		for _, name := range w.Names {
			held = append(held, lock.Item{Lock: lock.Member(lock.Instance+lock.Level(k), name), Mode: mode})
		}
	}
	s.SetOwnerLocks(jobOwnerKey(id), held, nil)
}

// flip takes and releases the node that all common jobs want.
func flip(s *State, n int) {
	mode := []lock.Mode{lock.None, lock.Exclusive}[n%2]
	s.SetOwnerLocks(lock.NamedOwner("flip", "", 1), []lock.Item{{Lock: lock.Member(lock.Node, benchNames[0]), Mode: mode}}, nil)
}

// One job ends, the next is picked and takes its locks, and a new one arrives.
func BenchmarkDecision(b *testing.B) {
	for _, kind := range benchKinds {
		for _, pending := range benchSizes {
			b.Run(fmt.Sprintf("pending=%d/%s", pending, kind.name), func(b *testing.B) {
				s := full(pending, kind.make)
				next := pending + 101
				var took []time.Duration
				b.ReportAllocs()
				for b.Loop() {
					ids := s.RunningIDs()
					ends := ids[next%len(ids)]
					flip(s, next)
					start := time.Now()
					s.Remove(ends)
					picked := s.Pick(benchTime(next))
					took = append(took, time.Since(start))
					b.StopTimer()
					if len(picked) != 1 {
						b.Fatal(picked)
					}
					hold(s, picked[0], kind.make)
					s.Enqueue(kind.make(next))
					next++
					b.StartTimer()
				}
				report(b, took)
			})
		}
	}
}

func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
	b.ReportMetric(float64(took[len(took)-1].Nanoseconds()), "max-ns")
}

// No slot is free: a pick examines no job, however many are pending.
func BenchmarkPickWithoutASlot(b *testing.B) {
	s := full(100_000, distinct)
	b.ReportAllocs()
	for b.Loop() {
		s.Pick(benchTime(0))
	}
}

func BenchmarkEnqueue(b *testing.B) {
	for _, kind := range benchKinds {
		for _, pending := range benchSizes {
			b.Run(fmt.Sprintf("pending=%d/%s", pending, kind.name), func(b *testing.B) {
				s := full(pending, kind.make)
				const batch = 1_000
				var fresh [batch]Candidate
				b.ReportAllocs()
				for n := 0; b.Loop(); n++ {
					if n%batch == 0 {
						b.StopTimer()
						for i := range fresh {
							s.Withdraw(fresh[i].ID)
							fresh[i] = kind.make(pending + 200 + n + i)
						}
						b.StartTimer()
					}
					s.Enqueue(fresh[n%batch])
				}
			})
		}
	}
}

// A filter rule changes the limits of all jobs and changes them back.
func BenchmarkEnqueueAgain(b *testing.B) {
	for _, kind := range benchKinds {
		b.Run("pending=100000/"+kind.name, func(b *testing.B) {
			s := full(100_000, kind.make)
			var all []Candidate
			for i := 200; i < 100_000; i++ {
				all = append(all, kind.make(i))
			}
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				c := &all[n%len(all)]
				c.Limits = []Limit{{[]string{"a", "b"}[n/len(all)%2], 5}}
				s.Enqueue(*c)
			}
		})
	}
}

// A running job takes its locks one after another, while no slot is free.
func BenchmarkSetHeld(b *testing.B) {
	s := full(100_000, common)
	id := s.RunningIDs()[0]
	b.ReportAllocs()
	for b.Loop() {
		s.SetOwnerLocks(jobOwnerKey(id), nil, nil)
		hold(s, id, distinct)
	}
}

func BenchmarkWithdraw(b *testing.B) {
	for _, kind := range benchKinds {
		b.Run("pending=100000/"+kind.name, func(b *testing.B) {
			s := full(100_000, kind.make)
			var took []time.Duration
			for n := 0; b.Loop(); n++ {
				id := job.ID(200 + n*7919%90_000)
				start := time.Now()
				s.Withdraw(id)
				took = append(took, time.Since(start))
				b.StopTimer()
				s.Enqueue(kind.make(int(id)))
				b.StartTimer()
			}
			report(b, took)
		})
	}
}

// The first removal from a group pays for all that were added to it.
func BenchmarkFirstOfOneGroup(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		s := NewState(slots(1))
		s.AddRunning(Candidate{})
		for i := range 100_000 {
			s.Enqueue(Candidate{ID: job.ID(1 + i)})
		}
		s.Remove(0)
		b.StartTimer()
		s.Pick(noon)
	}
}

func BenchmarkWhy(b *testing.B) {
	s := full(100_000, distinct)
	for b.Loop() {
		s.Explain(50_000, benchTime(0), 10_000)
	}
}

// The memory of a pending job, without its own strings.
func BenchmarkMemory(b *testing.B) {
	for name, make := range map[string]func(int) Candidate{"oneName": oneName, "alike": similarCandidate, "distinct": distinct} {
		b.Run(name, func(b *testing.B) {
			const pending = 100_000
			var all []Candidate
			for i := range pending {
				all = append(all, make(i+1))
			}
			for b.Loop() {
				before := heapInUse()
				s := NewState(Defaults())
				for _, c := range all {
					s.Enqueue(c)
				}
				b.ReportMetric(float64(heapInUse()-before)/pending, "B/job")
				runtime.KeepAlive(s)
			}
			runtime.KeepAlive(all)
		})
	}
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

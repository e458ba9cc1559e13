package sched

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lockstep/core/lock"
)

// blocked jobs all want one node, and each another instance.
func blocked(i int) Candidate {
	c := distinct(i)
	c.Declared.Demands[2], c.Declared.Demands[3] = lock.Demand{Kind: lock.ExclusiveSet, Names: benchNames[:1]}, lock.Demand{}
	return c
}

// three jobs each work on a different instance and on three of 200 nodes: hardly two have one shape.
func three(i int) Candidate {
	c := distinct(i)
	nodes := []string{benchNames[i%200], benchNames[i*7%199], benchNames[i*13%197]}
	slices.Sort(nodes)
	c.Declared.Demands[2].Names, c.Declared.Demands[3] = slices.Compact(nodes), lock.Demand{}
	return c
}

// One job ends, others are chosen, and a new one arrives, whose expected duration changes from job to job. cpu-ns and
// max-cpu-ns are the processor time of the event itself, its continuations included; worst-step-ns is that of the
// longest Pick.
func BenchmarkExpectedDecision(b *testing.B) {
	for _, kind := range []struct {
		name string
		make func(int) Candidate
	}{{"distinct", distinct}, {"three", three}, {"blocked", blocked}} {
		for _, pending := range []int{100_000, 1_000_000} {
			b.Run(fmt.Sprintf("pending=%d/%s", pending, kind.name), func(b *testing.B) { benchDecision(b, pending, kind.make) })
		}
	}
}

func benchDecision(b *testing.B, pending int, make func(int) Candidate) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	settings := Defaults()
	settings.Slots, settings.Order = 100, Expected
	s := NewState(settings)
	for i := 1; i <= pending; i++ {
		c := make(i)
		c.Expected = time.Duration(i%50) * time.Minute
		s.Enqueue(c)
	}
	now := benchTime(pending)
	for s.Pick(now); s.Unfinished(); s.Pick(now) {
	}
	next := pending
	var took []time.Duration
	var all, longest time.Duration
	steps := 0
	for b.Loop() {
		ids := s.RunningIDs()
		next++
		c := make(next)
		c.Expected = time.Duration(next%70) * time.Minute
		start := threadTime()
		s.Remove(ids[next%len(ids)])
		for again := true; again; again = s.Unfinished() {
			step := threadTime()
			s.Pick(now)
			s.MarkBlocked()
			steps++
			longest = max(longest, threadTime()-step)
		}
		s.Enqueue(c)
		took = append(took, threadTime()-start)
		all += took[len(took)-1]
	}
	slices.Sort(took)
	b.ReportMetric(float64(all.Nanoseconds())/float64(len(took)), "cpu-ns")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-cpu-ns")
	b.ReportMetric(float64(took[len(took)-1].Nanoseconds()), "max-cpu-ns")
	b.ReportMetric(float64(longest.Nanoseconds()), "worst-step-ns")
	b.ReportMetric(float64(steps)/float64(len(took)), "picks/op")
	runtime.KeepAlive(s)
}

// threadTime is the processor time of the current thread, which other processes of a busy machine do not lengthen.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

// A name that 100,000 jobs want is given up and taken again.
func BenchmarkFreeingOfAName(b *testing.B) {
	for _, kind := range []struct {
		name string
		make func(int) Candidate
	}{{"blocked", blocked}, {"and another", func(i int) Candidate {
		c := blocked(i)
		c.Declared.Demands[2].Names = []string{benchNames[0], benchNames[1+i%199]}
		return c
	}}, {"and an own one", func(i int) Candidate {
		c := blocked(i)
		c.Declared.Demands[2].Names = []string{benchNames[0], fmt.Sprint("node", i)}
		return c
	}}} {
		b.Run(kind.name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			settings := Defaults()
			settings.Slots, settings.Order = 100, Expected
			s := NewState(settings)
			take := func(mode lock.Mode, from int) {
				var items []lock.Item
				for i := from; i < 200; i++ {
					items = append(items, lock.Item{Lock: lock.Member(lock.Node, benchNames[i]), Mode: lock.Exclusive})
				}
				s.SetOwnerLocks(lock.NamedOwner("others", "", 1), items, nil)
				s.SetOwnerLocks(lock.NamedOwner("flip", "", 1), []lock.Item{{Lock: lock.Member(lock.Node, benchNames[0]), Mode: mode}}, nil)
			}
			take(lock.Exclusive, 1)
			for i := 1; i <= 100_000; i++ {
				c := kind.make(i)
				c.Expected = time.Duration(i%50) * time.Minute
				s.Enqueue(c)
			}
			now := benchTime(100_000)
			var longest time.Duration
			for b.Loop() {
				take(lock.Exclusive, 1)
				for again := true; again; again = s.Unfinished() {
					s.Pick(now)
				}
				start := threadTime()
				take(lock.None, 1)
				longest = max(longest, threadTime()-start)
				for again := true; again; again = s.Unfinished() {
					start := threadTime()
					s.Pick(now)
					longest = max(longest, threadTime()-start)
				}
				for _, id := range s.RunningIDs() {
					s.Remove(id)
					c := kind.make(int(id))
					s.Enqueue(c)
				}
			}
			b.ReportMetric(float64(longest.Nanoseconds()), "worst-step-ns")
			runtime.KeepAlive(s)
		})
	}
}

// The memory of a pending job, without its own strings, after it was found that it cannot start.
func BenchmarkExpectedMemory(b *testing.B) {
	for name, make := range map[string]func(int) Candidate{"oneName": oneName, "alike": similarCandidate, "distinct": distinct, "three": three, "blocked": blocked} {
		b.Run(name, func(b *testing.B) {
			const pending = 100_000
			all := []Candidate{}
			for i := range pending {
				c := make(i + 1)
				c.Expected = time.Duration(i%50) * time.Minute
				all = append(all, c)
			}
			settings := Defaults()
			settings.Slots, settings.Order = 100, Expected
			for b.Loop() {
				before := heapInUse()
				s := NewState(settings)
				s.SetOwnerLocks(lock.NamedOwner("others", "", 1), []lock.Item{{Lock: lock.Member(lock.Node, benchNames[0]), Mode: lock.Exclusive}}, nil)
				for _, c := range all {
					s.Enqueue(c)
				}
				for s.Pick(noon); s.Unfinished(); s.Pick(noon) {
				}
				b.ReportMetric(float64(heapInUse()-before)/pending, "B/job")
				runtime.KeepAlive(s)
			}
			runtime.KeepAlive(all)
		})
	}
}

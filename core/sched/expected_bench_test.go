package sched

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"lockstep/core/lock"
)

// blocked jobs all want one node, and each another instance.
func blocked(i int) Candidate {
	c := distinct(i)
	c.Declared.Demands[2], c.Declared.Demands[3] = lock.Demand{Kind: lock.ExclusiveSet, Names: benchNames[:1]}, lock.Demand{}
	return c
}

// One job ends, others are chosen, and a new one arrives, whose expected duration changes from job to job.
func BenchmarkExpectedDecision(b *testing.B) {
	for _, kind := range []struct {
		name string
		make func(int) Candidate
	}{{"distinct", distinct}, {"blocked", blocked}} {
		for _, pending := range []int{100_000, 1_000_000} {
			b.Run(fmt.Sprintf("pending=%d/%s", pending, kind.name), func(b *testing.B) {
				settings := Defaults()
				settings.Slots, settings.Order = 100, Expected
				before := heapInUse()
				s := NewState(settings)
				for i := 1; i <= pending; i++ {
					c := kind.make(i)
					c.Expected = time.Duration(i%50) * time.Minute
					s.Enqueue(c)
				}
				b.ReportMetric(float64(heapInUse()-before)/float64(pending), "B/job")
				now := benchTime(pending)
				for s.Pick(now); s.Unfinished(); s.Pick(now) {
				}
				next := pending
				var took []time.Duration
				for b.Loop() {
					ids := s.RunningIDs()
					next++
					c := kind.make(next)
					c.Expected = time.Duration(next%70) * time.Minute
					start := time.Now()
					s.Remove(ids[next%len(ids)])
					s.Pick(now)
					s.Enqueue(c)
					took = append(took, time.Since(start))
				}
				report(b, took)
				runtime.KeepAlive(s)
			})
		}
	}
}

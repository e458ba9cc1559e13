package dependency

import (
	"strconv"
	"testing"

	"lockstep/core/job"
	"lockstep/core/opcode"
)

func running(job.ID) (job.Status, Lookup) { return job.Running, Found }

func sizes(b *testing.B, run func(n int)) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				run(n)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/job")
		})
	}
}

func BenchmarkChain(b *testing.B) {
	sizes(b, func(n int) {
		var g Graph
		for i := range int64(n) {
			g.Add(job.ID(i+1), 0, []opcode.Dependency{on(i)}, running)
		}
		for i := range n {
			if len(g.Ended(job.ID(i), job.Success)) != 1 {
				b.Fatal(i)
			}
		}
	})
}

func BenchmarkOneWaitsForMany(b *testing.B) {
	sizes(b, func(n int) {
		var g Graph
		deps := make([]opcode.Dependency, n)
		for i := range deps {
			deps[i] = on(int64(i))
		}
		g.Add(job.ID(n), 0, deps, running)
		for i := range n {
			if len(g.Ended(job.ID(i), job.Success)) > 0 != (i == n-1) {
				b.Fatal(i)
			}
		}
	})
}

func BenchmarkManyWaitForOne(b *testing.B) {
	sizes(b, func(n int) {
		var g Graph
		for i := range n {
			g.Add(job.ID(i+1), 0, []opcode.Dependency{on(0)}, running)
		}
		if len(g.Ended(0, job.Error)) != n {
			b.Fatal("not all")
		}
	})
}

func BenchmarkManyForgetOne(b *testing.B) {
	sizes(b, func(n int) {
		var g Graph
		for i := range n {
			g.Add(job.ID(i+1), 0, []opcode.Dependency{on(0)}, running)
		}
		for i := range n {
			g.Forget(job.ID(i + 1))
		}
	})
}

package throughput

import (
	"runtime"
	"slices"
	"time"

	"lockstep/core/lock"
)

// stopwatch adds up spans of real time.
type stopwatch struct {
	began time.Time
	spent time.Duration
}

func (s *stopwatch) start() { s.began = time.Now() }
func (s *stopwatch) stop()  { s.spent += time.Since(s.began) }

func (s *stopwatch) reset() time.Duration {
	spent := s.spent
	s.spent = 0
	return spent
}

// Spread summarizes spans of real time, in seconds. Without a span it is zero.
type Spread struct {
	N    int     `json:"n"`
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

// spreadOf sorts the spans and summarizes them, in seconds.
func spreadOf(spans []time.Duration) Spread {
	n := len(spans)
	if n == 0 {
		return Spread{}
	}
	slices.Sort(spans)
	sum := time.Duration(0)
	for _, s := range spans {
		sum += s
	}
	at := func(percent int) float64 { return spans[(n*percent+99)/100-1].Seconds() }
	return Spread{N: n, Mean: sum.Seconds() / float64(n), P50: at(50), P99: at(99), Max: at(100)}
}

// Memory is heap in use after a garbage collection, in bytes, less what was in use before the
// first job arrived. The work itself does not count.
type Memory struct {
	// Pending is the number of jobs without a slot at the measurement; 0: not measured.
	Pending int `json:"pending"`
	// Locks is the memory of the lock manager. Scheduler is the rest: the scheduler's core, with
	// the pending jobs and what jobs with a slot declare and hold. With few pending jobs its
	// caches dominate.
	Scheduler int64 `json:"scheduler_bytes"`
	Locks     int64 `json:"lock_bytes"`
}

// PerPending is the scheduler's memory for each pending job, in bytes.
func (m Memory) PerPending() float64 { return float64(m.Scheduler) / float64(max(m.Pending, 1)) }

func heapInUse() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // what was in pools lives through one
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// watermark measures the heap whenever clearly more jobs are pending than before.
type watermark struct {
	engine   *engine
	baseline int64
	memory   Memory
}

// With fewer pending jobs other memory dominates, and a collection costs as much as many
// decisions.
const (
	watermarkLeast = 100
	watermarkStep  = 1.1
)

func newWatermark(w *engine) *watermark { return &watermark{engine: w, baseline: heapInUse()} }

func (m *watermark) update(pending int) {
	if pending < watermarkLeast || float64(pending) < watermarkStep*float64(m.memory.Pending) {
		return
	}
	all := heapInUse() - m.baseline
	locks := m.engine.lockBytes()
	m.memory = Memory{Pending: pending, Scheduler: all - locks, Locks: locks}
}

// lockBytes is the memory of the lock manager, measured with a second one that has the same
// locks.
func (w *engine) lockBytes() int64 {
	settings := lock.Settings{Hierarchy: lock.Implied, BypassAfter: w.locks.BypassAfter()}
	snapshot := w.locks.Snapshot()
	before := heapInUse()
	second, _, err := lock.Restore(settings, w.time(), snapshot)
	if err != nil {
		panic("throughput: the locks contradict each other: " + err.Error())
	}
	bytes := heapInUse() - before
	runtime.KeepAlive(second)
	runtime.KeepAlive(snapshot)
	return bytes
}

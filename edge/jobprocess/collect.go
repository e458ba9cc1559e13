package jobprocess

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// collectInterval is the time between two looks at the heap.
	collectInterval = 100 * time.Millisecond
	// heapMin is the size of the heap, in bytes, below which no collection begins.
	heapMin = 8 << 20
	// latePercent is how much the heap may grow until the runtime begins a collection by itself, also while a process is being started.
	latePercent = 400
)

// collector begins garbage collections while no process is being started. The runtime starts a process by vfork: the thread can
// be stopped only when the new process has called execve, which takes up to a second on a busy machine. A collection has to stop
// all goroutines, so that the whole daemon would stand still for that time, and the lease of a master would lapse.
//
// A collection begins when the heap has grown as much as the runtime would let it grow.
type collector struct {
	percent int          // of the heap after a collection by which it grows until the next, above 0
	starts  sync.RWMutex // read: a process is being started; write: a collection is in progress
	stop    chan struct{}
	ended   sync.WaitGroup
}

// newCollector starts a collector. There is at most one in a process. It returns nil if collections are switched off by GOGC=off.
func newCollector() *collector {
	percent := debug.SetGCPercent(latePercent)
	if percent < 0 {
		debug.SetGCPercent(percent)
		return nil
	}
	c := &collector{percent: percent, stop: make(chan struct{})}
	c.ended.Go(func() {
		defer debug.SetGCPercent(c.percent)
		c.run()
	})
	return c
}

// close returns when the collector has ended. The runtime begins all collections from then on.
func (c *collector) close() {
	if c != nil {
		close(c.stop)
		c.ended.Wait()
	}
}

func (c *collector) run() {
	ticks := time.NewTicker(collectInterval)
	defer ticks.Stop()
	limit := uint64(heapMin)
	for {
		select {
		case <-c.stop:
			return
		case <-ticks.C:
		}
		if heapSize() >= limit {
			limit = c.collect()
		}
	}
}

// collect collects, and returns the size of the heap in bytes at which the next collection begins.
func (c *collector) collect() (limit uint64) {
	c.starts.Lock()
	runtime.GC()
	c.starts.Unlock()
	live := heapSize()
	return max(heapMin, live+live*uint64(c.percent)/100)
}

// heapSize is the size in bytes of all objects that are not removed yet.
func heapSize() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// during calls start, which starts a process, while no collection of the collector is in progress.
func (c *collector) during(start func()) {
	if c != nil {
		c.starts.RLock()
		defer c.starts.RUnlock()
	}
	start()
}

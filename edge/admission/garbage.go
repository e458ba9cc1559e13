package admission

import (
	"runtime"
	"runtime/metrics"
	"sync/atomic"
)

// garbageMax is how many bytes of garbage there may be when a large request ends, or takes memory. The collector of Go lets the heap
// double, so that the large requests of one client would otherwise take as much memory as all else.
const garbageMax = 32 << 20

// collectEvery is how much memory is taken, in bytes, between two looks for garbage.
const collectEvery = 16 << 20

// collector collects the garbage of large requests.
type collector struct {
	taken   atomic.Int64 // bytes since the last look
	running atomic.Bool
}

// took looks for garbage from time to time.
func (c *collector) took(bytes int) {
	if bytes > 0 && c.taken.Add(int64(bytes)) >= collectEvery {
		c.taken.Store(0)
		c.collect()
	}
}

// collect begins a collection if there is much garbage, and waits for nothing. With a large heap, which takes long to collect, there may be
// a quarter of the heap.
func (c *collector) collect() {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	objects, live := sample[0].Value.Uint64(), sample[1].Value.Uint64()
	if objects > live+max(garbageMax, live/4) && c.running.CompareAndSwap(false, true) {
		go func() {
			defer c.running.Store(false)
			runtime.GC()
		}()
	}
}

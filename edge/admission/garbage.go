package admission

import (
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
)

// garbageMax is how many bytes of garbage there may be when a large request ends, or takes memory. The collector of Go lets the heap
// double, so that the large requests of one client would otherwise take as much memory as all else.
const garbageMax = 16 << 20

// collectEvery is how much memory is taken, in bytes, between two looks for garbage.
const collectEvery = 4 << 20

// collector runs Go's garbage collection when large requests have left much garbage, so that the memory is free for others soon.
type collector struct {
	taken   atomic.Int64 // bytes since the last look
	running sync.Mutex   // is held during a collection
}

// took counts memory that a request has taken, and looks for garbage after every collectEvery bytes. Who receives a request waits for the
// collection, because the network is faster than the collector.
func (c *collector) took(bytes int, receives bool) {
	if bytes <= 0 || c.taken.Add(int64(bytes)) < collectEvery {
		return
	}
	c.taken.Store(0)
	if !receives {
		c.collect()
		return
	}
	c.running.Lock()
	defer c.running.Unlock()
	if muchGarbage() {
		runtime.GC()
	}
}

// collect begins a collection if there is much garbage, and waits for nothing.
func (c *collector) collect() {
	if muchGarbage() && c.running.TryLock() {
		go func() {
			defer c.running.Unlock()
			runtime.GC()
		}()
	}
}

// muchGarbage reports whether there is more than garbageMax. With a large heap, which takes long to collect, there may be a quarter of the
// heap.
func muchGarbage() bool {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	objects, live := sample[0].Value.Uint64(), sample[1].Value.Uint64()
	return objects > live+max(garbageMax, live/4)
}

package admission

import (
	"runtime"
	"runtime/metrics"
)

// garbageMax is how many bytes of garbage there may be at the end of a large request. The collector of Go lets the heap double, so that
// the large requests of one client would otherwise take as much memory as all else.
const garbageMax = 64 << 20

// collect begins a collection if there is much garbage, and waits for nothing. With a large heap, which takes long to collect, there may be
// a quarter of the heap.
func (t *Table) collect() {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	objects, live := sample[0].Value.Uint64(), sample[1].Value.Uint64()
	if objects > live+max(garbageMax, live/4) && t.collecting.CompareAndSwap(false, true) {
		go func() {
			defer t.collecting.Store(false)
			runtime.GC()
		}()
	}
}

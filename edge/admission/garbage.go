package admission

import (
	"runtime/debug"
	"runtime/metrics"
)

// garbageMax is how many bytes of garbage there may be at the end of a large request. The collector of Go lets the heap double, so that
// the large requests of one client would otherwise take as much memory as all else.
const garbageMax = 64 << 20

// collect frees the memory of former requests if there is much of it. With a large heap, which takes long to collect, it waits for a
// quarter of the heap.
func collect() {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	objects, live := sample[0].Value.Uint64(), sample[1].Value.Uint64()
	if objects > live+max(garbageMax, live/4) {
		debug.FreeOSMemory()
	}
}

package sim

import (
	"os"
	"runtime/debug"
)

// CollectRarely lets the process collect garbage a quarter as often. A world is small, and is
// garbage when the next world begins, so the collector takes a quarter of the processor time of a
// sweep. Values of GOGC and GOMEMLIMIT in the environment stay in force.
func CollectRarely() {
	const percent = 400
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(percent)
	}
}

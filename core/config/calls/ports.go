package calls

import (
	"slices"
	"strconv"

	"lockstep/core/config/model"
)

// portMax is the highest port that is allocated.
const portMax = 14999

// allocatePort takes the first port of the pool, or else the next one that was never used, and fails if that is above portMax (config.md
// 4.5).
func allocatePort(a *arguments) step {
	a.count(0)
	return func(t *tx) ([]byte, error) {
		cluster := t.config().Cluster.Value
		var port int64
		if pool := cluster.PortPool; len(pool) > 0 {
			port, cluster.PortPool = pool[0], pool[1:]
		} else {
			if cluster.HighestUsedPort >= portMax {
				return nil, configuration("The highest used port is greater than 14999. Aborting.")
			}
			cluster.HighestUsedPort++
			port = cluster.HighestUsedPort
		}
		t.edit.SetCluster(cluster)
		return strconv.AppendInt(nil, port, 10), nil
	}
}

// addPort parses the call that gives a TCP or UDP port back: it is the next one to be allocated.
func addPort(a *arguments) step {
	a.count(1)
	port := read(a, 0, model.DecodeInt)
	return func(t *tx) ([]byte, error) {
		cluster := t.config().Cluster.Value
		cluster.PortPool = withPort(cluster.PortPool, port)
		t.edit.SetCluster(cluster)
		return yes, nil
	}
}

// withPort returns the pool with a port at the front and nowhere else.
func withPort(pool []int64, port int64) []int64 {
	others := slices.DeleteFunc(slices.Clone(pool), func(p int64) bool { return p == port })
	return append([]int64{port}, others...)
}

package node

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// gauges are the metrics of a cluster at /metrics.
func (n *node) gauges() []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "lockstep_node_master",
			Help: "1 on the node that is the master of its cluster, 0 on the others.",
		}, func() float64 {
			if n.master.Load() != nil {
				return 1
			}
			return 0
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "lockstep_node_voters", Help: "Nodes of the cluster that have a vote."},
			func() float64 { return float64(n.voters.Load()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "lockstep_node_log_entries_total",
			Help: "Entries added to this node's consensus log.",
		}, func() float64 { entries, _ := n.raft.Written(); return float64(entries) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "lockstep_node_log_appends_total",
			Help: "Appends to this node's consensus log, each with one sync. " +
				"Entries that arrive together share one.",
		}, func() float64 { _, appends := n.raft.Written(); return float64(appends) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "lockstep_node_syncs_total",
			Help: "Syncs of the file systems of the queue, before an index of the log is recorded.",
		}, func() float64 { return float64(n.synced.count.Load()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "lockstep_node_sync_seconds_total", Help: "Time of these syncs."},
			func() float64 { return time.Duration(n.synced.nanoseconds.Load()).Seconds() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "lockstep_node_last_sync_seconds", Help: "Time of the last of these syncs."},
			func() float64 { return time.Duration(n.synced.last.Load()).Seconds() }),
	}
}

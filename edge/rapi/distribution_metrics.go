package rapi

import (
	"context"
	"encoding/json"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/core/answer"
)

// distributionCollector exports what the nodes of a Ganeti cluster have of the configuration. Outside of Ganeti mode it exports
// nothing. Why a node is behind is in the log and in LockstepDistribution, because labels need few values.
type distributionCollector struct{ server *Server }

// Describe is part of prometheus.Collector. It describes nothing: Collect determines the metrics.
func (d *distributionCollector) Describe(chan<- *prometheus.Desc) {}

// Collect is part of prometheus.Collector. It asks the queue how far the nodes of a Ganeti cluster have the configuration and the queue,
// and sends that; nothing if there is no answer.
func (d *distributionCollector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	data, err := d.server.config.Luxi.Call(ctx, Short, "LockstepDistribution")
	var known *answer.Distribution
	if err != nil || json.Unmarshal(data, &known) != nil || known == nil {
		return
	}
	emit := func(name, help string, value float64, labels ...string) {
		names := []string{"node", "file"}
		to <- prometheus.MustNewConstMetric(newDesc(name, help, names[:len(labels)]...), prometheus.GaugeValue, value, labels...)
	}
	emit("lockstep_config_serial", "Serial number of the newest configuration that is distributed.", float64(known.Serial))
	for _, node := range known.Nodes {
		if q := node.Queue; q != nil {
			lag := 0.0
			if !q.Since.IsZero() {
				lag = max(0, time.Since(q.Since.Time).Seconds())
			}
			emit("lockstep_node_queue_behind", "Files of the queue that a master candidate may lack; a job counts as one.",
				float64(q.Behind), node.Name)
			emit("lockstep_node_queue_lag_seconds", "Age of the oldest change of the queue that a master candidate may lack; 0: it is current.",
				lag, node.Name)
			emit("lockstep_node_queue_copy_median_seconds", "Time from a change of the queue to its copy, median of the last 1000 copies.",
				q.Median, node.Name)
			emit("lockstep_node_queue_copy_worst_seconds", "Time from a change of the queue to its copy, the longest of the last 1000 copies.",
				q.Worst, node.Name)
			emit("lockstep_node_queue_failures", "Calls of a node daemon for the queue that have failed since the last success.",
				float64(q.Failures), node.Name)
		}
		for _, file := range []struct {
			name string
			has  *answer.DistributedFile
		}{{"config", node.Config}, {"ssconf", node.Ssconf}} {
			if file.has == nil {
				continue
			}
			emit("lockstep_node_config_serial", "Serial number of the configuration that a node has acknowledged; 0: unknown.",
				float64(file.has.Serial), node.Name, file.name)
			emit("lockstep_node_config_behind", "Configurations that are newer than the one that a node has.",
				float64(file.has.Behind), node.Name, file.name)
			emit("lockstep_node_config_failures", "Calls of a node daemon that have failed since the last success.",
				float64(file.has.Failures), node.Name, file.name)
			retry := 0.0
			if !file.has.Retry.IsZero() {
				retry = float64(file.has.Retry.UnixMilli()) / 1e3
			}
			emit("lockstep_node_config_retry_timestamp_seconds", "Time of the next call after a failure; 0: none has failed.",
				retry, node.Name, file.name)
		}
	}
}

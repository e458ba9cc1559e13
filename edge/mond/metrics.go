package mond

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"lockstep/core/monitor"
)

// newMetrics returns the handler of /metrics for clients with or without a login.
func newMetrics(c Config, login bool) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(&snapshotCollector{c.Board, login})
	registry.MustRegister(c.Collectors...)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, EnableOpenMetrics: true})
}

// snapshotCollector exports the values of the last snapshot (mond.md 8). Only a login gives metrics with names of nodes.
type snapshotCollector struct {
	board *Board
	login bool
}

// Describe is part of prometheus.Collector. It describes nothing: Collect determines the metrics.
func (*snapshotCollector) Describe(chan<- *prometheus.Desc) {}

// emitter sends metrics.
type emitter chan<- prometheus.Metric

// value sends a metric with at most one label, whose name is the text after the metric's name.
func (to emitter) value(kind prometheus.ValueType, name, help, label, labelled string, value float64) {
	if label == "" {
		to <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, nil), kind, value)
		return
	}
	to <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, []string{label}, nil), kind, value, labelled)
}

func (to emitter) gauge(name, help string, value float64) {
	to.value(prometheus.GaugeValue, name, help, "", "", value)
}

func (to emitter) counter(name, help string, value int64) {
	to.value(prometheus.CounterValue, name, help, "", "", float64(value))
}

func (to emitter) histogram(name, help string, h monitor.Histogram) {
	to <- prometheus.MustNewConstHistogram(prometheus.NewDesc(name, help, nil, nil), h.Count, h.Sum, h.Buckets())
}

// Collect is part of prometheus.Collector. All values are those of one snapshot.
func (c *snapshotCollector) Collect(metrics chan<- prometheus.Metric) {
	s, to := c.board.last.Load(), emitter(metrics)
	now := time.Now()
	for _, r := range s.Reports {
		name := r.Collector.Name
		to.value(prometheus.GaugeValue, "lockstep_collector_status",
			"Status of the last report of a collector: 0 fine, 1 being repaired, 2 unknown, 4 wrong.",
			"name", name, float64(r.Code))
		to.value(prometheus.GaugeValue, "lockstep_collector_age_seconds", "Age of the last report of a collector.",
			"name", name, max(0, now.Sub(r.Gathered).Seconds()))
	}
	if s.Queue != nil && s.Queue.QueueDetails != nil {
		collectQueue(to, s.Queue)
	}
	if s.Locks != nil && s.Locks.LockDetails != nil {
		collectLocks(to, s.Locks)
	}
	if s.Replication != nil {
		c.collectReplication(to, s.Replication)
	}
	if s.Processes != nil {
		to.gauge("lockstep_job_processes", "Job processes that live on this node.", float64(s.Processes.Count))
		if s.Processes.Orphan != nil {
			to.gauge("lockstep_job_processes_orphaned", "Job processes of this node whose job is not to run.", float64(*s.Processes.Orphan))
		}
	}
	if s.Daemon != nil {
		to.gauge("lockstep_daemon_memory_bytes", "Memory that the daemon uses.", float64(s.Daemon.Memory))
		to.gauge("lockstep_daemon_goroutines", "Goroutines of the daemon.", float64(s.Daemon.Goroutines))
		to.counter("lockstep_actor_restarts_total", "Restarts of actors after a failure.", s.Daemon.Restarts)
	}
	if s.Config != nil && s.Config.Readable {
		to.gauge("lockstep_config_serial", "Serial number of the configuration that this node has.", float64(*s.Config.Serial))
		to.gauge("lockstep_ssconf_behind", "Files ssconf_* of this node that are older than its configuration.", float64(s.Config.Behind))
	}
}

func collectQueue(to emitter, q *monitor.QueueReport) {
	counts := q.Jobs.ByStatus()
	for _, status := range []string{"queued", "waiting", "canceling", "running"} {
		to.value(prometheus.GaugeValue, "lockstep_jobs", "Unfinished jobs by status.", "status", status, float64(counts[status]))
	}
	for _, status := range []string{"canceled", "success", "error"} {
		to.value(prometheus.CounterValue, "lockstep_jobs_finished_total", "Jobs that have ended since the start of the daemon, by status.",
			"status", status, float64(counts[status]))
	}
	to.histogram("lockstep_job_start_seconds", "Time from the submission of a job to its start.", q.StartTimes)
	to.counter("lockstep_jobs_started_total", "Jobs that have started since the start of the daemon.", q.Started)
	to.counter("lockstep_jobs_rejected_total", "Jobs that filter rules have rejected.", q.Rejected)
	to.counter("lockstep_jobs_archived_total", "Jobs that were archived.", q.Archived)
	drained := 0.0
	if q.Drained {
		drained = 1
	}
	to.gauge("lockstep_queue_drained", "1 if the queue takes no new jobs.", drained)
	if q.OldestQueued != nil {
		to.gauge("lockstep_oldest_queued_seconds", "Age of the oldest queued job.", *q.OldestQueued)
	}
	if q.OldestWaiting != nil {
		to.gauge("lockstep_oldest_waiting_seconds", "Age of the oldest waiting job.", *q.OldestWaiting)
	}
}

func collectLocks(to emitter, l *monitor.LockReport) {
	const held = "lockstep_locks_held"
	to.value(prometheus.GaugeValue, held, "Held locks by mode.", "mode", "exclusive", float64(l.Held.Exclusive))
	to.value(prometheus.GaugeValue, held, "Held locks by mode.", "mode", "shared", float64(l.Held.Shared))
	to.gauge("lockstep_lock_waiting_owners", "Owners that wait for locks.", float64(l.Pending))
	to.gauge("lockstep_lock_longest_wait_seconds", "Wait of the owner that has waited for locks for longest; 0: none waits.", l.LongestWait)
	to.histogram("lockstep_lock_wait_seconds", "Time that owners have waited for locks.", l.Waits)
	to.counter("lockstep_locks_granted_total", "Grants of locks.", l.Granted)
	to.counter("lockstep_lock_owners_dead_total", "Owners of locks that were found dead.", l.DeadOwners)
}

func (c *snapshotCollector) collectReplication(to emitter, r *monitor.ReplicationReport) {
	leads := 0.0
	if r.Role.RunsQueue() {
		leads = 1
	}
	to.gauge("lockstep_raft_leader", "1 if the queue runs on this node.", leads)
	to.gauge("lockstep_raft_term", "Term of the consensus log; 0 outside of a cluster.", float64(r.Term))
	to.gauge("lockstep_raft_commit_index", "Index of the last committed entry.", float64(r.Committed))
	to.gauge("lockstep_raft_applied_index", "Index of the last entry on the disk of this node.", float64(r.Applied))
	to.histogram("lockstep_raft_commit_seconds", "Time from the proposal of an entry by this node to its commit.", r.CommitTimes)
	if !c.login {
		return
	}
	for name, lag := range r.Lags {
		to.value(prometheus.GaugeValue, "lockstep_replication_lag_entries", "Entries that a node has less than this one.",
			"node", name, float64(lag))
	}
}

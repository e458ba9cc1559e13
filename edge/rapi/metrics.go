package rapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"lockstep/core/answer"
	"lockstep/edge/tlsserver"
)

// metrics are the metrics of the remote API at /metrics.
type metrics struct {
	registry  *prometheus.Registry
	handler   http.Handler
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	logins    prometheus.Counter
}

func newMetrics(s *Server) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "lockstep_rapi_requests_total",
			Help: "Requests over the remote API, by operation, method and status code."}, []string{"operation", "method", "code"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "lockstep_rapi_request_seconds",
			Help:    "Time to answer requests over the remote API, by operation.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 9),
		}, []string{"operation"}),
		logins: prometheus.NewCounter(prometheus.CounterOpts{Name: "lockstep_rapi_failed_logins_total",
			Help: "Logins over the remote API that have failed."}),
	}
	m.registry.MustRegister(m.requests, m.durations, m.logins,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		gauge("lockstep_rapi_connections", "Connections of the remote API's clients.", func() float64 { return float64(s.Connections()) }),
		gauge("lockstep_rapi_event_listeners", "Clients that listen to events.", func() float64 { return float64(s.streams.Len()) }),
		&queueCollector{server: s}, &actorCollector{server: s}, &distributionCollector{server: s}, &scheduleCollector{server: s})
	if s.config.Feed != nil {
		m.registry.MustRegister(s.config.Feed.collectors()...)
	}
	m.registry.MustRegister(s.config.Collectors...)
	m.handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	return m
}

func gauge(name, help string, value func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
}

// observe counts a request. Unknown methods share one label, since clients choose them.
func (m *metrics) observe(operation, method string, code int, took time.Duration) {
	if !isMethod(method) {
		method = "other"
	}
	m.requests.WithLabelValues(operation, method, strconv.Itoa(code)).Inc()
	isStream := operation == "events" || operation == "log-events" || operation == "console-events"
	if !isStream { // an event stream lasts as long as the client listens
		m.durations.WithLabelValues(operation).Observe(took.Seconds())
	}
}

func isMethod(method string) bool {
	switch method {
	case http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete, http.MethodHead:
		return true
	default:
		return false
	}
}

// scrape answers in the format of Prometheus, within the budget of memory.
func (s *Server) scrape(c *call) (any, error) {
	return alreadyWritten{}, tlsserver.Scrape(c.ResponseWriter, c.Request, s.config.Table, s.metrics.handler)
}

// statusAgeMax bounds the age of the cached status of the queue.
const statusAgeMax = 5 * time.Second

// queueCollector exports the status of the queue.
type queueCollector struct {
	server *Server

	mu        sync.Mutex
	fetchedAt time.Time
	cached    answer.QueueStatus
	valid     bool
}

func newDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe is part of prometheus.Collector. It describes nothing: Collect determines the metrics.
func (q *queueCollector) Describe(chan<- *prometheus.Desc) {}

// Collect is part of prometheus.Collector. It asks the queue for its status, and sends the numbers of jobs and of run slots; of a queue
// that does not answer only that.
func (q *queueCollector) Collect(to chan<- prometheus.Metric) {
	known, ok := q.fetch()
	up := 0.0
	if ok {
		up = 1
	}
	emit := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	}
	emit(newDesc("lockstep_queue_up", "1 if the queue answers."), prometheus.GaugeValue, up)
	if !ok {
		return
	}
	for _, status := range []string{"queued", "waiting", "canceling", "running", "canceled", "success", "error"} {
		emit(newDesc("lockstep_jobs", "Jobs in the queue, archived ones left out, by status.", "status"),
			prometheus.GaugeValue, float64(known.Counted(status)), status)
	}
	emit(newDesc("lockstep_jobs_between_tries", "Waiting jobs whose command has failed and is tried again later."),
		prometheus.GaugeValue, float64(known.BetweenTries))
	emit(newDesc("lockstep_jobs_not_due", "Pending jobs that start at a time which has not come."),
		prometheus.GaugeValue, float64(known.NotDue))
	drained := 0.0
	if known.Drained {
		drained = 1
	}
	emit(newDesc("lockstep_run_slots", "Jobs that may run at a time."), prometheus.GaugeValue, float64(known.RunSlots))
	emit(newDesc("lockstep_jobs_in_processes", "Jobs that have a process, or are being given one."),
		prometheus.GaugeValue, float64(len(known.Running)))
	emit(newDesc("lockstep_last_job_id", "The highest job id given away."), prometheus.CounterValue, float64(known.LastID))
	emit(newDesc("lockstep_queue_drained", "1 if the queue takes no new jobs."), prometheus.GaugeValue, drained)
	emit(newDesc("lockstep_quarantined_files", "Files that were set aside since the daemon's start."),
		prometheus.GaugeValue, float64(len(known.Quarantined)))
	if known.Nodes != nil && known.Nodes.Files != nil {
		f := known.Nodes.Files
		emit(newDesc("lockstep_files_compared_timestamp_seconds", "When the master compared the files of all nodes last."),
			prometheus.GaugeValue, float64(f.At.UnixMicro())/1e6)
		emit(newDesc("lockstep_files_contested", "Files that differ between the nodes, and about which the master agrees with no majority."),
			prometheus.GaugeValue, float64(len(f.Contested)))
		emit(newDesc("lockstep_files_repaired_total", "Files of other nodes that were replaced since this node is the master."),
			prometheus.CounterValue, float64(f.Repaired))
	}
	emit(newDesc("lockstep_jobs_with_secrets", "Queued jobs whose secrets would not survive the daemon."),
		prometheus.GaugeValue, float64(known.WithSecrets))
}

// fetch returns the cached status of the queue, or asks the queue if that is too old.
func (q *queueCollector) fetch() (answer.QueueStatus, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.fetchedAt.IsZero() && time.Since(q.fetchedAt) < statusAgeMax {
		return q.cached, q.valid
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	data, err := q.server.config.Luxi.Call(ctx, Short, "LockstepStatus")
	q.cached = answer.QueueStatus{}
	q.valid = err == nil && json.Unmarshal(data, &q.cached) == nil
	q.fetchedAt = time.Now()
	return q.cached, q.valid
}

// formerKinds are the kinds of the release before, of actors that have another name now. Their metrics have both for one release,
// so that alerts and graphs can be changed (docs/monitoring.md).
var formerKinds = map[string]string{"clusterconfig": "cluster", "wconfd": "wconf", "standby": "reception"}

// labelsOf are the values of the label kind for a kind of actor.
func labelsOf(kind string) []string {
	if former, renamed := formerKinds[kind]; renamed {
		return []string{kind, former}
	}
	return []string{kind}
}

// actorCollector exports the sizes of mailboxes by kind of actor, since actors come and go.
type actorCollector struct{ server *Server }

// Describe is part of prometheus.Collector. It names nothing: the labels are not known before.
func (a *actorCollector) Describe(chan<- *prometheus.Desc) {}

// Collect is part of prometheus.Collector. It sends, by kind of actor, how many there are, how many messages wait for them, and how long
// they have worked.
func (a *actorCollector) Collect(to chan<- prometheus.Metric) {
	if a.server.config.Mailboxes == nil {
		return
	}
	number, queued, longest, busy := map[string]float64{}, map[string]float64{}, map[string]float64{}, map[string]float64{}
	for _, box := range a.server.config.Mailboxes() {
		number[box.Kind]++
		queued[box.Kind] += float64(box.Queued)
		longest[box.Kind] = max(longest[box.Kind], float64(box.Queued))
		busy[box.Kind] = box.Busy.Seconds()
	}
	for kind := range number {
		for _, label := range labelsOf(kind) {
			gauge := func(name, help string, value float64) {
				to <- prometheus.MustNewConstMetric(newDesc(name, help, "kind"), prometheus.GaugeValue, value, label)
			}
			gauge("lockstep_actors", "Actors that live, by kind.", number[kind])
			gauge("lockstep_mailbox_messages", "Messages that wait for actors, by kind.", queued[kind])
			gauge("lockstep_mailbox_longest", "Messages in the longest mailbox, by kind of actor.", longest[kind])
			gauge("lockstep_actor_busy_seconds_max", "Longest time that an actor has taken for one message since the start, by kind.", busy[kind])
		}
	}
	to <- prometheus.MustNewConstMetric(newDesc("lockstep_dead_letters_total", "Messages that found no actor."),
		prometheus.CounterValue, float64(a.server.config.DeadLetters()))
}

package rapi

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/actors/events"
)

// Bounds of the retained events.
const (
	eventsMax     = 16 << 10
	eventBytesMax = 16 << 20
)

// event is an event that the feed has kept for clients that reconnect. number rises by one from event to event.
type event struct {
	number uint64
	kind   events.Kind // "reset" for a gap
	data   []byte
}

// gapKind is the kind of an event that says that earlier events may be missing.
const gapKind events.Kind = "reset"

// Feed keeps the last events, for event streams and for clients that reconnect and ask for the
// events that they have missed. It implements the port of the events actor.
type Feed struct {
	epoch string // of this daemon: numbers of another daemon are not comparable

	mu         sync.Mutex
	retained   []event // in order of their numbers; a ring once it is full
	oldest     int     // index of the oldest event
	bytes      int
	nextNumber uint64
	changed    chan struct{} // closed at the next event; nil: no stream waits for it

	jobsEnded   *prometheus.CounterVec
	triesEnded  prometheus.Counter
	queueTimes  prometheus.Histogram
	runTimes    *prometheus.HistogramVec
	lockWaits   prometheus.Histogram
	lockWaiters prometheus.Gauge
}

// jobBuckets are buckets for times of jobs, in seconds, from 10 ms to a day.
var jobBuckets = []float64{0.01, 0.05, 0.25, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600}

// NewFeed returns a feed without events. now makes its epoch different from that of an earlier
// daemon.
func NewFeed(now time.Time) *Feed {
	return &Feed{
		epoch: strconv.FormatInt(now.UnixNano(), 36), nextNumber: 1,
		jobsEnded: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "lockstep_jobs_ended_total",
			Help: "Jobs that this daemon has seen end, by status."}, []string{"status"}),
		triesEnded: prometheus.NewCounter(prometheus.CounterOpts{Name: "lockstep_tries_ended_total",
			Help: "Tries that this daemon has seen fail, and after which the command is tried again."}),
		queueTimes: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "lockstep_job_wait_seconds", Buckets: jobBuckets,
			Help: "Time from the submission of a job to its start, of jobs that have ended."}),
		runTimes: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "lockstep_job_run_seconds", Buckets: jobBuckets,
			Help: "Time from the start of a job to its end, locks included, by status."}, []string{"status"}),
		lockWaits: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "lockstep_lock_wait_seconds", Buckets: jobBuckets,
			Help: "Time that owners have waited for locks, until they got them or wanted them no more."}),
		lockWaiters: prometheus.NewGauge(prometheus.GaugeOpts{Name: "lockstep_lock_waiting_owners",
			Help: "Owners that wait for locks."}),
	}
}

func (f *Feed) collectors() []prometheus.Collector {
	return []prometheus.Collector{f.jobsEnded, f.triesEnded, f.queueTimes, f.runTimes, f.lockWaits, f.lockWaiters}
}

// Publish is part of events.Feed. It gives the event the next number, wakes those who listen, and drops the oldest events beyond the
// bounds.
func (f *Feed) Publish(kind events.Kind, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.retained)-f.oldest >= eventsMax || f.bytes+len(data) > eventBytesMax && f.oldest < len(f.retained) {
		f.bytes -= len(f.retained[f.oldest].data)
		f.retained[f.oldest] = event{}
		f.oldest++
	}
	if f.oldest > eventsMax { // the limit is also the number of unused places
		f.retained = append(f.retained[:0:0], f.retained[f.oldest:]...)
		f.oldest = 0
	}
	f.retained = append(f.retained, event{f.nextNumber, kind, data})
	f.bytes += len(data)
	f.nextNumber++
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// Missed is part of events.Feed. It publishes that events may be missing here, with the reason.
func (f *Feed) Missed(reason string) { f.Publish(gapKind, reasonData(reason)) }

func reasonData(reason string) []byte {
	return append(append([]byte(`{"reason": `), quoteJSON(reason)...), '}')
}

// Ended is part of events.Feed. It counts an ended job in the metrics, with the times that it has waited and run.
func (f *Feed) Ended(e events.End) {
	f.jobsEnded.WithLabelValues(e.Status).Inc()
	if e.Started {
		f.queueTimes.Observe(e.Waited.Seconds())
		f.runTimes.WithLabelValues(e.Status).Observe(e.Ran.Seconds())
	}
}

// TriesEnded is part of events.Feed. It counts ended tries in the metrics; the last one of an opcode is the end of its job.
func (f *Feed) TriesEnded(tries int64) { f.triesEnded.Add(float64(tries)) }

// Waited is part of events.Feed. It counts a wait for locks that has ended in the metrics.
func (f *Feed) Waited(d time.Duration) { f.lockWaits.Observe(d.Seconds()) }

// Waiting is part of events.Feed. It sets the number of owners that wait for locks in the metrics.
func (f *Feed) Waiting(owners int) { f.lockWaiters.Set(float64(owners)) }

// since returns at most limit events after a number. Without any it returns a channel that is closed at the next event. missed reports
// that the first of these events are no longer retained, or that the number is none of this feed; no event is returned then.
func (f *Feed) since(number uint64, limit int) (found []event, changed <-chan struct{}, missed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kept := f.retained[f.oldest:]
	oldest := f.nextNumber - uint64(len(kept))
	if number+1 < oldest || number >= f.nextNumber {
		return nil, nil, true
	}
	kept = kept[number+1-oldest:]
	if len(kept) > 0 {
		return append([]event(nil), kept[:min(len(kept), limit)]...), nil, false
	}
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return nil, f.changed, false
}

// lastNumber is the number of the last event; 0: there was none.
func (f *Feed) lastNumber() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nextNumber - 1
}

// eventID is the event id that clients receive for a number.
func (f *Feed) eventID(number uint64) string { return f.epoch + "-" + strconv.FormatUint(number, 10) }

// parseEventID returns the number in an event id, and whether the id is of this daemon.
func (f *Feed) parseEventID(name string) (uint64, bool) {
	digits, own := strings.CutPrefix(name, f.epoch+"-")
	number, err := strconv.ParseUint(digits, 10, 63)
	return number, own && err == nil
}

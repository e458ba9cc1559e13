package rapi

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lockstep/actors/events"
)

// Bounds of what is kept of the past.
const (
	eventsMax     = 16 << 10
	eventBytesMax = 16 << 20
)

// event is one that is kept. number rises by one.
type event struct {
	number uint64
	kind   events.Kind // "reset" for a gap
	data   []byte
}

// reset is the kind of an event that says: there may have been others.
const reset events.Kind = "reset"

// Feed keeps the last events, for those who listen and for those who come back and
// ask for what they have missed. It is the port of the events actor.
type Feed struct {
	epoch string // of the daemon: numbers of another one mean nothing

	mu      sync.Mutex
	kept    []event // in order of their numbers; a ring once it is full
	first   int     // the oldest
	bytes   int
	next    uint64
	changed chan struct{} // closed at the next event; nil: nobody waits for it

	ends    *prometheus.CounterVec
	waits   prometheus.Histogram
	runs    *prometheus.HistogramVec
	locks   prometheus.Histogram
	waiting prometheus.Gauge
}

// jobBuckets are times of jobs, in seconds: from a command to a day.
var jobBuckets = []float64{0.01, 0.05, 0.25, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600}

// NewFeed makes a feed that has nothing to tell. now makes its numbers others than
// those of the daemon before.
func NewFeed(now time.Time) *Feed {
	return &Feed{
		epoch: strconv.FormatInt(now.UnixNano(), 36), next: 1,
		ends: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "lockstep_jobs_ended_total",
			Help: "Jobs that this daemon has seen end, by status."}, []string{"status"}),
		waits: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "lockstep_job_wait_seconds", Buckets: jobBuckets,
			Help: "Time from the submission of a job to its start, of jobs that have ended."}),
		runs: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "lockstep_job_run_seconds", Buckets: jobBuckets,
			Help: "Time from the start of a job to its end, locks included, by status."}, []string{"status"}),
		locks: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "lockstep_lock_wait_seconds", Buckets: jobBuckets,
			Help: "Time that owners have waited for locks, until they got them or wanted them no more."}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{Name: "lockstep_lock_waiting_owners",
			Help: "Owners that wait for locks."}),
	}
}

func (f *Feed) collectors() []prometheus.Collector {
	return []prometheus.Collector{f.ends, f.waits, f.runs, f.locks, f.waiting}
}

// Publish is part of events.Feed.
func (f *Feed) Publish(kind events.Kind, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.kept)-f.first >= eventsMax || f.bytes+len(data) > eventBytesMax && f.first < len(f.kept) {
		f.bytes -= len(f.kept[f.first].data)
		f.kept[f.first] = event{}
		f.first++
	}
	if f.first > eventsMax { // as many places are free as may be in use
		f.kept = append(f.kept[:0:0], f.kept[f.first:]...)
		f.first = 0
	}
	f.kept = append(f.kept, event{f.next, kind, data})
	f.bytes += len(data)
	f.next++
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// Missed is part of events.Feed.
func (f *Feed) Missed(why string) { f.Publish(reset, quotedReason(why)) }

func quotedReason(why string) []byte {
	return append(append([]byte(`{"reason": `), quoted(why)...), '}')
}

// Ended is part of events.Feed.
func (f *Feed) Ended(e events.End) {
	f.ends.WithLabelValues(e.Status).Inc()
	if e.Started {
		f.waits.Observe(e.Waited.Seconds())
		f.runs.WithLabelValues(e.Status).Observe(e.Ran.Seconds())
	}
}

// Waited is part of events.Feed.
func (f *Feed) Waited(d time.Duration) { f.locks.Observe(d.Seconds()) }

// Waiting is part of events.Feed.
func (f *Feed) Waiting(owners int) { f.waiting.Set(float64(owners)) }

// after is the events after a number, at most so many, and a channel that is
// closed when there are more, if there are none. lost: the first of them are not
// kept any more, and there are none then.
func (f *Feed) after(number uint64, most int) (found []event, changed <-chan struct{}, lost bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kept := f.kept[f.first:]
	oldest := f.next - uint64(len(kept))
	if number+1 < oldest || number >= f.next {
		return nil, nil, true
	}
	kept = kept[number+1-oldest:]
	if len(kept) > 0 {
		return append([]event(nil), kept[:min(len(kept), most)]...), nil, false
	}
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return nil, f.changed, false
}

// last is the number of the last event.
func (f *Feed) last() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.next - 1
}

// name is what clients know an event's number by.
func (f *Feed) name(number uint64) string { return f.epoch + "-" + strconv.FormatUint(number, 10) }

// number is the number that a client knows by a name, if it is of this daemon.
func (f *Feed) number(name string) (uint64, bool) {
	digits, ours := strings.CutPrefix(name, f.epoch+"-")
	number, err := strconv.ParseUint(digits, 10, 63)
	return number, ours && err == nil
}

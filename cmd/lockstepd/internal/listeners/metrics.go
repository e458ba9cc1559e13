package listeners

import (
	"strconv"
	"time"

	"lockstep/actors/store"
	"lockstep/cmd/internal/buildinfo"

	"github.com/prometheus/client_golang/prometheus"
)

// unlockedCounter is the metric of changes of the configuration without locks.
func unlockedCounter() *prometheus.CounterVec {
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "lockstep_config_unlocked_changes_total",
		Help: "Calls of WConfD that change an object without its lock, by whether they were refused."}, []string{"refused"})
	for _, refused := range []bool{false, true} {
		counter.WithLabelValues(strconv.FormatBool(refused)) // a counter that is 0 is shown
	}
	return counter
}

// BuildInfo is a metric whose labels say which build the daemon is.
func BuildInfo() prometheus.Collector {
	build := buildinfo.Read()
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "lockstep_build_info", Help: "Always 1; the labels name the daemon's build.",
		ConstLabels: prometheus.Labels{"version": build.Version, "revision": build.Revision, "goversion": build.Go}})
	info.Set(1)
	return info
}

// timedFiles measures the operations of a disk.
type timedFiles struct {
	store.Files
	times *prometheus.HistogramVec
}

func (f *timedFiles) observe(operation string, begin time.Time, err error) {
	failed := "no"
	if err != nil {
		failed = "yes"
	}
	f.times.WithLabelValues(operation, failed).Observe(time.Since(begin).Seconds())
}

func (f *timedFiles) Replace(op, path string, data ...[]byte) (err error) {
	defer func(begin time.Time) { f.observe("replace", begin, err) }(time.Now())
	return f.Files.Replace(op, path, data...)
}

func (f *timedFiles) ReplaceUnsynced(op, path string, data ...[]byte) (err error) {
	defer func(begin time.Time) { f.observe("replace-unsynced", begin, err) }(time.Now())
	return f.Files.ReplaceUnsynced(op, path, data...)
}

func (f *timedFiles) SyncDir(op, dir string) (err error) {
	defer func(begin time.Time) { f.observe("sync-dir", begin, err) }(time.Now())
	return f.Files.SyncDir(op, dir)
}

func (f *timedFiles) Append(op, path string, data []byte) (err error) {
	defer func(begin time.Time) { f.observe("append", begin, err) }(time.Now())
	return f.Files.Append(op, path, data)
}

func (f *timedFiles) AppendDurable(op, path string, data []byte) (err error) {
	defer func(begin time.Time) { f.observe("append-durable", begin, err) }(time.Now())
	return f.Files.AppendDurable(op, path, data)
}

func (f *timedFiles) Read(op, path string) (data []byte, err error) {
	defer func(begin time.Time) { f.observe("read", begin, err) }(time.Now())
	return f.Files.Read(op, path)
}

func (f *timedFiles) Rename(op, from, to string) (err error) {
	defer func(begin time.Time) { f.observe("rename", begin, err) }(time.Now())
	return f.Files.Rename(op, from, to)
}

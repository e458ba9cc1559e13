package monitor

import (
	"slices"
	"time"

	"lockstep/core/config/model"
	"lockstep/core/config/ssconf"
	coremonitor "lockstep/core/monitor"
)

// values are what the own collectors know beside the trackers.
type values struct {
	drained bool
	behind  ssconfBehind
	usage   *coremonitor.DaemonReport // of the last reading
	read    time.Time                 // time of that reading
}

// snapshot makes the reports of the own collectors again, and puts all active ones together.
func (w *monitor) snapshot() *coremonitor.Snapshot {
	now := w.now()
	s := &coremonitor.Snapshot{Taken: now}
	for _, g := range w.gatherers {
		if g.Own {
			w.refreshOwn(g, now, s)
		}
		if w.isActive(g) {
			s.Reports = append(s.Reports, g.report)
		}
	}
	s.Listing = coremonitor.EncodeListing(s.Reports)
	s.Ready = (w.configuring.current != nil || w.configuring.facts != nil) && w.cluster.Role() != coremonitor.Candidate
	return s
}

// refreshOwn makes the report of an own collector and puts its values into the snapshot. It does nothing for an inactive or overdue
// collector.
func (w *monitor) refreshOwn(g *gatherer, now time.Time, s *coremonitor.Snapshot) {
	if !w.configuring.facts.SettingOf(g.Collector).Active || g.overdue {
		return
	}
	if g.reading.Err != nil {
		g.report = coremonitor.Failed(g.Collector, now, "the values cannot be read", g.reading.Err.Error())
		return
	}
	role := w.cluster.Role()
	var data coremonitor.Data
	switch g.Name {
	case coremonitor.QueueName:
		r := w.queue.Report(now, role, coremonitor.QueueState{Drained: w.values.drained, RunSlots: w.runSlots(), Disk: g.reading.Disk})
		s.Queue, data = &r, r.Data()
	case coremonitor.LocksName:
		r := w.locks.Report(now, role)
		s.Locks, data = &r, r.Data()
	case coremonitor.Replication:
		w.cluster.Read(g.reading.Term, g.reading.Committed)
		r := w.cluster.Report(now)
		s.Replication, data = &r, r.Data()
	case coremonitor.Processes:
		isUnfinished := w.queue.Unfinished
		if !role.RunsQueue() || !w.queue.IsKnown() {
			isUnfinished = nil
		}
		r := coremonitor.NewProcessReport(g.reading.Processes, isUnfinished)
		s.Processes, data = &r, r.Data()
	case coremonitor.Lockstepd:
		r := w.daemonReport(now, g.reading)
		s.Daemon, data = r, r.Data()
	case coremonitor.ConfigName:
		behind := w.values.behind.names(w.configuring.current, g.reading, w.config.Release)
		r := coremonitor.NewConfigReport(w.configuring.current, w.configuring.failure, behind)
		s.Config, data = &r, r.Data()
	}
	g.report = coremonitor.NewReport(g.Collector, now, data)
}

// daemonReport computes the use of the processor once for each reading.
func (w *monitor) daemonReport(now time.Time, reading coremonitor.Reading) *coremonitor.DaemonReport {
	w.daemon.Restarts = reading.Usage.Restarts
	if w.values.usage == nil || !reading.Taken.Equal(w.values.read) {
		r := w.daemon.Report(reading.Taken, reading.Usage)
		w.values.usage, w.values.read = &r, reading.Taken
	}
	r := *w.values.usage
	r.Uptime = max(0, now.Sub(w.config.Started).Seconds())
	return &r
}

// runSlots is the number of jobs that may run; 0: unknown.
func (w *monitor) runSlots() int {
	if w.configuring.current == nil {
		return 0
	}
	return int(w.configuring.current.Cluster.Value.MaxRunningJobs)
}

// ssconfBehind remembers which ssconf files are behind, since the comparison needs all values.
type ssconfBehind struct {
	of    *model.Config
	taken time.Time
	files []string
}

// names returns the names of the ssconf files that differ from the values of the configuration. A node without such files has
// none that is behind: its daemon does not write them.
func (b *ssconfBehind) names(c *model.Config, r coremonitor.Reading, release string) []string {
	if c == nil || len(r.Files) == 0 {
		return nil
	}
	if b.of == c && b.taken.Equal(r.Taken) {
		return b.files
	}
	if b.of != nil && b.taken.Equal(r.Taken) {
		return b.files // the files are read again soon
	}
	b.of, b.taken, b.files = c, r.Taken, nil
	values := ssconf.Of(c, release)
	if _, found := r.Files[ssconf.FilesOfHypervisors()[0]]; !found { // lockstep's own mode
		values = values.WithoutHypervisors()
	}
	wanted, err := values.Files()
	if err != nil {
		return nil // the actor that writes the files reports it
	}
	for _, f := range wanted {
		if content, found := r.Files[f.Name]; !found || string(content) != f.Content {
			b.files = append(b.files, f.Name)
		}
	}
	slices.Sort(b.files)
	return b.files
}

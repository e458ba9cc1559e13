package monitor

import (
	"bytes"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	coremonitor "lockstep/core/monitor"
)

// emptyInterval is the pause until lvs runs again on a node without volumes, since it costs more than all other collectors.
const emptyInterval = time.Minute

// gatherer is a collector with the state of its readings.
type gatherer struct {
	coremonitor.Collector
	source  bool // it reads something through Sources
	present bool // there is something to report
	due     time.Time
	asked   uint64 // number of the reading in progress; 0: none
	since   time.Time
	overdue bool // that reading takes longer than coremonitor.GatherTimeout
	report  *coremonitor.Report
	reading coremonitor.Reading // of an own collector: the last one
}

// newGatherers returns the collectors of this node. Those of this daemon's own actors are left out if the node does not run the actors.
func newGatherers(c Config) []*gatherer {
	queue, replication := c.Queue != nil, c.Replicator != nil || c.Queue != nil
	present := map[string]bool{
		coremonitor.QueueName:   queue,
		coremonitor.LocksName:   queue,
		coremonitor.Replication: replication,
		coremonitor.Processes:   queue,
		coremonitor.Lockstepd:   true,
		coremonitor.ConfigName:  true,
	}
	var all []*gatherer
	for _, collector := range coremonitor.Collectors() {
		if collector.Own && !present[collector.Name] {
			continue
		}
		all = append(all, &gatherer{Collector: collector, present: collector.Own, source: collector.Name != coremonitor.LocksName})
	}
	return all
}

func (w *monitor) gatherer(name string) *gatherer {
	for _, g := range w.gatherers {
		if g.Name == name {
			return g
		}
	}
	return nil
}

// isActive reports whether the collector's report is shown.
func (w *monitor) isActive(g *gatherer) bool {
	return g.present && g.report != nil && w.configuring.facts.SettingOf(g.Collector).Active && (!g.NeedsXen || w.configuring.facts.HasXen())
}

// isWanted reports whether a collector gathers. The history of the processors is kept while its report is inactive.
func (w *monitor) isWanted(g *gatherer) bool {
	f := w.configuring.facts
	return f.SettingOf(g.Collector).Active && (!g.NeedsXen || f.HasXen()) || g.Name == coremonitor.CPULoad
}

// gatherIfDue begins a reading when its time has come and the last one has ended. A reading that takes longer than GatherTimeout gets a
// report that says so.
func (w *monitor) gatherIfDue(ctx actor.Context, g *gatherer) {
	now := w.now()
	if g.asked != 0 && !g.overdue && now.Sub(g.since) >= coremonitor.GatherTimeout {
		g.overdue, g.present = true, true
		g.report = coremonitor.Failed(g.Collector, now, g.Name+" does not answer for more than "+coremonitor.GatherTimeout.String(), "")
		w.changed(ctx)
	}
	if !w.isWanted(g) || now.Before(g.due) {
		return
	}
	g.due = now.Add(w.configuring.facts.SettingOf(g.Collector).Interval)
	switch g.Name {
	case coremonitor.Replication:
		w.askCluster(ctx)
	case coremonitor.QueueName:
		w.askQueue(ctx)
	case coremonitor.ConfigName:
		w.askConfigStore(ctx)
	}
	if g.Own {
		w.changed(ctx) // times in the report grow
	}
	if g.source && g.asked == 0 {
		g.asked, g.since = w.next(), now
		w.config.Sources.Gather(g.asked, g.Name, ctx.Self())
	}
}

// soon lets a collector gather at the next tick.
func (w *monitor) soon(name string) {
	if g := w.gatherer(name); g != nil {
		g.due = time.Time{}
	}
}

// gathered takes a reading. One for a former incarnation is ignored. A source that is absent on this node has no report.
func (w *monitor) gathered(ctx actor.Context, m *Gathered) {
	g := w.gatherer(m.Collector)
	if g == nil || g.asked != m.Number {
		return
	}
	g.asked, g.overdue = 0, false
	if m.Absent && !g.Own {
		if g.present {
			w.changed(ctx)
		}
		g.present, g.report = false, nil
		return
	}
	g.present = true
	now := w.now()
	if g.Name == coremonitor.LV && m.Err == nil && len(bytes.TrimSpace(m.Reading.Text)) == 0 {
		g.due = now.Add(max(emptyInterval, w.configuring.facts.SettingOf(g.Collector).Interval))
	}
	if g.Own {
		g.reading = m.Reading
		g.reading.Err = m.Err
	} else {
		g.report = w.report(g, now, m)
	}
	w.changed(ctx)
}

// report makes the report of one of Ganeti's collectors from a reading. A failure is a report, too.
func (w *monitor) report(g *gatherer, now time.Time, m *Gathered) *coremonitor.Report {
	err := m.Err
	var d coremonitor.Data
	if err == nil {
		d, err = w.data(g.Name, now, m.Reading)
	}
	if err != nil {
		return coremonitor.Failed(g.Collector, now, err.Error(), "")
	}
	return coremonitor.NewReport(g.Collector, now, d)
}

func (w *monitor) data(name string, now time.Time, r coremonitor.Reading) (coremonitor.Data, error) {
	f := w.configuring.facts
	switch name {
	case coremonitor.CPULoad:
		if err := w.cpu.Add(now, r.Text); err != nil {
			return coremonitor.Data{}, err
		}
		return w.cpu.Data()
	case coremonitor.XenCPULoad:
		err := w.xenCPU.Add(now, r.Text)
		return w.xenCPU.Data(), err
	case coremonitor.DRBD:
		return coremonitor.DRBDData(r.Text, f)
	case coremonitor.LV:
		return coremonitor.LVData(r.Text, f)
	case coremonitor.InstStatus:
		return coremonitor.XenData(r.Xen, f)
	default:
		return coremonitor.DiskStatsData(r.Text)
	}
}

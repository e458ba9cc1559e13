package main

import "fmt"

// unit is the unit of a measurement, named as by Go's benchmarks.
type unit string

const (
	nanoseconds unit = "ns/op"
	jobsRate    unit = "jobs/s"
	updatesRate unit = "updates/s"
	bytesPerJob unit = "B/job"
	byteSize    unit = "B"
	bytesRate   unit = "B/s"
	wakeups     unit = "wakeups/s"
	times       unit = "x"
)

// largerIsBetter reports whether larger values of the unit are better.
func (u unit) largerIsBetter() bool {
	return u == jobsRate || u == updatesRate || u == bytesRate || u == times
}

// target is a bound of the value, in its unit, or of its ratio to the limit.
type target struct {
	ofRatio bool
	bound   float64
}

// measure is one row of the table.
type measure struct {
	name    string // name of the samples
	text    string
	unit    unit
	limit   string // name of the samples of the machine's limit; "": none
	targets []target
}

// measures are the rows of the report, in order. Targets apply to full sizes only.
func measures(s sizes) []measure {
	rows := []measure{
		{name: "Submit/clients=1", text: "submission, one client; the same files", unit: nanoseconds, limit: "BareSubmit"},
		{name: "SubmitRate/clients=64", text: "submissions, 64 clients; the same files, 64 to a sync", unit: jobsRate, limit: "BareSubmitters"},
		{name: "SubmitGain/clients=64", text: "64 clients, rate relative to one", unit: times, targets: []target{{bound: 3}}},
		{name: "SubmitMany", text: fmt.Sprintf("SubmitManyJobs of %d; the same files", s.many), unit: jobsRate,
			limit: "BareSubmitMany", targets: []target{{bound: 5000}}},
		{name: "SubmitMember/clients=1", text: "submission for another user than the daemon's; for the daemon's", unit: nanoseconds,
			limit: "SubmitOwner/clients=1", targets: []target{{ofRatio: true, bound: 1.3}}},
		{name: "SubmitManyMember", text: fmt.Sprintf("%d jobs in one submission, likewise", s.many), unit: jobsRate,
			limit: "SubmitManyOwner", targets: []target{{ofRatio: true, bound: 0.5}}},
		{name: "Job", text: "one no-op, submission to success; bare loop", unit: nanoseconds, limit: "BareJob", targets: []target{{bound: 10e6}}},
		{name: "JobInGroup", text: "a command that does nothing, in a control group of its own; without", unit: nanoseconds,
			limit: "JobInNoGroup", targets: []target{{ofRatio: true, bound: 1.05}}},
		{name: "Chain", text: fmt.Sprintf("chain of %d no-ops; bare loop, 1 worker", s.chain), unit: nanoseconds,
			limit: "BareChain", targets: []target{{bound: 1e9}}},
		{name: "Jobs/slots=20", text: "no-ops end to end, 20 run slots; bare loop, 20 workers", unit: jobsRate,
			limit: "BareLoop/workers=20", targets: endToEndTargets()},
		{name: "Jobs/slots=20", text: "the same; bare loop, 1 worker", unit: jobsRate, limit: "BareLoop/workers=1"},
		{name: "Jobs/slots=20", text: fmt.Sprintf("the same; bare loop, %d workers, the number of simultaneous starts", daemonStarts()),
			unit: jobsRate, limit: "BareLoop/starts"},
		{name: "Jobs/slots=64", text: "no-ops end to end, 64 run slots; bare loop, 64 workers", unit: jobsRate,
			limit: "BareLoop/workers=64", targets: endToEndTargets()},
		{name: "Output", text: fmt.Sprintf("%d MB of output to who follows it; through cat", s.output/1e6), unit: bytesRate,
			limit: "BareOutput", targets: []target{{ofRatio: true, bound: 0.5}}},
		{name: "JobBesideOutput", text: "one no-op while they flow; alone", unit: nanoseconds, limit: "JobAlone",
			targets: []target{{ofRatio: true, bound: 2}}},
		{name: "OutputMemory", text: "the daemon's resident memory while they flow, growth", unit: byteSize, targets: []target{{bound: 4e6}}},
		{name: "LockUpdates", text: "lock updates, one client; round trips", unit: updatesRate, limit: "BareUpdates"},
		{name: "Wake", text: "change of a job until a waiting client sees it; its file and a round trip", unit: nanoseconds, limit: "BareWake"},
		{name: "IdleResident", text: "idle daemon, resident", unit: byteSize, targets: []target{{bound: 40e6}}},
		{name: "IdleWakeups", text: "idle daemon, wake-ups of its threads", unit: wakeups, targets: []target{{bound: 1}}},
		{name: "ConfigUpdates/many", text: fmt.Sprintf("changes of one instance of %d; of one of %d", s.manyInstances, s.fewInstances),
			unit: updatesRate, limit: "ConfigUpdates/few", targets: []target{{ofRatio: true, bound: 1 / 1.3}}},
		{name: "ConfigFairness",
			text: fmt.Sprintf("%d clients change an instance each, rate of the slowest relative to the mean", updatingClients),
			unit: times, targets: []target{{bound: 1. / 3}}},
		{name: "ConfigResident", text: "configuration of 20 MB, resident; config.data", unit: byteSize, limit: "ConfigFile",
			targets: []target{{ofRatio: true, bound: 10}}},
		{name: "Start", text: fmt.Sprintf("start with %d queued; reading their files", s.queued), unit: nanoseconds,
			limit: "BareReadAll", targets: []target{{bound: 3e9}}},
		{name: "HeapPerJob", text: fmt.Sprintf("live heap per job of %d queued", s.queued), unit: bytesPerJob, targets: []target{{bound: 3000}}},
		{name: "ResidentPerJob", text: fmt.Sprintf("resident per job of %d queued", s.queued), unit: bytesPerJob},
		{name: "List/all", text: fmt.Sprintf("list of %d; as many bytes through a socket", s.queued), unit: nanoseconds, limit: "BareList/all"},
	}
	for _, size := range clusterSizes {
		rows = append(rows, clusterMeasures(size)...)
	}
	if s.quick {
		for i := range rows {
			rows[i].targets = nil
		}
	}
	return rows
}

func endToEndTargets() []target { return []target{{bound: 300}, {ofRatio: true, bound: 0.65}} }

// unitOf is the unit of the samples with a name, also of those of a limit.
func unitOf(name string) unit {
	for _, m := range measures(fullSizes) {
		if m.name == name || m.limit == name {
			return m.unit
		}
	}
	return jobsRate // SubmitRate/clients=1, the other half of the gain
}

// row is a measure with its results.
type row struct {
	measure
	value  summary
	limit  *summary // nil: the measure has no limit
	ratios summary  // one per round
}

// met reports whether the median meets the target.
func (r row) met(t target) bool {
	found := r.value.Median
	if t.ofRatio {
		found = r.ratios.Median
	}
	if r.unit.largerIsBetter() {
		return found >= t.bound
	}
	return found <= t.bound
}

// makeRows summarizes the samples as rows of the report. It omits measures without samples.
func makeRows(s sizes, samples map[string][]sample) []row {
	var rows []row
	for _, m := range measures(s) {
		found := values(samples[m.name])
		if len(found) == 0 {
			continue
		}
		r := row{measure: m, value: summarize(found)}
		if limits := values(samples[m.limit]); len(limits) > 0 {
			limit := summarize(limits)
			r.limit = &limit
			ratios := make([]float64, min(len(found), len(limits)))
			for i := range ratios {
				ratios[i] = found[i] / limits[i]
			}
			r.ratios = summarize(ratios)
		}
		rows = append(rows, r)
	}
	return rows
}

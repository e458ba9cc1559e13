package main

import "fmt"

// unit is that of a measurement's value, as Go's benchmarks name it.
type unit string

const (
	nanoseconds unit = "ns/op"
	jobsRate    unit = "jobs/s"
	updatesRate unit = "updates/s"
	bytesPerJob unit = "B/job"
	bytes       unit = "B"
	wakeups     unit = "wakeups/s"
	times       unit = "x"
)

// largerIsBetter: a larger value is a better one.
func (u unit) largerIsBetter() bool { return u == jobsRate || u == updatesRate || u == times }

// target is what was promised: of the value, in its unit, or of its ratio to the limit.
type target struct {
	ofRatio bool
	bound   float64
}

// measure is one row of the table.
type measure struct {
	name    string // of its samples
	text    string
	unit    unit
	limit   string // the name of the machine's samples that it is held against; "": none
	targets []target
}

// measures are the rows, in order. The limits are samples, too, and so have no rows of
// their own unless they are of interest by themselves. Targets are for full sizes only.
func measures(s sizes) []measure {
	rows := []measure{
		{name: "Spawn/lockstep-job", text: "spawn and wait, lockstep-job that says its usage; /bin/true", unit: nanoseconds, limit: "Spawn/true"},
		{name: "Spawn/true", text: "spawn and wait, /bin/true", unit: nanoseconds},
		{name: "Replace", text: fmt.Sprintf("file of %d bytes: write, fdatasync, rename", jobSize), unit: nanoseconds},
		{name: "RoundTrip", text: "unix socket, there and back", unit: nanoseconds},
		{name: "Submit/clients=1", text: "submission, one client; the same files", unit: nanoseconds, limit: "BareSubmit"},
		{name: "SubmitRate/clients=64", text: "submissions, 64 clients; the same files, 64 to a sync", unit: jobsRate, limit: "BareSubmitters"},
		{name: "SubmitGain/clients=64", text: "64 clients, times the rate of one", unit: times, targets: []target{{bound: 3}}},
		{name: "SubmitMany", text: fmt.Sprintf("SubmitManyJobs of %d; the same files", s.many), unit: jobsRate, limit: "BareSubmitMany", targets: []target{{bound: 5000}}},
		{name: "Job", text: "one no-op, submission to success; bare loop", unit: nanoseconds, limit: "BareJob", targets: []target{{bound: 10e6}}},
		{name: "Chain", text: fmt.Sprintf("chain of %d no-ops; bare loop, 1 worker", s.chain), unit: nanoseconds, limit: "BareChain", targets: []target{{bound: 1e9}}},
		{name: "Jobs/slots=20", text: "no-ops end to end, 20 run slots; bare loop, 20 workers", unit: jobsRate, limit: "BareLoop/workers=20", targets: endToEndTargets()},
		{name: "Jobs/slots=20", text: "the same; bare loop, 1 worker", unit: jobsRate, limit: "BareLoop/workers=1"},
		{name: "Jobs/slots=20", text: fmt.Sprintf("the same; bare loop, %d workers, as many as are started at a time", daemonStarts()), unit: jobsRate, limit: "BareLoop/starts"},
		{name: "Jobs/slots=64", text: "no-ops end to end, 64 run slots; bare loop, 64 workers", unit: jobsRate, limit: "BareLoop/workers=64", targets: endToEndTargets()},
		{name: "LockUpdates", text: "lock updates, one client; round trips", unit: updatesRate, limit: "BareUpdates"},
		{name: "Wake", text: "change of a job until a waiting client has it; its file and a round trip", unit: nanoseconds, limit: "BareWake"},
		{name: "Death", text: "kill of a job's process until a client knows; until its parent knows", unit: nanoseconds, limit: "BareDeath"},
		{name: "IdleResident", text: "idle daemon, resident", unit: bytes, targets: []target{{bound: 40e6}}},
		{name: "IdleWakeups", text: "idle daemon, wake-ups of its threads", unit: wakeups, targets: []target{{bound: 1}}},
		{name: "Start", text: fmt.Sprintf("start with %d queued; to read their files", s.queued), unit: nanoseconds, limit: "BareReadAll", targets: []target{{bound: 3e9}}},
		{name: "HeapPerJob", text: fmt.Sprintf("live heap for each of %d queued", s.queued), unit: bytesPerJob, targets: []target{{bound: 3000}}},
		{name: "ResidentPerJob", text: fmt.Sprintf("resident for each of %d queued", s.queued), unit: bytesPerJob},
		{name: "List/some", text: fmt.Sprintf("list of %d; as many bytes through a socket", s.someQueued), unit: nanoseconds, limit: "BareList/some"},
		{name: "List/all", text: fmt.Sprintf("list of %d; as many bytes through a socket", s.queued), unit: nanoseconds, limit: "BareList/all"},
	}
	if s.quick {
		for i := range rows {
			rows[i].targets = nil
		}
	}
	return rows
}

func endToEndTargets() []target { return []target{{bound: 300}, {ofRatio: true, bound: 0.65}} }

// unitOf is the unit of samples that may be a limit's.
func unitOf(name string) unit {
	for _, m := range measures(fullSizes) {
		if m.name == name || m.limit == name {
			return m.unit
		}
	}
	return jobsRate // SubmitRate/clients=1, the other half of the gain
}

// row is a measure with what was found.
type row struct {
	measure
	value  summary
	limit  *summary // nil: it is held against nothing
	ratios summary  // of each round
}

// met: the median keeps what the target says.
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

// makeRows leaves out what was not measured.
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

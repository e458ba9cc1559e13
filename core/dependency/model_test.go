package dependency

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/core/opcode"
)

// jobsMax is small, so that jobs often depend on each other.
const jobsMax = 8

// blockerID draws a job that others wait for, waiterID a job that waits. Small numbers are drawn more often than large
// ones.
func blockerID() *rapid.Generator[job.ID] { return rapid.Map(rapid.IntRange(0, jobsMax), toID) }
func waiterID() *rapid.Generator[job.ID] {
	return rapid.Map(rapid.IntRange(0, jobsMax), func(i int) job.ID { return job.ID(jobsMax - i) })
}
func toID(i int) job.ID { return job.ID(i) }

var dependency = rapid.Custom(func(t *rapid.T) opcode.Dependency {
	on := blockerID()
	if rapid.IntRange(0, 15).Draw(t, "odd") == 15 {
		on = rapid.SampledFrom([]job.ID{-1, jobsMax + 1, jobsMax, jobsMax - 1})
	}
	return opcode.Dependency{Job: int64(on.Draw(t, "job")), Statuses: rapid.SliceOfNDistinct(
		rapid.SampledFrom([]string{"canceled", "success", "error"}), 0, 3, rapid.ID[string]).Draw(t, "statuses")}
})

func step(t *rapid.T, j *job.Job) {
	jobtest.Step(j, func(events []job.Event) job.Event { return rapid.SampledFrom(events).Draw(t, "event") })
}

// model computes each decision again from all reports.
type model struct {
	graph Graph
	jobs  map[job.ID]*job.Job // all that were ever submitted
	// truth is the real state of a job: a status, or missing.
	truth map[job.ID]fact
	held  map[job.ID]*waitingModel
	asked map[job.ID]bool
}

type fact struct {
	status  job.Status
	missing bool
}

// waitingModel is a job that waits, and the statuses that were reported since it was added.
type waitingModel struct {
	op    int
	deps  []opcode.Dependency
	facts map[job.ID]fact
}

func (m *model) verdict(id job.ID, h *waitingModel) Decision {
	v := Decision{ID: id, Op: h.op, State: Ready}
	for _, d := range h.deps {
		f, known := h.facts[job.ID(d.Job)]
		kind, status := WrongStatus, f.status
		outcome := Evaluate(d, f.status)
		switch {
		case job.ID(d.Job) == id:
			outcome, kind, status = Fails, SelfDependency, 0
		case d.Job < 0 || d.Job > jobsMax || known && f.missing:
			outcome, kind, status = Fails, MissingJob, 0
		case job.ID(d.Job) > id:
			outcome, kind, status = Fails, LaterJob, 0
		case !known:
			outcome = Unmet
		}
		switch outcome {
		case Unmet:
			v.State = Waiting
		case Fails, Cancels:
			end := job.Error
			if outcome == Cancels {
				end = job.Canceled
			}
			return Decision{ID: id, Op: h.op, State: Unrunnable, End: end, Cause: Cause{Dependency: d, Kind: kind, Status: status}}
		}
	}
	return v
}

func (m *model) waits(h *waitingModel) (open []opcode.Dependency) {
	for _, d := range h.deps {
		if f, known := h.facts[job.ID(d.Job)]; !known || Evaluate(d, f.status) == Unmet {
			open = append(open, d)
		}
	}
	return open
}

func (m *model) hold(t *rapid.T) {
	id := waiterID().Draw(t, "id")
	op := rapid.IntRange(0, 2).Draw(t, "op")
	deps := rapid.SliceOfN(dependency, 0, 5).Draw(t, "deps")
	h := &waitingModel{op: op, deps: deps, facts: map[job.ID]fact{}}
	known := func(id job.ID) (job.Status, Lookup) {
		f, known := m.truth[id]
		switch {
		case id > jobsMax || known && f.missing:
			return 0, NoSuchJob
		case known:
			return f.status, Found
		}
		return 0, Unknown
	}
	for _, d := range deps {
		on := job.ID(d.Job)
		if f, known := m.truth[on]; known {
			h.facts[on] = f
		}
	}
	delete(m.held, id)
	m.forgetLookups()
	want := m.verdict(id, h)
	if want.State == Waiting {
		m.held[id] = h
		for _, d := range m.waits(h) {
			on := job.ID(d.Job)
			if _, known := h.facts[on]; !known && !m.asked[on] {
				m.asked[on] = true
				want.Lookups = append(want.Lookups, on)
			}
		}
	}
	require.Equal(t, want, m.graph.Add(id, op, deps, known))
}

// forgetLookups removes the lookups of jobs for which no job waits.
func (m *model) forgetLookups() {
	for id := range m.asked {
		wanted := false
		for _, h := range m.held {
			wanted = wanted || slices.ContainsFunc(m.waits(h), func(d opcode.Dependency) bool { return job.ID(d.Job) == id })
		}
		if !wanted {
			delete(m.asked, id)
		}
	}
}

func (m *model) report(t *rapid.T) {
	id := blockerID().Draw(t, "id")
	f := fact{missing: true}
	if j := m.jobs[id]; j != nil && (!j.Status().Final() || rapid.Bool().Draw(t, "is found")) {
		for !j.Status().Final() {
			step(t, j)
		}
		f = fact{status: j.Status()}
	}
	var want []Decision
	for _, waiter := range slices.Sorted(maps.Keys(m.held)) {
		h := m.held[waiter]
		if slices.ContainsFunc(m.waits(h), func(d opcode.Dependency) bool { return job.ID(d.Job) == id }) {
			h.facts[id] = f
		}
		if v := m.verdict(waiter, h); v.State != Waiting {
			want = append(want, v)
			delete(m.held, waiter)
		}
	}
	delete(m.truth, id) // the job is archived later
	if rapid.Bool().Draw(t, "stays") {
		m.truth[id] = f
	}
	m.forgetLookups()
	if f.missing {
		require.Equal(t, want, m.graph.Missing(id))
	} else {
		require.Equal(t, want, m.graph.Ended(id, f.status))
	}
}

// For any reports in any order, the graph and the model agree.
func TestTheGraphSaysWhatIsSo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{truth: map[job.ID]fact{}, jobs: map[job.ID]*job.Job{}, held: map[job.ID]*waitingModel{}, asked: map[job.ID]bool{}}
		t.Repeat(map[string]func(*rapid.T){
			"hold":      m.hold,
			"hold more": m.hold,
			"tell":      m.report,
			"live": func(t *rapid.T) { // the job is submitted, or its next opcode is to begin
				id := blockerID().Draw(t, "id")
				if j := m.jobs[id]; j == nil {
					m.jobs[id] = jobtest.Queued(int64(id))
				} else {
					step(t, j)
				}
				m.truth[id] = fact{status: m.jobs[id].Status()}
			},
			"forget": func(t *rapid.T) {
				id := waiterID().Draw(t, "id")
				m.graph.Forget(id)
				delete(m.held, id)
				m.forgetLookups()
			},
			"": m.check,
		})
		for id := range job.ID(jobsMax + 1) {
			m.graph.Ended(id, job.Success)
		}
		requireFreed(t, &m.graph)
	})
}

func (m *model) check(t *rapid.T) {
	all := []WaitingJob{}
	for id, h := range m.held {
		all = append(all, WaitingJob{id, h.op, m.waits(h)})
		require.Equal(t, m.waits(h), m.graph.Unmet(id))
	}
	slices.SortFunc(all, func(a, b WaitingJob) int { return cmp.Compare(a.ID, b.ID) })
	require.Equal(t, all, m.graph.WaitingJobs())
	require.Equal(t, slices.Sorted(maps.Keys(m.asked)), m.graph.OpenLookups())
	for _, b := range m.graph.blockers {
		require.NotEmpty(t, b.edges)
		for i, e := range b.edges {
			require.True(t, e.blocker == b && e.blockerIndex == i && &e.waiter.edges[e.index] == e && m.graph.waiters[e.waiter.id] == e.waiter)
		}
	}
}

package dependency

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/job"
	"lockstep/core/opcode"
)

// lookupResult is the known statuses. Other ids up to last are Unknown, ids above are NoSuchJob.
type lookupResult struct {
	statuses map[job.ID]job.Status
	last     job.ID
}

func (k lookupResult) of(id job.ID) (job.Status, Lookup) {
	status, known := k.statuses[id]
	switch {
	case known:
		return status, Found
	case id > k.last:
		return 0, NoSuchJob
	}
	return 0, Unknown
}

func TestAdd(t *testing.T) {
	known := lookupResult{last: 20, statuses: map[job.ID]job.Status{
		1: job.Success, 2: job.Error, 3: job.Canceled, 4: job.Running, 5: job.Queued, 11: job.Queued}}
	doomed := func(end job.Status, kind CauseKind, status job.Status, d opcode.Dependency) Decision {
		return Decision{State: Unrunnable, End: end, Cause: Cause{Dependency: d, Kind: kind, Status: status}}
	}
	for name, c := range map[string]struct {
		deps  []opcode.Dependency
		want  Decision
		waits []opcode.Dependency
	}{
		"none":         {nil, Decision{State: Ready}, nil},
		"all met":      {[]opcode.Dependency{on(1), on(2), on(3, "canceled")}, Decision{State: Ready}, nil},
		"some open":    {[]opcode.Dependency{on(5), on(1), on(4, "error")}, Decision{State: Waiting}, []opcode.Dependency{on(5), on(4, "error")}},
		"looked up":    {[]opcode.Dependency{on(7), on(4), on(6), on(7, "error")}, Decision{State: Waiting, Lookups: []job.ID{7, 6}}, []opcode.Dependency{on(7), on(4), on(6), on(7, "error")}},
		"id 0":         {[]opcode.Dependency{on(0)}, Decision{State: Waiting, Lookups: []job.ID{0}}, []opcode.Dependency{on(0)}},
		"fails":        {[]opcode.Dependency{on(2, "success")}, doomed(job.Error, WrongStatus, job.Error, on(2, "success")), nil},
		"canceled":     {[]opcode.Dependency{on(3)}, doomed(job.Canceled, WrongStatus, job.Canceled, on(3)), nil},
		"itself":       {[]opcode.Dependency{on(10, "canceled")}, doomed(job.Error, SelfDependency, 0, on(10, "canceled")), nil},
		"later":        {[]opcode.Dependency{on(11)}, doomed(job.Error, LaterJob, 0, on(11)), nil},
		"later, gone":  {[]opcode.Dependency{on(12)}, doomed(job.Error, LaterJob, 0, on(12)), nil},
		"future":       {[]opcode.Dependency{on(21)}, doomed(job.Error, MissingJob, 0, on(21)), nil},
		"relative":     {[]opcode.Dependency{on(-1)}, doomed(job.Error, MissingJob, 0, on(-1)), nil},
		"bad and open": {[]opcode.Dependency{on(4), on(7), on(3)}, doomed(job.Canceled, WrongStatus, job.Canceled, on(3)), nil},
		"first is bad": {[]opcode.Dependency{on(4), on(2, "success"), on(3), on(21)}, doomed(job.Error, WrongStatus, job.Error, on(2, "success")), nil},
		"twice":        {[]opcode.Dependency{on(1), on(1, "error")}, doomed(job.Error, WrongStatus, job.Success, on(1, "error")), nil},
	} {
		t.Run(name, func(t *testing.T) {
			var g Graph
			c.want.ID, c.want.Op = 10, 2
			require.Equal(t, c.want, g.Add(10, 2, c.deps, known.of))
			require.Equal(t, c.waits, g.Unmet(10))
			require.Equal(t, c.want.State == Waiting, len(g.WaitingJobs()) == 1)
			require.Equal(t, len(c.want.Lookups), len(g.OpenLookups()))
		})
	}
}

func TestEndsAreToldOn(t *testing.T) {
	var g Graph
	known := lookupResult{last: 20, statuses: map[job.ID]job.Status{1: job.Running, 2: job.Running}}
	g.Add(12, 0, []opcode.Dependency{on(1), on(2)}, known.of)
	g.Add(11, 1, []opcode.Dependency{on(1, "error"), on(2), on(3)}, known.of)
	g.Add(10, 0, []opcode.Dependency{on(3), on(1)}, known.of)
	require.Equal(t, []WaitingJob{
		{10, 0, []opcode.Dependency{on(3), on(1)}},
		{11, 1, []opcode.Dependency{on(1, "error"), on(2), on(3)}},
		{12, 0, []opcode.Dependency{on(1), on(2)}}}, g.WaitingJobs())
	require.Empty(t, g.Ended(4, job.Error), "nobody waits for it")

	require.Equal(t, []Decision{{ID: 11, Op: 1, State: Unrunnable, End: job.Error,
		Cause: Cause{Dependency: on(1, "error"), Kind: WrongStatus, Status: job.Success}}}, g.Ended(1, job.Success))
	require.Empty(t, g.Ended(1, job.Success))
	require.Equal(t, []job.ID{3}, g.OpenLookups(), "10 wants to know")
	require.Equal(t, []opcode.Dependency{on(3)}, g.Unmet(10))

	require.Equal(t, []Decision{{ID: 10, State: Unrunnable, End: job.Error, Cause: Cause{Dependency: on(3), Kind: MissingJob}}}, g.Missing(3))
	require.Empty(t, g.OpenLookups())
	require.Equal(t, []Decision{{ID: 12, State: Ready}}, g.Ended(2, job.Error))
	requireFreed(t, &g)
}

func TestOneJobNamedTwice(t *testing.T) {
	for status, want := range map[job.Status]Decision{
		job.Error:    {ID: 10, State: Unrunnable, End: job.Error, Cause: Cause{Dependency: on(1, "canceled"), Kind: WrongStatus, Status: job.Error}},
		job.Canceled: {ID: 10, State: Unrunnable, End: job.Canceled, Cause: Cause{Dependency: on(1, "success"), Kind: WrongStatus, Status: job.Canceled}},
	} {
		var g Graph
		known := lookupResult{statuses: map[job.ID]job.Status{1: job.Running, 2: job.Running}}
		g.Add(10, 0, []opcode.Dependency{on(2), on(1, "canceled"), on(1, "success")}, known.of)
		require.Equal(t, []Decision{want}, g.Ended(1, status))
		requireFreed(t, &g)
		g.Add(10, 0, []opcode.Dependency{on(1, "canceled"), on(1, "success")}, known.of)
		require.Equal(t, []Decision{want}, g.Ended(1, status), "told once")
		requireFreed(t, &g)
	}
}

func TestALookupIsAskedForOnce(t *testing.T) {
	var g Graph
	known := lookupResult{last: 20}
	require.Equal(t, []job.ID{3, 5}, g.Add(10, 0, []opcode.Dependency{on(3), on(5), on(3)}, known.of).Lookups)
	require.Equal(t, []job.ID{4}, g.Add(11, 0, []opcode.Dependency{on(3), on(4)}, known.of).Lookups)
	require.Equal(t, []job.ID{3, 4, 5}, g.OpenLookups())
	g.Forget(10)
	require.Equal(t, []job.ID{3, 4}, g.OpenLookups(), "nobody wants to know about 5")
	require.Empty(t, g.Ended(5, job.Success))
	require.Equal(t, []job.ID{5}, g.Add(10, 0, []opcode.Dependency{on(3), on(5)}, known.of).Lookups)
	require.Equal(t, []Decision{
		{ID: 10, State: Unrunnable, End: job.Canceled, Cause: Cause{Dependency: on(3), Kind: WrongStatus, Status: job.Canceled}},
		{ID: 11, State: Unrunnable, End: job.Canceled, Cause: Cause{Dependency: on(3), Kind: WrongStatus, Status: job.Canceled}},
	}, g.Ended(3, job.Canceled))
	requireFreed(t, &g)
}

func TestAJobWaitsForItsLatestOpcodeOnly(t *testing.T) {
	var g Graph
	known := lookupResult{statuses: map[job.ID]job.Status{1: job.Running, 2: job.Running}}
	g.Add(10, 0, []opcode.Dependency{on(1)}, known.of)
	g.Add(10, 1, []opcode.Dependency{on(2)}, known.of)
	require.Empty(t, g.Ended(1, job.Canceled))
	require.Equal(t, []Decision{{ID: 10, Op: 1, State: Ready}}, g.Ended(2, job.Success))
	g.Add(10, 1, []opcode.Dependency{on(2)}, known.of)
	require.Equal(t, Ready, g.Add(10, 2, nil, known.of).State)
	requireFreed(t, &g)
}

func TestAnEndIsFinal(t *testing.T) {
	var g Graph
	require.PanicsWithValue(t, "dependency: job 3 has ended with status running", func() { g.Ended(3, job.Running) })
	require.Empty(t, g.Missing(3))
	require.Empty(t, g.WaitingJobs())
	require.Empty(t, g.OpenLookups())
	g.Forget(3)
}

func requireFreed(t require.TestingT, g *Graph) {
	require.Empty(t, g.waiters)
	require.Empty(t, g.blockers)
}

package forecast_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/durations"
	"lockstep/core/forecast"
	"lockstep/core/job"
	"lockstep/core/lock"
	"lockstep/core/sched"
)

var start = time.Unix(1_700_000_000, 0)

func always() bool { return true }

func newWorld(slots int) *forecast.World {
	s := sched.Defaults()
	s.Order, s.Slots = sched.Expected, slots
	return &forecast.World{Now: start, Settings: s}
}

// takes is a range around so many minutes.
func takes(minutes int) durations.Range {
	m := time.Duration(minutes) * time.Minute
	return durations.Range{Low: m / 2, Median: m, High: 2 * m, Known: true}
}

// on is an opcode that wants nodes exclusively.
func on(minutes int, nodes ...string) forecast.Op {
	op := forecast.Op{Kind: "K", Takes: takes(minutes)}
	if len(nodes) > 0 {
		slices.Sort(nodes)
		op.Declared.Demands[lock.Node-lock.Instance] = lock.Demand{Kind: lock.ExclusiveSet, Names: nodes}
	}
	return op
}

func jobOf(id int, ops ...forecast.Op) forecast.Job {
	return forecast.Job{ID: job.ID(id), ReceivedUs: start.UnixMicro(), Ops: ops}
}

// running is a job that has begun some minutes ago.
func running(id, minutes int, ops ...forecast.Op) forecast.Job {
	j := jobOf(id, ops...)
	j.Began = start.Add(-time.Duration(minutes) * time.Minute)
	return j
}

func byID(list []forecast.Estimate) map[job.ID]forecast.Estimate {
	all := map[job.ID]forecast.Estimate{}
	for _, e := range list {
		all[e.ID] = e
	}
	return all
}

// minutes is a range in minutes from the beginning.
func minutes(r forecast.Range) string {
	if r.Likely.IsZero() {
		return "-"
	}
	m := func(t time.Time) float64 { return t.Sub(start).Minutes() }
	return fmt.Sprintf("%g %g %g", m(r.From), m(r.Likely), m(r.To))
}

func TestAJobStartsWhenItsLocksAreFree(t *testing.T) {
	w := newWorld(5)
	w.Running = []forecast.Job{running(1, 2, on(10, "n1"))}
	w.First = []forecast.Job{jobOf(2, on(4, "n1")), jobOf(3, on(6, "n1", "n2"))}
	all := forecast.Estimates(w, always)
	require.Equal(t, []job.ID{1, 2, 3}, []job.ID{all[0].ID, all[1].ID, all[2].ID})
	require.True(t, all[0].Running)
	require.Equal(t, "3 8 18", minutes(all[0].End))
	require.Equal(t, "3 8 18", minutes(all[1].Start))
	require.Equal(t, "5 12 26", minutes(all[1].End))
	require.Equal(t, forecast.Wait{Kind: forecast.ForLocks, Jobs: []job.ID{1}}, all[1].Wait)
	require.Equal(t, "5 12 26", minutes(all[2].Start))
	require.Equal(t, forecast.Wait{Kind: forecast.ForLocks, Jobs: []job.ID{2}}, all[2].Wait)
}

func TestAJobWaitsForASlotALimitOrAnotherJob(t *testing.T) {
	w := newWorld(2)
	limit := []sched.Limit{{Key: "r", N: 1}}
	w.Running = []forecast.Job{running(1, 0, on(10)), running(2, 0, on(20))}
	w.Running[1].Limits = limit
	w.First = []forecast.Job{jobOf(3, on(2)), jobOf(4, on(3))}
	w.First[1].Limits = limit
	after := jobOf(5, on(1))
	after.After = []job.ID{3}
	w.Waiting = []forecast.Job{after}
	all := byID(forecast.Estimates(w, always))
	require.Equal(t, forecast.Wait{Kind: forecast.ForSlot, Jobs: []job.ID{1}}, all[3].Wait)
	require.Equal(t, forecast.Wait{Kind: forecast.ForLimit, Jobs: []job.ID{2}}, all[4].Wait)
	require.Equal(t, "20", fmt.Sprint(all[4].Start.Likely.Sub(start).Minutes()))
	require.Equal(t, forecast.Wait{Kind: forecast.ForJobs, Jobs: []job.ID{3}}, all[5].Wait)
	require.Equal(t, "12", fmt.Sprint(all[5].Start.Likely.Sub(start).Minutes()))
}

// A job of two opcodes releases the locks of the first one before it takes those of the second.
func TestLaterOpcodesWaitForTheirLocks(t *testing.T) {
	w := newWorld(5)
	w.Running = []forecast.Job{running(1, 0, on(10, "n1"), on(10, "n2")), running(2, 0, on(30, "n2"))}
	w.First = []forecast.Job{jobOf(3, on(1, "n1"))}
	all := byID(forecast.Estimates(w, always))
	require.Equal(t, "5 10 20", minutes(all[3].Start))
	require.Equal(t, "20 40 80", minutes(all[1].End))
}

func TestWhatIsNotKnown(t *testing.T) {
	w := newWorld(5)
	unknown := on(10, "n1")
	unknown.Takes.Known, unknown.Kind = false, "OP_NEW"
	w.Running = []forecast.Job{running(1, 0, unknown)}
	w.First = []forecast.Job{jobOf(2, on(1, "n1")), jobOf(3, on(1, "n2")), jobOf(4, on(1, "n2", "n3")), jobOf(5, on(1, "n3"))}
	w.First[3].Limits = []sched.Limit{{Key: "r", N: 0}}
	w.Locks = []sched.OwnerLocks{{Owner: lock.NamedOwner("admin", "/l", 7), Held: []lock.Item{{Lock: lock.Member(lock.Node, "n2"), Mode: lock.Exclusive}}}}
	held := jobOf(6, on(1))
	held.Obstacle, held.By = forecast.Hold, "ada"
	after := jobOf(7, on(1))
	after.After = []job.ID{6}
	w.Waiting = []forecast.Job{held, after}
	all := byID(forecast.Estimates(w, always))
	for id, want := range map[job.ID][2]string{1: {"no-history", "OP_NEW"}, 2: {"no-history", "OP_NEW"}, 3: {"foreign", "admin"},
		4: {"foreign", "admin"}, 5: {"limit", "r"}, 6: {"hold", "ada"}, 7: {"dependency", ""}} {
		require.Equal(t, want, [2]string{string(all[id].Obstacle), all[id].By}, "job %d", id)
		require.Equal(t, "- -", minutes(all[id].Start)+" "+minutes(all[id].End), "job %d", id)
	}
	require.Equal(t, start.Add(5*time.Minute), all[2].LaterThan)
}

func TestBeyondTheBound(t *testing.T) {
	w := newWorld(2)
	w.Running = []forecast.Job{running(1, 0, on(10, "n1")), running(2, 0, on(20, "n2"))}
	w.Beyond = []forecast.Job{jobOf(3, on(1)), jobOf(4, on(1, "n2"))}
	all := byID(forecast.Estimates(w, always))
	require.Equal(t, start.Add(5*time.Minute), all[3].LaterThan)
	require.Equal(t, start.Add(10*time.Minute), all[4].LaterThan)
	w.First, w.Beyond = []forecast.Job{jobOf(5, on(1)), jobOf(6, on(1, "n2"))}, nil
	all = byID(forecast.Estimates(w, func() bool { return false }))
	require.Equal(t, start, all[5].LaterThan, "there was no time for a play")
}

func TestAPreviewOfAPriority(t *testing.T) {
	w := newWorld(5)
	w.Running = []forecast.Job{running(1, 0, on(10, "n1"))}
	w.First = []forecast.Job{jobOf(2, on(4, "n1")), jobOf(3, on(6, "n1")), jobOf(4, on(1, "n2"))}
	now := forecast.Estimates(w, always)
	p, found := forecast.Prefer(w, 3, -10, now, always)
	require.True(t, found)
	require.Equal(t, "7 14 28 and 5 10 20", minutes(p.Now.Start)+" and "+minutes(p.Then.Start))
	require.Len(t, p.Changed, 1)
	require.Equal(t, "5 10 20 and 8 16 32", minutes(p.Changed[0].Now.Start)+" and "+minutes(p.Changed[0].Then.Start))
	require.Equal(t, now, forecast.Estimates(w, always), "the preview has changed nothing")
	_, found = forecast.Prefer(w, 1, -10, now, always)
	require.False(t, found, "it runs")
}

// randomWorld has jobs of one opcode. Jobs that run exclude each other's locks, as in a real queue.
func randomWorld(t *rapid.T) *forecast.World {
	w := newWorld(rapid.IntRange(1, 4).Draw(t, "slots"))
	nodes := []string{"n1", "n2", "n3", "n4"}
	taken := map[string]bool{}
	for i := range rapid.IntRange(1, w.Settings.Slots).Draw(t, "running") {
		node := rapid.SampledFrom(nodes).Draw(t, "node")
		op := on(rapid.IntRange(1, 60).Draw(t, "takes"))
		if !taken[node] {
			op = on(rapid.IntRange(1, 60).Draw(t, "takes"), node)
		}
		taken[node] = true
		w.Running = append(w.Running, running(i+1, rapid.IntRange(0, 90).Draw(t, "ago"), op))
	}
	for i := range rapid.IntRange(1, 12).Draw(t, "pending") {
		wanted := rapid.SliceOfNDistinct(rapid.SampledFrom(nodes), 0, 2, rapid.ID[string]).Draw(t, "wanted")
		j := jobOf(100+i, on(rapid.IntRange(1, 60).Draw(t, "takes"), wanted...))
		j.ReceivedUs = start.Add(-time.Duration(rapid.IntRange(0, 200).Draw(t, "age")) * time.Minute).UnixMicro()
		w.First = append(w.First, j)
	}
	return w
}

func namesOf(j forecast.Job) []string {
	return j.Ops[0].Declared.Demands[lock.Node-lock.Instance].Names
}

func conflict(a, b forecast.Job) bool {
	return slices.ContainsFunc(namesOf(a), func(n string) bool { return slices.Contains(namesOf(b), n) })
}

// No start is before the ends of the running jobs that have its locks; every job starts; of jobs that exclude each other
// none is expected to start while another one runs.
func TestEstimatesKeepWhatHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := randomWorld(t)
		list := forecast.Estimates(w, always)
		all := byID(list)
		require.Equal(t, list, forecast.Estimates(w, always))
		for i, j := range w.First {
			e := all[j.ID]
			require.False(t, e.Start.Likely.IsZero())
			require.False(t, e.Start.From.After(e.Start.Likely) || e.Start.Likely.After(e.Start.To))
			require.Equal(t, e.End.Likely, e.Start.Likely.Add(j.Ops[0].Takes.Median))
			for _, r := range w.Running {
				if conflict(j, r) {
					require.False(t, e.Start.From.Before(all[r.ID].End.From), "job %d starts before job %d can end", j.ID, r.ID)
				}
			}
			for _, other := range w.First[:i] {
				o := all[other.ID]
				overlap := e.Start.Likely.Before(o.End.Likely) && o.Start.Likely.Before(e.End.Likely)
				require.False(t, conflict(j, other) && overlap, "jobs %d and %d", j.ID, other.ID)
			}
		}
	})
}

// The oldest job past ReserveAfter has a reservation from the beginning. It starts as soon as those that run have ended.
func TestAReservingJobStartsWhenTheHoldersEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := randomWorld(t)
		w.First[0].ReceivedUs = start.Add(-5 * time.Hour).UnixMicro()
		all := byID(forecast.Estimates(w, always))
		latest := start
		for _, r := range w.Running {
			if at := all[r.ID].End.Likely; at.After(latest) {
				latest = at
			}
		}
		require.False(t, all[w.First[0].ID].Start.Likely.After(latest))
	})
}

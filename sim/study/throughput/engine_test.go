package throughput

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/config"
	"lockstep/core/job"
	"lockstep/core/lock"
	"lockstep/sim/study"
)

func settings(t require.TestingT, predictive bool) config.Settings {
	s, err := study.SettingsWith(nil)
	require.NoError(t, err)
	s.Order = map[bool]string{true: config.OrderWeights, false: config.OrderPlain}[predictive]
	return s
}

func done(t require.TestingT, work Work, o Options) Result {
	r, err := Run(work, o)
	require.NoError(t, err)
	require.Equal(t, work.Len(), r.Outcome.Jobs)
	return r
}

// judge checks, from names and modes alone, that no two jobs work with locks that exclude
// each other, and that at most as many jobs work as there are slots.
type judge struct {
	t     require.TestingT
	slots int
	works map[job.ID]lock.Request
	began int // number of opcodes that have begun
}

func (j *judge) watch(e event) {
	if e.ends {
		require.Contains(j.t, j.works, e.id)
		delete(j.works, e.id)
		return
	}
	require.NotContains(j.t, j.works, e.id)
	for other, locks := range j.works {
		for _, a := range e.locks {
			for _, b := range locks {
				require.False(j.t, exclude(a, b), "job %d has %v while job %d has %v", e.id, a, other, b)
			}
		}
	}
	j.works[e.id] = e.locks
	j.began++
	require.LessOrEqual(j.t, len(j.works), j.slots)
}

func exclude(a, b lock.Item) bool {
	levelA, nameA, _ := strings.Cut(a.Lock.String(), "/")
	levelB, nameB, _ := strings.Cut(b.Lock.String(), "/")
	const all = "[lockset]"
	return levelA == levelB && (nameA == nameB || nameA == all || nameB == all) && (a.Mode == lock.Exclusive || b.Mode == lock.Exclusive)
}

func judged(t require.TestingT, work Work, o Options) Result {
	j := &judge{t: t, slots: o.Slots, works: map[job.ID]lock.Request{}}
	o.onEvent = j.watch
	r := done(t, work, o)
	require.Empty(t, j.works)
	opcodes := 0
	for i := range work.Len() {
		opcodes += len(work.Job(i))
	}
	require.Equal(t, opcodes, j.began)
	require.LessOrEqual(t, r.Outcome.SlotSeconds, float64(o.Slots)*r.Outcome.Makespan+1e-6)
	return r
}

func TestNoConflictsAndNoMoreThanTheSlots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := study.MixOptions{Seed: rapid.Uint64().Draw(t, "seed"), Jobs: rapid.IntRange(1, 200).Draw(t, "jobs"),
			Slots: rapid.IntRange(1, 12).Draw(t, "slots"), Nodes: rapid.IntRange(3, 30).Draw(t, "nodes"), Load: rapid.Float64Range(0.01, 3).Draw(t, "load")}
		m := rapid.SampledFrom(study.Mixes).Draw(t, "mix")
		judged(t, study.NewPlan(m, o), Options{Slots: o.Slots, Settings: settings(t, rapid.Bool().Draw(t, "predictive"))})
	})
}

func TestTheSameWorkHasTheSameOutcome(t *testing.T) {
	o := study.MixOptions{Seed: 3, Jobs: 2000, Slots: 20, Nodes: 40, Load: 0.3}
	first := done(t, study.NewPlan(study.Mixes[0], o), Options{Slots: o.Slots, Settings: settings(t, true)})
	again := done(t, study.NewPlan(study.Mixes[0], o), Options{Slots: o.Slots, Settings: settings(t, true)})
	require.Equal(t, first.Outcome, again.Outcome)
	require.Greater(t, first.Outcome.PeakPending, 1000)
	require.Greater(t, first.Cost.Memory.Pending, 900)
	require.Positive(t, first.Cost.Memory.Scheduler)
	require.Equal(t, first.Outcome.Events, first.Cost.Arrivals.N+first.Cost.Ends.N)
}

// listedWork is a list of jobs that a test gives.
type listedWork struct {
	at  []time.Duration
	ops [][]study.Opcode
}

func (b *listedWork) Len() int                 { return len(b.at) }
func (b *listedWork) At(i int) time.Duration   { return b.at[i] }
func (b *listedWork) Job(i int) []study.Opcode { return b.ops[i] }
func (b *listedWork) add(at, takes int, locks string) {
	b.at = append(b.at, time.Duration(at)*time.Second)
	input := `{"OP_ID": "OP_RUN_COMMAND", "argv": ["x"], "locks": ` + locks + `}`
	b.ops = append(b.ops, []study.Opcode{{Input: json.RawMessage(input), Duration: time.Duration(takes) * time.Second}})
}

// Two jobs want the same node. In the predictive order the third job goes before the
// second.
func TestWhoIsInNobodysWayGoesFirst(t *testing.T) {
	for _, predictive := range []bool{true, false} {
		var work listedWork
		work.add(0, 10, `[["node/a", "exclusive"]]`)
		work.add(1, 10, `[["node/a", "exclusive"]]`)
		work.add(1, 10, `[["node/b", "exclusive"]]`)
		work.add(1, 10, `[["node/c", "exclusive"]]`)
		r := judged(t, &work, Options{Slots: 2, Settings: settings(t, predictive)})
		if predictive {
			require.Equal(t, 21.0, r.Outcome.Makespan)
			require.Zero(t, r.Outcome.LockWaitSeconds)
		} else {
			require.Equal(t, 30.0, r.Outcome.Makespan)
			require.Equal(t, 9.0, r.Outcome.LockWaitSeconds, "job 2 has a slot and waits for job 1")
		}
	}
}

func TestJobsWithoutLocksOnlyNeedASlot(t *testing.T) {
	var work listedWork
	work.add(5, 0, `null`)
	work.add(5, 3, `[]`)
	r := judged(t, &work, Options{Slots: 1, Settings: settings(t, true)})
	require.Equal(t, 3.0, r.Outcome.Makespan)
}

func TestWorkThatCannotBeDone(t *testing.T) {
	for text, wants := range map[string]string{
		`[["nodes/a", "exclusive"]]`: "job 1 of the work: ",
		`[["node/a", "exclusive"]], "opportunistic_locks": [["instance/a", "shared"]]`: "job 1 of the work: opportunistic locks are not supported",
	} {
		var work listedWork
		work.add(0, 1, text)
		_, err := Run(&work, Options{Slots: 1, Settings: settings(t, true)})
		require.ErrorContains(t, err, wants)
	}
	var work listedWork
	for range 3 {
		work.add(0, 90*365*24*3600, `[["node/a", "exclusive"]]`)
	}
	_, err := Run(&work, Options{Slots: 1, Settings: settings(t, true)})
	require.ErrorIs(t, err, errEndless)
}

package scheduler_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/actors/scheduler"
	"lockstep/core/filter"
	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/core/lock"
	"lockstep/messages"
)

const order = `{"kind": "order", "position": 1, "pending": 1, "predictive": false}`

func TestWhy(t *testing.T) {
	first := func(ops ...string) *messages.UnfinishedJob { return unfinished(2, ops...) }
	for name, c := range map[string]struct {
		slots   int
		pending *messages.UnfinishedJob
		want    string
	}{
		"there is no slot": {1, first(jobtest.Delay()), `[{"kind": "slots", "slots": 1, "running": 1}, ` + order + `]`},
		"a dependency":     {5, first(jobtest.Delay(dependsOn(1, "success"))), `[{"kind": "dependency", "opcode": 0, "job": 1, "statuses": ["success"]}]`},
		"dependencies": {5, first(jobtest.Delay(`"depends": [[1, ["error", "canceled"]], [1, []]]`)),
			`[{"kind": "dependency", "opcode": 0, "job": 1, "statuses": ["error", "canceled"]}, {"kind": "dependency", "opcode": 0, "job": 1, "statuses": []}]`},
		"a pause":     {5, withVerdict(first(jobtest.Delay()), pausing(2)), `[{"kind": "filter", "uuid": "r1", "action": "PAUSE", "reason": "pink bunny"}]`},
		"a rejection": {5, withVerdict(first(jobtest.Delay()), rejecting(2)), `[{"kind": "filter", "uuid": "r2", "action": "REJECT", "reason": ""}]`},
		"somebody's pause": {5, withVerdict(first(jobtest.Delay()), &messages.Verdict{Id: 2, Rule: "r1", Action: int32(filter.Pause), By: "uid=1000(ada)"}),
			`[{"kind": "filter", "uuid": "r1", "action": "PAUSE", "reason": "", "by": "uid=1000(ada)"}]`},
		"a dependency and a pause": {5, withVerdict(first(jobtest.Delay(dependsOn(1))), pausing(2)),
			`[{"kind": "dependency", "opcode": 0, "job": 1, "statuses": []}, {"kind": "filter", "uuid": "r1", "action": "PAUSE", "reason": "pink bunny"}]`},
		"a rule's limit": {5, withVerdict(first(jobtest.Delay()), limiting(2, 1)),
			`[{"kind": "filter-limit", "uuid": "r3", "limit": 1, "running": 1, "reason": "slowly"}, ` + order + `]`},
		"a limit of the trail": {5, first(jobtest.Delay(withReason("rate-limit:1:bunny"))),
			`[{"kind": "rate-limit", "label": "rate-limit:1:bunny", "limit": 1, "running": 1}, ` + order + `]`},
		"everything at once": {1, withVerdict(first(jobtest.Delay(withReason("rate-limit:1:bunny"))), limiting(2, 1)),
			`[{"kind": "filter-limit", "uuid": "r3", "limit": 1, "running": 1, "reason": "slowly"},
			  {"kind": "rate-limit", "label": "rate-limit:1:bunny", "limit": 1, "running": 1},
			  {"kind": "slots", "slots": 1, "running": 1}, ` + order + `]`},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, c.slots, func(t *testing.T, b *bench) {
				running := withVerdict(unfinished(1, jobtest.Delay(withReason("rate-limit:1:bunny"))), limiting(1, 1))
				b.answerJobsRequest(all(running), all(c.pending))
				require.JSONEq(t, c.want, b.explain(2))
			})
		})
	}
}

func TestWhyInPredictiveOrder(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.reconfigure(1, `{"order": "weights"}`)
		b.answerJobsRequest(plainJobs(1), all(unfinished(2, lockingNode("u1")), unfinished(3, lockingNode("n3")), unfinished(4, `{"OP_ID": "OP_RUN_COMMAND", "argv": ["x"], "locks": [["cluster/BGL", "exclusive"]]}`)))
		b.sendLocks(true, lock.Record{Owner: lock.JobOwner(1, "/l/job_1", 77), Locks: node("u1")},
			lock.Record{Owner: lock.NamedOwner("admin", "/l/admin", 78), Locks: []lock.Item{{Lock: lock.Member(lock.Network, "x"), Mode: lock.Exclusive}}})
		b.Advance(5 * time.Minute)
		slots := `{"kind": "slots", "slots": 1, "running": 1}`
		require.JSONEq(t, `[`+slots+`, {"kind": "order", "position": 2, "pending": 3, "predictive": true, "weight": 2.6666666666666665, "static_weight": 4,
			"age_ticks": 10, "big_lock": false, "causes": [{"value": 3, "level": "node", "how": "holds", "others": 0, "job": 1, "lock": "node/u1"}]}]`, b.explain(2))
		require.JSONEq(t, `[`+slots+`, {"kind": "order", "position": 3, "pending": 3, "predictive": true, "weight": 10.666666666666666, "static_weight": 16,
			"age_ticks": 10, "big_lock": true, "causes": []}]`, b.explain(4))
	})
}

// An unknown job may have ended as required. The jobs that depend on it wait, and the
// reason says so.
func TestWhyOfAJobWhoseDependencyIsNotKnown(t *testing.T) {
	onBench(t, 5, func(t *testing.T, b *bench) {
		b.answerJobsRequest(nil, all(unfinished(2, jobtest.Delay(dependsOn(1, "success")))))
		b.expectQueueGets(looksUp(1), waitsForDependencies(2))
		b.send(&messages.GetJobOutcomeResult{Id: 1, Unknown: true})
		b.expectQueueGets()
		require.JSONEq(t, `[{"kind": "dependency", "opcode": 0, "job": 1, "statuses": ["success"], "unknown": true}]`, b.explain(2))
		b.send(&messages.GetJobOutcomeResult{Id: 1, Status: int32(job.Success)})
		b.expectQueueGets(waitsNoLonger(2), picks(2))
	})
}

// A job of Ganeti's program waits before its start for the dependencies of all its opcodes. The reason names the opcode and what it wants.
func TestWhyOfADependencyOfALaterOpcodeOfGaneti(t *testing.T) {
	onBenchOf(t, 5, scheduler.Config{GanetiJobs: true}, func(t *testing.T, b *bench) {
		b.answerJobsRequest(plainJobs(1), all(unfinished(2, jobtest.Delay(dependsOn(1)), jobtest.Delay(dependsOn(1, "success")))))
		b.expectQueueGets(waitsForDependencies(2))
		require.JSONEq(t, `[{"kind": "dependency", "opcode": 0, "job": 1, "statuses": []},
			{"kind": "dependency", "opcode": 1, "job": 1, "statuses": ["success"]}]`, b.explain(2))
	})
}

// A job that waits between two opcodes, without a slot or a lock.
func TestWhyOfAJobThatHasBegun(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.addChain()
		require.JSONEq(t, `[{"kind": "dependency", "opcode": 1, "job": 1, "statuses": ["success"]}]`, b.explain(2))
		b.sendVerdicts(pausing(2))
		b.sendEnded(1, job.Success)
		require.JSONEq(t, `[{"kind": "filter", "uuid": "r1", "action": "PAUSE", "reason": "pink bunny"}]`, b.explain(2))
		b.enqueue(3)
		b.sendVerdicts(accepting(2))
		require.JSONEq(t, `[{"kind": "slots", "slots": 1, "running": 1}, `+order+`]`, b.explain(2))
		b.sendReleased(3)
		require.JSONEq(t, `[]`, b.explain(2))
	})
}

func TestWhyOfOthers(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		require.JSONEq(t, `[]`, b.explain(1), "nothing is known yet")
		b.answerJobsRequest(plainJobs(1), nil)
		b.process.Ask(b.scheduler, &messages.ExplainJobs{Request: 3, Ids: []int64{9, 1}})
		a := kittest.Expect[*messages.ExplainJobsResult](b.process)
		require.EqualExportedValues(t, &messages.ExplainJobsResult{Request: 3, Jobs: []*messages.JobExplanation{{Id: 9}, {Id: 1}}}, a)
	})
}

// A job that is held between two opcodes has a process and no run slot.
func TestRunSlotsTaken(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		taken := func() int64 {
			b.process.Ask(b.scheduler, &messages.GetRunSlots{Request: 4})
			a := kittest.Expect[*messages.GetRunSlotsResult](b.process)
			require.Equal(t, uint64(4), a.Request)
			return a.Taken
		}
		require.Zero(t, taken(), "the jobs are not known")
		b.addChain()
		require.Equal(t, int64(1), taken(), "job 2 waits between its opcodes for job 1")
		b.sendEnded(1, job.Success)
		require.Equal(t, int64(1), taken(), "job 2 goes on")
	})
}

package scheduler_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/deadlock"
	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/core/lock"
	"lockstep/messages"
)

// locking is an OP_RUN_COMMAND that locks a free lock exclusively.
func locking(name string) string {
	return `{"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "locks": [["lock/` + name + `", "exclusive"]]}`
}

func freeLock(name string) []lock.Item {
	return []lock.Item{{Lock: lock.Member(lock.Free, name), Mode: lock.Exclusive}}
}

// mayWait asks as the connection of a process of a job does, and returns the cycle of the answer.
func (b *bench) mayWait(m *messages.AwaitJobs) *messages.WaitCycle {
	b.Helper()
	m.Request = 7
	b.process.Ask(b.scheduler, m)
	a := kittest.Expect[*messages.AwaitJobsResult](b.process)
	require.Equal(b, uint64(7), a.Request)
	return a.Cycle
}

// observe sends a wait of a client that has not said what it waits for.
func (b *bench) observe(parent int64, ids ...int64) {
	b.process.Ask(b.scheduler, &messages.AwaitJobs{Parent: parent, Ids: ids, Observed: true})
	b.Settle()
	b.process.Quiet()
}

func (b *bench) cycleOf(id int64) *messages.WaitCycle {
	b.Helper()
	b.process.Ask(b.scheduler, &messages.ExplainJobs{Request: 9, Ids: []int64{id}})
	return kittest.Expect[*messages.ExplainJobsResult](b.process).Jobs[0].Cycle
}

func waits(id, on int64) *messages.WaitStep {
	return &messages.WaitStep{Job: id, On: on, By: int32(deadlock.Process)}
}

func depends(id, on int64) *messages.WaitStep {
	return &messages.WaitStep{Job: id, On: on, By: int32(deadlock.Dependency)}
}

func needs(id, on int64, lock string) *messages.WaitStep {
	return &messages.WaitStep{Job: id, On: on, By: int32(deadlock.Lock), Lock: lock}
}

func (b *bench) requireCycle(c *messages.WaitCycle, steps ...*messages.WaitStep) {
	b.Helper()
	require.NotNil(b, c)
	require.EqualExportedValues(b, &messages.WaitCycle{Steps: steps}, c)
}

func drafts(jobs ...[]string) []*messages.JobDraft {
	all := make([]*messages.JobDraft, len(jobs))
	for i, ops := range jobs {
		all[i] = &messages.JobDraft{}
		for _, op := range ops {
			all[i].Ops = append(all[i].Ops, &messages.OpDraft{Input: []byte(op)})
		}
	}
	return all
}

func TestAWaitForJobsThatAreNotSubmittedYet(t *testing.T) {
	for name, c := range map[string]struct {
		drafts []*messages.JobDraft
		steps  []*messages.WaitStep // nil: the wait can end
	}{
		"the lock of the job":             {drafts(ops(locking("a"))), []*messages.WaitStep{waits(1, 0), needs(0, 1, "lock/a")}},
		"in a later opcode":               {drafts(ops(jobtest.Delay(), locking("a"))), []*messages.WaitStep{waits(1, 0), needs(0, 1, "lock/a")}},
		"in the second job":               {drafts(ops(locking("b")), ops(locking("a"))), []*messages.WaitStep{waits(1, 0), needs(0, 1, "lock/a")}},
		"in a job that it depends on":     {drafts(ops(locking("a")), ops(jobtest.Delay(dependsOn(-1)))), []*messages.WaitStep{waits(1, 0), needs(0, 1, "lock/a")}},
		"the end of the job":              {drafts(ops(jobtest.Delay(dependsOn(1)))), []*messages.WaitStep{waits(1, 0), depends(0, 1)}},
		"a job that needs the lock":       {drafts(ops(jobtest.Delay(dependsOn(2)))), []*messages.WaitStep{waits(1, 0), depends(0, 2), needs(2, 1, "lock/a")}},
		"another lock":                    {drafts(ops(locking("b"))), nil},
		"a job that can run":              {drafts(ops(jobtest.Delay(dependsOn(3)))), nil},
		"a job that has ended":            {drafts(ops(jobtest.Delay(dependsOn(99)))), nil},
		"an opcode that is malformed":     {drafts(ops(`{"OP_ID": "OP_RUN_COMMAND", "depends": 7}`)), nil},
		"a dependency before the first":   {drafts(ops(jobtest.Delay(dependsOn(-5)))), nil},
		"opcodes without anything at all": {drafts(nil), nil},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, 5, func(t *testing.T, b *bench) {
				b.answerJobsRequest(all(unfinished(1, locking("a"))), all(unfinished(2, locking("a")), unfinished(3, jobtest.Delay())))
				b.sendLocks(true, lock.Record{Owner: lock.JobOwner(1, "/l/1", 7), Locks: freeLock("a")})
				cycle := b.mayWait(&messages.AwaitJobs{Parent: 1, Drafts: c.drafts})
				if c.steps == nil {
					require.Nil(t, cycle)
				} else {
					b.requireCycle(cycle, c.steps...)
				}
				require.Nil(t, b.cycleOf(1), "nothing is recorded")
			})
		})
	}
}

func ops(list ...string) []string { return list }

// A refused wait is not recorded. A recorded one is an edge until the client ends it, or ends.
func TestWaitsOfProcesses(t *testing.T) {
	onBench(t, 5, func(t *testing.T, b *bench) {
		b.answerJobsRequest(all(unfinished(1, locking("a")), unfinished(2, locking("b"))), all(unfinished(3, locking("a"))))
		b.sendLocks(true, lock.Record{Owner: lock.JobOwner(1, "/l/1", 7), Locks: freeLock("a")}, lock.Record{Owner: lock.JobOwner(2, "/l/2", 8), Locks: freeLock("b")})
		b.requireCycle(b.mayWait(&messages.AwaitJobs{Parent: 1, Ids: []int64{3}}), waits(1, 3), needs(3, 1, "lock/a"))
		require.Nil(t, b.cycleOf(1))

		require.Nil(t, b.mayWait(&messages.AwaitJobs{Parent: 2, Ids: []int64{99, 3}}))
		other := b.Probe("other")
		other.Ask(b.scheduler, &messages.AwaitJobs{Request: 8, Parent: 1, Ids: []int64{2}})
		b.requireCycle(kittest.Expect[*messages.AwaitJobsResult](other).Cycle, waits(1, 2), waits(2, 3), needs(3, 1, "lock/a"))

		b.observe(1, 3)
		steps := []*messages.WaitStep{waits(1, 3), needs(3, 1, "lock/a")}
		b.requireCycle(b.cycleOf(1), steps...)
		b.requireCycle(b.cycleOf(3), steps...)
		require.Nil(t, b.cycleOf(2), "its client has another wait now")
		b.process.Ask(b.scheduler, &messages.ListDependencies{Request: 5, Blocked: true})
		require.EqualExportedValues(t, []*messages.JobDependencies{{Id: 1, On: []*messages.JobDependency{{Job: 3, Process: true}}}},
			kittest.Expect[*messages.ListDependenciesResult](b.process).Jobs)
		b.process.Ask(b.scheduler, &messages.ListDependencies{Request: 5})
		require.Empty(t, kittest.Expect[*messages.ListDependenciesResult](b.process).Jobs, "the lock monitor shows dependencies only")

		b.sendLocks(false, lock.Record{Owner: lock.JobOwner(1, "/l/1", 7)})
		require.Nil(t, b.cycleOf(1), "the lock is free")
		b.sendLocks(false, lock.Record{Owner: lock.JobOwner(1, "/l/1", 7), Locks: freeLock("a")})
		b.requireCycle(b.cycleOf(1), steps...)
		b.observe(1)
		require.Nil(t, b.cycleOf(1), "the wait has ended")
		other.Ask(b.scheduler, &messages.AwaitJobs{Parent: 1, Ids: []int64{3}, Observed: true})
		b.Settle()
		b.requireCycle(b.cycleOf(1), steps...)
		b.System().Root.Stop(other.PID)
		b.Settle()
		require.Nil(t, b.cycleOf(1), "the client has ended")
	})
}

// All run slots have jobs that wait for a job without one: this is named, and no wait is refused for it.
func TestRunSlotsOfJobsThatWait(t *testing.T) {
	onBench(t, 2, func(t *testing.T, b *bench) {
		b.answerJobsRequest(plainJobs(1, 2), plainJobs(3, 4, 5))
		require.Nil(t, b.mayWait(&messages.AwaitJobs{Parent: 1, Ids: []int64{3}}))
		require.Nil(t, b.cycleOf(3), "job 2 may end")
		other := b.Probe("other")
		other.Ask(b.scheduler, &messages.AwaitJobs{Parent: 2, Ids: []int64{4}, Observed: true})
		b.Settle()
		first := &messages.WaitCycle{Steps: []*messages.WaitStep{waits(1, 3)}, Slots: 2}
		second := &messages.WaitCycle{Steps: []*messages.WaitStep{waits(2, 4)}, Slots: 2}
		for id, want := range map[int64]*messages.WaitCycle{1: first, 3: first, 5: first, 2: second, 4: second} {
			require.EqualExportedValues(t, want, b.cycleOf(id), "job %d", id)
		}
		b.sendEnded(2, job.Success)
		require.Equal(t, []int64{3}, b.takePicked())
		require.Nil(t, b.cycleOf(1))
	})
}

// Under Ganeti's job processes the locks that a pending job is expected to take are named, and refuse nothing.
func TestACycleWithAJobOfGaneti(t *testing.T) {
	onGanetiBench(t, 1, func(t *testing.T, b *bench) {
		const startup = `{"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": "web1", "force": false}`
		b.answerJobsRequest(all(unfinished(1, `{"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "locks": [["instance/web1", "exclusive"]]}`)), all(unfinished(2, startup)))
		b.sendLocks(true, lock.Record{Owner: lock.JobOwner(1, "/l/1", 7), Locks: []lock.Item{{Lock: lock.Member(lock.Instance, "web1"), Mode: lock.Exclusive}}})
		require.Nil(t, b.mayWait(&messages.AwaitJobs{Parent: 1, Ids: []int64{2}}))
		b.requireCycle(b.cycleOf(2), waits(1, 2), needs(2, 1, "instance/web1"))

		b.reconfigure(2, `{"predictive": false}`)
		require.Equal(t, []int64{2}, b.takePicked())
		require.Nil(t, b.cycleOf(2), "which opcode its process is at is not known")
		b.sendLocks(false, lock.Record{Owner: lock.JobOwner(2, "/l/2", 8), Pending: &lock.Pending{Owner: lock.JobOwner(2, "/l/2", 8),
			Request: lock.Request{{Lock: lock.Member(lock.Instance, "web1"), Mode: lock.Exclusive}}}})
		b.requireCycle(b.cycleOf(2), waits(1, 2), needs(2, 1, "instance/web1"))
	})
}

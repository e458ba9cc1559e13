package scheduler_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/filter"
	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/messages"
)

// expectQueueGets expects exactly these messages to the queue since the last call.
func (b *bench) expectQueueGets(want ...any) {
	b.Helper()
	got := b.queue.Unread()
	require.Len(b, got, len(want))
	for i := range want {
		require.IsType(b, want[i], got[i])
		require.EqualExportedValues(b, want[i], got[i])
	}
}

func waitsForDependencies(id int64) *messages.StartWaitChanged {
	return &messages.StartWaitChanged{Id: id, Wait: messages.StartWait_FOR_JOBS}
}
func waitsForLocks(id int64) *messages.StartWaitChanged {
	return &messages.StartWaitChanged{Id: id, Wait: messages.StartWait_FOR_LOCKS}
}
func waitsNoLonger(id int64) *messages.StartWaitChanged {
	return &messages.StartWaitChanged{Id: id}
}
func picks(id int64) *messages.PickJob         { return &messages.PickJob{Id: id} }
func looksUp(id int64) *messages.GetJobOutcome { return &messages.GetJobOutcome{Id: id} }
func fails(id int64, t string) any             { return unrunnable(id, false, t) }
func cancels(id int64, t string) any           { return unrunnable(id, true, t) }

// unrunnable has the cause that its text names.
func unrunnable(id int64, canceled bool, t string) *messages.EndUnrunnableJob {
	m := &messages.EndUnrunnableJob{Id: id, Canceled: canceled, Text: t}
	var status string
	switch n, _ := fmt.Sscanf(t, "job %d ended with status %s", &m.Cause, &status); {
	case n == 2:
		ended, _ := job.ParseStatus(strings.TrimSuffix(status, ","))
		m.Status = int32(ended)
	case strings.HasSuffix(t, " was canceled"):
		m.Status = int32(job.Canceled)
	default:
		m.Cause = 0
	}
	return m
}

func all(ws ...*messages.UnfinishedJob) []*messages.UnfinishedJob { return ws }

func TestAJobThatWaitsForAnother(t *testing.T) {
	onBench(t, 5, func(t *testing.T, b *bench) {
		b.answerJobsRequest(plainJobs(1), all(unfinished(2, jobtest.Delay(dependsOn(1)))))
		b.expectQueueGets(waitsForDependencies(2))
		b.add(unfinished(3, jobtest.Delay(dependsOn(1, "error"), withReason("x"))), unfinished(4, jobtest.Delay(dependsOn(2))))
		b.expectQueueGets(waitsForDependencies(3), waitsForDependencies(4))
		b.sendEnded(1, job.Error)
		b.expectQueueGets(waitsNoLonger(2), waitsNoLonger(3), picks(2), picks(3))
		b.sendEnded(2, job.Success)
		b.expectQueueGets(waitsNoLonger(4), picks(4))
	})
}

// A job may come before its dependency in the same message.
func TestTheOrderWithinAMessageDoesNotMatter(t *testing.T) {
	onBench(t, 5, func(t *testing.T, b *bench) {
		b.answerJobsRequest(nil, all(unfinished(2, jobtest.Delay(dependsOn(1))), plainJobs(1)[0]))
		b.expectQueueGets(waitsForDependencies(2), picks(1))
		b.add(unfinished(4, jobtest.Delay(dependsOn(3))), plainJobs(3)[0])
		b.expectQueueGets(waitsForDependencies(4), picks(3))
		b.sendEnded(3, job.Success)
		b.expectQueueGets(waitsNoLonger(4), picks(4))
	})
}

func TestDoomedJobs(t *testing.T) {
	const required = "job 1 ended with status success, error was required"
	for name, c := range map[string]struct {
		depends string
		end     job.Status
		want    any
	}{
		"fails":                  {dependsOn(1, "success"), job.Error, fails(2, "job 1 ended with status error, success was required")},
		"fails, the other way":   {dependsOn(1, "error"), job.Success, fails(2, required)},
		"is canceled":            {dependsOn(1), job.Canceled, cancels(2, "job 1 was canceled")},
		"is canceled, too":       {dependsOn(1, "success", "error"), job.Canceled, cancels(2, "job 1 was canceled")},
		"wants it canceled":      {dependsOn(1, "canceled"), job.Canceled, picks(2)},
		"wants it just to end":   {dependsOn(1), job.Error, picks(2)},
		"wants it to have ended": {dependsOn(1, "success", "canceled"), job.Success, picks(2)},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, 5, func(t *testing.T, b *bench) {
				b.answerJobsRequest(plainJobs(1), all(unfinished(2, jobtest.Delay(c.depends))))
				b.expectQueueGets(waitsForDependencies(2))
				b.sendEnded(1, c.end)
				if _, goes := c.want.(*messages.PickJob); goes {
					b.expectQueueGets(waitsNoLonger(2), c.want)
					return
				}
				b.expectQueueGets(c.want)
				// The queue releases the job and then ends it.
				b.sendReleased(2)
				b.sendEnded(2, job.Error)
				b.expectQueueGets()
			})
		})
	}
}

func TestDoomSpreads(t *testing.T) {
	onBench(t, 5, func(t *testing.T, b *bench) {
		b.answerJobsRequest(plainJobs(1), all(unfinished(2, jobtest.Delay(dependsOn(1))), unfinished(3, jobtest.Delay(dependsOn(2)))))
		b.expectQueueGets(waitsForDependencies(2), waitsForDependencies(3))
		b.sendEnded(1, job.Canceled)
		b.expectQueueGets(cancels(2, "job 1 was canceled"))
		b.sendReleased(2)
		b.expectQueueGets()
		b.sendEnded(2, job.Canceled)
		b.expectQueueGets(cancels(3, "job 2 was canceled"))
	})
}

func TestDependenciesThatCannotBe(t *testing.T) {
	onBench(t, 5, func(t *testing.T, b *bench) {
		b.answerJobsRequest(nil, all(unfinished(2, jobtest.Delay(dependsOn(2))), unfinished(3, jobtest.Delay(dependsOn(9)))))
		b.expectQueueGets(fails(2, "a job cannot wait for itself"), fails(3, "job 9 was submitted later: a job can wait only for earlier ones"))
		// The queue ends the job, also if a rule changes meanwhile.
		b.send(&messages.VerdictsChanged{Verdicts: []*messages.Verdict{{Id: 3, Rule: "r", Action: int32(filter.RateLimit), Limit: 7}}})
		b.expectQueueGets(fails(3, "job 9 was submitted later: a job can wait only for earlier ones"))
	})
}

func TestJobsThatAreNotKnownAreLookedUp(t *testing.T) {
	onBench(t, 5, func(t *testing.T, b *bench) {
		b.answerJobsRequest(nil, all(unfinished(7, jobtest.Delay(dependsOn(1))), unfinished(8, jobtest.Delay(dependsOn(1), withReason("x"))), unfinished(9, jobtest.Delay(dependsOn(2)))))
		b.expectQueueGets(looksUp(1), waitsForDependencies(7), waitsForDependencies(8), looksUp(2), waitsForDependencies(9))
		b.send(&messages.GetJobOutcomeResult{Id: 1, Status: int32(job.Success)})
		b.expectQueueGets(waitsNoLonger(7), waitsNoLonger(8), picks(7), picks(8))
		b.send(&messages.GetJobOutcomeResult{Id: 2, Missing: true})
		b.expectQueueGets(fails(9, "job 2 does not exist"))
		b.send(&messages.GetJobOutcomeResult{Id: 2, Missing: true}) // repeated
		b.expectQueueGets()
		b.add(unfinished(10, jobtest.Delay(dependsOn(1, "error"))))
		b.expectQueueGets(looksUp(1), waitsForDependencies(10))
		b.send(&messages.GetJobOutcomeResult{Id: 1, Status: int32(job.Success)})
		b.expectQueueGets(fails(10, "job 1 ended with status success, error was required"))
	})
}

// The queue removes a job that it changes, and enqueues it again. In between the job has
// not ended.
func TestJobsThatAreChangedMeanwhile(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.answerJobsRequest(plainJobs(1), all(plainJobs(2)[0], unfinished(3, jobtest.Delay(dependsOn(2)))))
		b.expectQueueGets(waitsForDependencies(3))
		b.sendReleased(2)
		b.sendReleased(3)
		b.enqueue(2)
		b.expectQueueGets()
		b.add(unfinished(3, jobtest.Delay(dependsOn(2))))
		b.expectQueueGets(waitsForDependencies(3))
		b.sendReleased(2)
		b.expectQueueGets()
		b.sendEnded(2, job.Canceled)
		b.expectQueueGets(cancels(3, "job 2 was canceled"))
	})
}

func TestAHeldJobThatLeavesIsNotPicked(t *testing.T) {
	onBench(t, 5, func(t *testing.T, b *bench) {
		b.answerJobsRequest(plainJobs(1), all(unfinished(2, jobtest.Delay(dependsOn(1)))))
		b.expectQueueGets(waitsForDependencies(2))
		b.sendEnded(2, job.Canceled)
		b.sendEnded(1, job.Success)
		b.expectQueueGets()
	})
}

// addChain adds job 2, whose second opcode depends on job 1. Job 1 has the lower id and is
// picked later.
func (b *bench) addChain() {
	b.Helper()
	b.answerJobsRequest(nil, all(withPriority(10, 1, jobtest.Delay()), withPriority(-10, 2, jobtest.Delay(), jobtest.Delay(dependsOn(1, "success")))))
	b.expectQueueGets(picks(2))
	b.sendBeginOp(7, 2, 1)
	require.Empty(b, b.takePermitted())
}

// With one slot, a job that waits between two opcodes must not keep its dependency from
// running.
func TestAJobThatWaitsBetweenOpcodesGivesItsSlotBack(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.addChain()
		b.expectQueueGets(picks(1))
		b.add(withPriority(-20, 3, jobtest.Delay()))
		b.sendEnded(1, job.Success)
		require.Empty(t, b.takePermitted(), "it takes a slot like everybody, in turn")
		b.expectQueueGets(picks(3))
		b.sendReleased(3)
		require.Equal(t, []uint64{7}, b.takePermitted())
		b.enqueue(4)
		b.expectQueueGets() // its slot is in use again
		b.sendEnded(2, job.Success)
		b.expectQueueGets(picks(4))
	})
}

func TestAJobThatIsDoomedBetweenOpcodes(t *testing.T) {
	for end, canceled := range map[job.Status]bool{job.Error: false, job.Canceled: true} {
		t.Run(end.String(), func(t *testing.T) {
			onBench(t, 1, func(t *testing.T, b *bench) {
				b.addChain()
				b.expectQueueGets(picks(1))
				b.sendEnded(1, end)
				a := kittest.Expect[*messages.BeginOpResult](b.process)
				require.Equal(t, uint64(7), a.Request)
				require.True(t, a.Denied)
				require.Equal(t, canceled, a.Canceled)
				require.Contains(t, a.Text, "job 1 ")
				b.expectQueueGets() // the process ends the job
				// The answer was lost; the outcome is looked up again.
				b.sendBeginOp(8, 2, 1)
				b.expectQueueGets(looksUp(1))
				b.send(&messages.GetJobOutcomeResult{Id: 1, Status: int32(end)})
				a = kittest.Expect[*messages.BeginOpResult](b.process)
				require.True(t, a.Denied)
				require.Equal(t, uint64(8), a.Request)
				b.enqueue(3)
				b.expectQueueGets(picks(3))
			})
		})
	}
}

func TestADependencyThatCannotBeOfALaterOpcode(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.answerJobsRequest(nil, all(unfinished(2, jobtest.Delay(), jobtest.Delay(dependsOn(9)))))
		b.expectQueueGets(picks(2)) // the opcodes before it run
		b.sendBeginOp(7, 2, 1)
		a := kittest.Expect[*messages.BeginOpResult](b.process)
		require.True(t, a.Denied)
		require.False(t, a.Canceled)
		require.Equal(t, "job 9 was submitted later: a job can wait only for earlier ones", a.Text)
	})
}

// A dependency that was met is not checked again, because the job may have been archived.
func TestWhatWasMetIsMet(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.addChain()
		b.expectQueueGets(picks(1))
		b.sendEnded(1, job.Success)
		require.Equal(t, []uint64{7}, b.takePermitted())
		b.sendBeginOp(8, 2, 1) // the process repeats it after it has lost its locks
		require.Equal(t, []uint64{8}, b.takePermitted())
		b.expectQueueGets()
	})
}

func TestAskDependencies(t *testing.T) {
	ask := func(b *bench) string {
		b.process.Ask(b.scheduler, &messages.ListDependencies{Request: 4})
		a := kittest.Expect[*messages.ListDependenciesResult](b.process)
		require.Equal(b, uint64(4), a.Request)
		text := []string{}
		for _, j := range a.Jobs {
			on := []string{}
			for _, d := range j.On {
				statuses, err := json.Marshal(append([]string{}, d.Statuses...))
				require.NoError(b, err)
				on = append(on, fmt.Sprintf(`{"id": %d, "statuses": %s}`, d.Job, statuses))
			}
			text = append(text, fmt.Sprintf(`{"id": %d, "on": [%s]}`, j.Id, strings.Join(on, ", ")))
		}
		return "[" + strings.Join(text, ", ") + "]"
	}
	onBench(t, 1, func(t *testing.T, b *bench) {
		require.JSONEq(t, `[]`, ask(b), "before the population is known")
		b.answerJobsRequest(plainJobs(1), all(unfinished(3, jobtest.Delay(dependsOn(1), withReason("x"))), unfinished(2, jobtest.Delay(`"depends": [[1, ["success"]], [1, []]]`)), plainJobs(4)[0]))
		require.JSONEq(t, `[{"id": 2, "on": [{"id": 1, "statuses": ["success"]}, {"id": 1, "statuses": []}]},
			{"id": 3, "on": [{"id": 1, "statuses": []}]}]`, ask(b))
		b.sendEnded(1, job.Success)
		require.JSONEq(t, `[]`, ask(b))
	})
}

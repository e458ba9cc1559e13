package filters_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/filter"
	"lockstep/core/job/jobtest"
	"lockstep/messages"
)

const lockRule = `[["lock", ["==", "name", "lock/rack-3"]]]`

// chained is a job whose second opcode takes the lock rack-3.
func chained(id int64) *messages.UnfinishedJob {
	return kittest.Unfinished(jobtest.Queued(id, jobtest.Delay(), `{"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "locks": [["lock/rack-3", "shared"]]}`))
}

func (b *bench) reach(request uint64, id int64, op int32) *messages.ReachOpResult {
	b.queue.Ask(b.filters, &messages.ReachOp{Request: request, Id: id, Op: op})
	return kittest.Expect[*messages.ReachOpResult](b.queue)
}

// A rule about locks decides on a job when it comes to an opcode that takes them.
func TestARuleAboutTheLocksOfTheNextOpcode(t *testing.T) {
	onReady(t, map[string]string{uuidA: `{"uuid": "` + uuidA + `", "watermark": 0, "priority": 0, "predicates": [], "action": "CONTINUE", "reason_trail": []}`},
		func(t *testing.T, b *bench) {
			var err error
			b.own, err = b.own.Put(uuidB, []byte(rule(uuidB, 1, lockRule, `"PAUSE"`)))
			require.NoError(t, err)
			b.publish()
			b.queue.Ask(b.filters, &messages.EvaluateFilters{Request: 1, Jobs: []*messages.UnfinishedJob{chained(7)}})
			b.Settle()
			b.expectVerdicts(1)
			a := b.reach(5, 7, 1)
			require.EqualExportedValues(t, &messages.ReachOpResult{Request: 5, Verdict: verdict(7, uuidB, filter.Pause, 0)}, a)
			b.queue.Quiet()

			// The verdict stays with the opcode when the rules change.
			b.own = b.own.Delete(uuidB)
			b.publish()
			b.Settle()
			b.expectChanged(&messages.Verdict{Id: 7})
			b.own, err = b.own.Put(uuidC, []byte(rule(uuidC, 1, lockRule, `"REJECT"`)))
			require.NoError(t, err)
			b.publish()
			b.Settle()
			b.expectChanged(verdict(7, uuidC, filter.Reject, 0))
			require.Equal(t, "", b.reach(6, 8, 1).Verdict.Rule, "the job has ended")
		})
}

// A filter engine that has started answers when the queue has told it of the job.
func TestAJobThatIsNotKnownYet(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.configure(map[string]string{})
		b.queue.Unread()
		b.queue.Ask(b.filters, &messages.ReachOp{Request: 5, Id: 7, Op: 1})
		b.queue.Quiet()
		b.queue.Ask(b.filters, &messages.EvaluateFilters{Jobs: []*messages.UnfinishedJob{chained(7)}})
		b.Settle()
		b.expectVerdicts(0)
		require.EqualExportedValues(t, &messages.ReachOpResult{Request: 5, Verdict: &messages.Verdict{Id: 7}}, kittest.Expect[*messages.ReachOpResult](b.queue))
	})
}

// The name of a job is what its submitter has given.
func TestARuleAboutTheNameOfAJob(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		var err error
		b.own, err = b.own.Put(uuidA, []byte(rule(uuidA, 1, `[["name", ["=~", "name", "^backup-"]]]`, `"PAUSE"`)))
		require.NoError(t, err)
		b.publish()
		named := unfinished(7)
		named.Name = "backup-7"
		b.queue.Ask(b.filters, &messages.EvaluateFilters{Request: 1, Jobs: []*messages.UnfinishedJob{named, unfinished(8)}})
		b.Settle()
		b.expectVerdicts(1, verdict(7, uuidA, filter.Pause, 0))
	})
}

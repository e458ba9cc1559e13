package filters_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/filters"
	"lockstep/actors/kittest"
	"lockstep/core/filter"
	"lockstep/messages"
)

// expensive holds for all jobs of these tests, and takes some thousand steps for each.
var expensive = `[["reason", ["!", ["=~", "reason", "(b|be){240}c` + strings.Repeat("|x{99}y", 10) + `"]]]]`

const many = 2000

// replaceByExpensive begins a change to an expensive rule, up to the edit of the configuration.
func (b *bench) replaceByExpensive(request uint64, uuid string) *messages.EditConfig {
	b.Helper()
	m := replaces(request, `"`+uuid+`"`)
	m.GetReplace().Predicates, m.GetReplace().Action = []byte(expensive), []byte(`"PAUSE"`)
	b.request(m)
	b.answerSerial(many)
	return b.expectEdit()
}

// judgeMany lets the filter engine know many jobs.
func (b *bench) judgeMany() {
	b.Helper()
	m := &messages.EvaluateFilters{}
	for id := range int64(many) {
		m.Jobs = append(m.Jobs, unfinished(id+1))
	}
	b.queue.Ask(b.filters, m)
	b.expectVerdicts(0)
}

// paused are the jobs that the queue was told to be paused by a rule, of these messages.
func paused(all []any, rule string) map[int64]bool {
	is := map[int64]bool{}
	for _, m := range all {
		var verdicts []*messages.Verdict
		switch m := m.(type) {
		case *messages.VerdictsChanged:
			verdicts = m.Verdicts
		case *messages.EvaluateFiltersResult:
			verdicts = m.Verdicts
		}
		for _, v := range verdicts {
			if is[v.Id] = v.Rule == rule; !is[v.Id] {
				delete(is, v.Id)
			}
		}
	}
	return is
}

func indexOf[M any](all []any, at func(M) bool) int {
	return slices.IndexFunc(all, func(m any) bool { x, is := m.(M); return is && at(x) })
}

func isGroup(m *messages.EvaluateFiltersResult) bool { return m.Request != 0 }

func isChange(request uint64) func(*messages.ChangeFilterResult) bool {
	return func(m *messages.ChangeFilterResult) bool { return m.Request == request }
}

// A submission that arrives while an expensive rule is judged over many jobs waits for one slice, and is judged by the new rule. The
// change is answered when all jobs are judged and the queue has the verdicts.
func TestASubmissionDoesNotWaitForAChangeOfTheRules(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.judgeMany()
		b.client = b.queue // the same mailbox for all answers
		edit := b.replaceByExpensive(8, uuidA)
		asked := false // when the first slice begins, so that the submission is behind one slice, however slow this machine is
		b.Panics.Watch(func(_ string, m any) {
			if strings.HasSuffix(fmt.Sprintf("%T", m), "proceed") && !asked { // asked belongs to the engine's goroutine
				asked = true
				b.queue.Ask(b.filters, &messages.EvaluateFilters{Request: 1, Jobs: []*messages.UnfinishedJob{unfinished(many + 1)}})
			}
		})
		b.publishEdit(edit)
		b.Settle()
		all := b.queue.Unread()
		submitted := indexOf(all, isGroup)
		require.Equal(t, uuidA, all[submitted].(*messages.EvaluateFiltersResult).Verdicts[0].Rule)
		require.Less(t, len(paused(all[:submitted], uuidA)), many/2, "the submission has waited for the other jobs")
		answered := indexOf(all, isChange(8))
		require.Len(t, paused(all[:answered], uuidA), many+1)
		require.EqualValues(t, many+1, all[answered].(*messages.ChangeFilterResult).Matches)
		require.Len(t, all, answered+1)
	})
}

// No message is handled for longer than one slice while jobs are judged, counted in messages of the actor to itself.
func TestJobsAreJudgedInSlices(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.judgeMany()
		slices := 0
		b.Panics.Watch(func(_ string, m any) {
			if strings.HasSuffix(fmt.Sprintf("%T", m), "proceed") {
				slices++
			}
		})
		b.publishEdit(b.replaceByExpensive(8, uuidA))
		b.expectFilterResult(8)
		require.Greater(t, slices, 20)
	})
}

// A second change ends the judging by the first. Both are answered when all jobs are judged by the rules in force.
func TestARuleIsDeletedWhileItIsJudged(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.judgeMany()
		b.client = b.queue
		edit := b.replaceByExpensive(8, uuidA)
		b.queueIsBusy.Store(true) // so that some verdicts of the first rule are told
		b.publishEdit(edit)
		b.Settle()
		b.request(deletes(9, uuidA))
		deletion := b.expectEdit()
		first := kittest.Expect[*messages.VerdictsChanged](b.queue)
		require.NotEmpty(t, first.Verdicts)
		b.queue.Quiet()
		b.publishEdit(deletion)
		b.queue.Quiet()
		b.queueIsBusy.Store(false)
		b.queue.Ask(b.filters, &messages.VerdictsTaken{Request: first.Request})
		all := append([]any{first}, b.queue.Unread()...)
		one, two := indexOf(all, isChange(8)), indexOf(all, isChange(9))
		require.Positive(t, one)
		require.Positive(t, two)
		require.Empty(t, paused(all[:min(one, two)], uuidA))
	})
}

// Jobs that end while a rule is judged have no verdict; the jobs after them have.
func TestJobsEndWhileARuleIsJudged(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.judgeMany()
		b.queueIsBusy.Store(true)
		b.publishEdit(b.replaceByExpensive(8, uuidA))
		b.Settle()
		for id := int64(1); id <= many; id += 2 {
			b.queue.Ask(b.filters, &messages.ForgetJob{Id: id})
		}
		first := kittest.Expect[*messages.VerdictsChanged](b.queue)
		b.Settle()
		b.client.Quiet()
		b.queueIsBusy.Store(false)
		b.queue.Ask(b.filters, &messages.VerdictsTaken{Request: first.Request})
		answer := b.expectFilterResult(8)
		require.EqualValues(t, many/2, answer.Matches)
		for _, m := range b.queue.Unread() {
			for _, v := range m.(*messages.VerdictsChanged).Verdicts {
				require.Zero(t, v.Id%2, "job %d has ended", v.Id)
			}
		}
	})
}

// A queue that restarts while a rule is judged asks about all jobs again; the change is answered when the queue has taken that answer.
func TestTheQueueRestartsWhileARuleIsJudged(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.judgeMany()
		b.queueIsBusy.Store(true)
		b.publishEdit(b.replaceByExpensive(8, uuidA))
		b.Settle()
		kittest.Expect[*messages.VerdictsChanged](b.queue)
		b.queue.Ask(b.filters, &messages.QueueStarted{Incarnation: 2})
		kittest.Expect[*messages.FiltersStarted](b.queue)
		b.client.Quiet()
		b.sendEvaluate(0, 1, 2, 3)
		result := kittest.Expect[*messages.EvaluateFiltersResult](b.queue)
		require.Len(t, result.Verdicts, 3)
		b.client.Quiet()
		b.queue.Ask(b.filters, &messages.VerdictsTaken{Request: result.Taken})
		require.EqualValues(t, 3, b.expectFilterResult(8).Matches)
	})
}

// A crash while a rule is judged loses the answer, not the rule.
func TestACrashWhileARuleIsJudged(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.judgeMany()
		b.queueIsBusy.Store(true)
		b.publishEdit(b.replaceByExpensive(8, uuidA))
		b.Settle()
		taken := kittest.Expect[*messages.VerdictsChanged](b.queue)
		b.Restart(b.filters)
		b.queue.Ask(b.filters, &messages.VerdictsTaken{Request: taken.Request}) // late
		b.cluster.Unread()
		b.queue.Unread()
		b.publish()
		b.sendEvaluate(0, 1, 2, 3)
		b.expectVerdicts(0, pausedBy(1, uuidA), pausedBy(2, uuidA), pausedBy(3, uuidA))
		b.client.Quiet()
	})
}

func pausedBy(id int64, rule string) *messages.Verdict {
	return &messages.Verdict{Id: id, Rule: rule, Action: int32(filter.Pause), Reason: "drain"}
}

// A client that tests a rule takes the jobs in pages, with the rules in force.
func TestTakeJobs(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		const all = 20_001
		m := &messages.EvaluateFilters{Request: 1}
		for id := range int64(all) {
			m.Jobs = append(m.Jobs, unfinished(id+1))
		}
		b.queue.Ask(b.filters, m)
		b.expectVerdicts(1)
		b.queue.Ask(b.filters, &messages.ForgetJob{Id: 2})
		b.client.Ask(b.filters, &filters.TakeJobs{Request: 7})
		first := kittest.Expect[*filters.JobsTaken](b.client)
		require.Equal(t, uint64(7), first.Request)
		require.Len(t, first.Jobs, 20_000)
		require.EqualValues(t, 3, first.Jobs[1].ID)
		require.False(t, first.More)
		b.client.Ask(b.filters, &filters.TakeJobs{Request: 8, After: 19_999})
		require.EqualValues(t, 20_000, kittest.Expect[*filters.JobsTaken](b.client).Jobs[0].ID)
	})
}

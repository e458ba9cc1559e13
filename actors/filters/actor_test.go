package filters_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/filter"
	"lockstep/messages"
)

func TestJobsAreJudged(t *testing.T) {
	onReady(t, map[string]string{
		uuidA: rule(uuidA, 1, idIs("=", 1), `"PAUSE"`),
		uuidB: rule(uuidB, 2, idIs("<=", "watermark"), `["RATE_LIMIT", 7]`),
		uuidC: rule(uuidC, 0, `[["reason", ["=~", "reason", "^because$"]], ["jobid", ["=", "id", 6]]]`, `"REJECT"`),
	}, func(t *testing.T, b *bench) {
		b.sendEvaluate(3, 1, 5, 6, 7)
		b.expectVerdicts(3, verdict(1, uuidA, filter.Pause, 0), verdict(5, uuidB, filter.RateLimit, 7), verdict(6, uuidC, filter.Reject, 0))
	})
}

func TestAcceptedAndContinued(t *testing.T) {
	onReady(t, map[string]string{
		uuidA: rule(uuidA, 1, idIs("=", 1), `"ACCEPT"`),
		uuidB: rule(uuidB, 0, `[]`, `"CONTINUE"`),
		uuidC: rule(uuidC, 2, `[]`, `"REJECT"`),
	}, func(t *testing.T, b *bench) {
		b.sendEvaluate(3, 1, 2)
		b.expectVerdicts(3, verdict(2, uuidC, filter.Reject, 0))
	})
}

// An invalid job has no verdict. The queue has logged the error.
func TestSomethingThatIsNoJobIsNotJudged(t *testing.T) {
	onReady(t, map[string]string{uuidC: rule(uuidC, 2, `[]`, `"REJECT"`)}, func(t *testing.T, b *bench) {
		b.queue.Ask(b.filters, &messages.EvaluateFilters{Request: 3, Jobs: []*messages.UnfinishedJob{{Id: 1, Encoded: []byte("{")}, unfinished(2)}})
		b.expectVerdicts(3, verdict(2, uuidC, filter.Reject, 0))
	})
}

// Jobs are not evaluated before the rules are known.
func TestQuestionsWaitForTheRules(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.sendEvaluate(0, 1)
		b.sendEvaluate(1, 2)
		b.client.Ask(b.filters, &messages.ListFilters{Request: 4})
		kittest.Expect[*messages.FiltersStarted](b.queue)
		b.queue.Quiet()
		b.client.Quiet()
		b.configure(map[string]string{uuidA: rule(uuidA, 1, `[]`, `"PAUSE"`)})
		b.expectVerdicts(0, verdict(1, uuidA, filter.Pause, 0))
		b.expectVerdicts(1, verdict(2, uuidA, filter.Pause, 0))
		require.Len(t, kittest.Expect[*messages.ListFiltersResult](b.client).Rules, 1)
	})
}

func TestARuleThatChangesTellsOnlyWhoIsConcerned(t *testing.T) {
	one := map[string]string{uuidA: rule(uuidA, 1, idIs("<", 3), `"PAUSE"`)}
	onReady(t, one, func(t *testing.T, b *bench) {
		b.sendEvaluate(0, 4, 3, 2, 1)
		b.expectVerdicts(0, verdict(1, uuidA, filter.Pause, 0), verdict(2, uuidA, filter.Pause, 0))
		b.configure(map[string]string{uuidA: rule(uuidA, 1, idIs(">", 1), `"PAUSE"`)})
		b.expectChanged(&messages.Verdict{Id: 1}, verdict(3, uuidA, filter.Pause, 0), verdict(4, uuidA, filter.Pause, 0))
		b.configure(map[string]string{uuidA: rule(uuidA, 1, idIs(">", 1), `"PAUSE"`), uuidB: rule(uuidB, 0, idIs("=", 2), `"REJECT"`)})
		b.expectChanged(verdict(2, uuidB, filter.Reject, 0))
		b.configure(nil)
		b.expectChanged(&messages.Verdict{Id: 2}, &messages.Verdict{Id: 3}, &messages.Verdict{Id: 4})
		b.configure(map[string]string{uuidC: rule(uuidC, 1, `[]`, `"CONTINUE"`)})
		b.queue.Quiet()
	})
}

// If a rule's limit or reason changes, so does the verdict.
func TestALimitThatChanges(t *testing.T) {
	onReady(t, map[string]string{uuidA: rule(uuidA, 1, `[]`, `["RATE_LIMIT", 1]`)}, func(t *testing.T, b *bench) {
		b.sendEvaluate(0, 1)
		b.expectVerdicts(0, verdict(1, uuidA, filter.RateLimit, 1))
		b.configure(map[string]string{uuidA: rule(uuidA, 1, `[]`, `["RATE_LIMIT", 2]`)})
		b.expectChanged(verdict(1, uuidA, filter.RateLimit, 2))
		b.configure(map[string]string{uuidA: `{"uuid": "` + uuidA + `", "watermark": 5, "priority": 1, "predicates": [],
			"action": ["RATE_LIMIT", 2], "reason_trail": []}`})
		b.expectChanged(&messages.Verdict{Id: 1, Rule: uuidA, Action: int32(filter.RateLimit), Limit: 2})
	})
}

func TestWhoIsForgottenIsNotJudgedAgain(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.sendEvaluate(1, 1, 2)
		b.expectVerdicts(1)
		b.queue.Ask(b.filters, &messages.ForgetJob{Id: 1})
		b.queue.Ask(b.filters, &messages.ForgetJob{Id: 9})
		b.configure(map[string]string{uuidA: rule(uuidA, 1, `[]`, `"PAUSE"`)})
		b.expectChanged(verdict(2, uuidA, filter.Pause, 0))
	})
}

// The jobs of a restarted queue replace all known jobs.
func TestTheJobsOfAFormerQueueAreForgotten(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.sendEvaluate(1, 1, 2)
		b.expectVerdicts(1)
		b.queue.Ask(b.filters, &messages.QueueStarted{Incarnation: 2})
		kittest.Expect[*messages.FiltersStarted](b.queue)
		b.sendEvaluate(0, 2, 3)
		b.expectVerdicts(0)
		b.configure(map[string]string{uuidA: rule(uuidA, 1, `[]`, `"PAUSE"`)})
		b.expectChanged(verdict(2, uuidA, filter.Pause, 0), verdict(3, uuidA, filter.Pause, 0))
	})
}

// A rule that cannot be compiled applies to no job and is logged. The other rules are in
// force.
func TestRulesThatAreNotUnderstood(t *testing.T) {
	for name, bad := range map[string]string{
		"no filter":          rule(uuidA, 0, `[["jobid", 7]]`, `"REJECT"`),
		"a strange operator": rule(uuidA, 0, `[["jobid", ["~~", "id", 1]]]`, `"REJECT"`),
	} {
		t.Run(name, func(t *testing.T) {
			onReady(t, map[string]string{uuidA: bad, uuidB: rule(uuidB, 1, `[]`, `"PAUSE"`)}, func(t *testing.T, b *bench) {
				require.Len(t, b.Logged("filter rule cannot be compiled; it applies to no job"), 1)
				b.sendEvaluate(1, 1)
				b.expectVerdicts(1, verdict(1, uuidB, filter.Pause, 0))
			})
		})
	}
}

func TestRulesAreShownInTheirOrder(t *testing.T) {
	onReady(t, map[string]string{
		uuidA: rule(uuidA, 7, `[]`, `"PAUSE"`), uuidB: rule(uuidB, 1, `[["reason", ["=", "sky", "blue"]]]`, `"REJECT"`), uuidC: rule(uuidC, 1, `[]`, `["RATE_LIMIT", 2]`),
	}, func(t *testing.T, b *bench) {
		b.client.Ask(b.filters, &messages.ListFilters{Request: 4})
		a := kittest.Expect[*messages.ListFiltersResult](b.client)
		require.Equal(t, uint64(4), a.Request)
		require.Len(t, a.Rules, 3)
		require.JSONEq(t, rule(uuidB, 1, `[["reason", ["=", "sky", "blue"]]]`, `"REJECT"`), string(a.Rules[0]))
		require.JSONEq(t, rule(uuidC, 1, `[]`, `["RATE_LIMIT", 2]`), string(a.Rules[1]))
		require.JSONEq(t, rule(uuidA, 7, `[]`, `"PAUSE"`), string(a.Rules[2]))
	})
}

// After a crash jobs and rules are requested again.
func TestRestart(t *testing.T) {
	rules := map[string]string{uuidA: rule(uuidA, 1, `[]`, `"PAUSE"`)}
	onReady(t, rules, func(t *testing.T, b *bench) {
		b.sendEvaluate(1, 1)
		b.expectVerdicts(1, verdict(1, uuidA, filter.Pause, 0))
		b.Crash(b.filters)
		b.sendEvaluate(2, 2) // waits in the mailbox
		b.Advance(kittest.Backoff)
		kittest.Expect[*messages.PublishConfig](b.cluster)
		require.Equal(t, uint64(2), kittest.Expect[*messages.FiltersStarted](b.queue).Incarnation)
		b.queue.Quiet()
		b.configure(rules)
		b.expectVerdicts(2, verdict(2, uuidA, filter.Pause, 0))
		b.sendEvaluate(0, 1, 2)
		b.expectVerdicts(0, verdict(1, uuidA, filter.Pause, 0), verdict(2, uuidA, filter.Pause, 0))
		b.configure(nil)
		b.expectChanged(&messages.Verdict{Id: 1}, &messages.Verdict{Id: 2})
	})
}

// A submission that arrives during an evaluation of all jobs waits for one step of it only.
func TestASubmissionDoesNotWaitUntilAllJobsAreJudged(t *testing.T) {
	const all = 20_000
	rules := map[string]string{uuidA: rule(uuidA, 1, idIs(">", 5), `"PAUSE"`)}
	onReady(t, rules, func(t *testing.T, b *bench) {
		m := &messages.EvaluateFilters{}
		for id := range int64(all) {
			m.Jobs = append(m.Jobs, unfinished(id+1))
		}
		b.queue.Ask(b.filters, m)
		b.queue.Ask(b.filters, &messages.EvaluateFilters{Request: 1, Jobs: []*messages.UnfinishedJob{unfinished(all + 1)}})
		b.queue.Ask(b.filters, &messages.ForgetJob{Id: all})
		b.Settle()
		b.expectVerdicts(1, verdict(all+1, uuidA, filter.Pause, 0))
		last := kittest.Expect[*messages.EvaluateFiltersResult](b.queue)
		require.Zero(t, last.Request)
		require.Len(t, last.Verdicts, all-5, "the new job is among them, one that has ended is not")
		require.EqualValues(t, all+1, last.Verdicts[len(last.Verdicts)-1].Id)
		b.configure(map[string]string{})
		changed := 0
		for _, m := range b.queue.Unread() {
			changed += len(m.(*messages.VerdictsChanged).Verdicts)
		}
		require.Equal(t, all-5, changed)
	})
}

// If a rule changes during an evaluation of all jobs, all jobs are evaluated by the new
// rules.
func TestARuleThatChangesInTheMiddle(t *testing.T) {
	const all = 20_000
	onReady(t, nil, func(t *testing.T, b *bench) {
		m := &messages.EvaluateFilters{}
		for id := range int64(all) {
			m.Jobs = append(m.Jobs, unfinished(id+1))
		}
		b.queue.Ask(b.filters, m)
		b.configure(map[string]string{uuidA: rule(uuidA, 1, idIs("<=", all), `"PAUSE"`)})
		b.Settle()
		judged := map[int64]bool{}
		for _, m := range b.queue.Unread() {
			switch m := m.(type) {
			case *messages.VerdictsChanged:
				for _, v := range m.Verdicts {
					judged[v.Id] = true
				}
			case *messages.EvaluateFiltersResult:
				for _, v := range m.Verdicts {
					judged[v.Id] = true
				}
				require.Len(t, m.Verdicts, all)
			}
		}
		require.Len(t, judged, all)
	})
}

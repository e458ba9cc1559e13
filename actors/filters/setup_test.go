package filters_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/filters"
	"lockstep/actors/kittest"
	"lockstep/core/config"
	"lockstep/core/config/configtest"
	"lockstep/core/config/model"
	"lockstep/core/config/ownrules"
	"lockstep/core/filter"
	"lockstep/core/job/jobtest"
	"lockstep/core/opcode"
	"lockstep/messages"
)

// Names of rules.
const (
	uuidA = "aaaaaaaa-0000-4000-8000-000000000000"
	uuidB = "bbbbbbbb-0000-4000-8000-000000000000"
	uuidC = "cccccccc-0000-4000-8000-000000000000"
)

// bench is a filter engine with a probe for each neighbour.
type bench struct {
	*testing.T
	*kittest.Env
	queue, cluster, client *kittest.Probe
	filters                *actor.PID
	stored                 *model.Config
	own                    ownrules.Rules
	queueIsBusy            atomic.Bool // it takes no verdicts
}

// onBench runs a test with a filter engine that has no answer yet.
func onBench(t *testing.T, f func(*testing.T, *bench)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{T: t, Env: e, queue: e.Probe("queue"), cluster: e.Probe("clusterconfig"), client: e.Probe("client")}
		b.queue.Answer(func(m any) any {
			switch m := m.(type) {
			case *messages.VerdictsChanged:
				if !b.queueIsBusy.Load() {
					b.Send(b.filters, &messages.VerdictsTaken{Request: m.Request})
				}
			case *messages.EvaluateFiltersResult:
				if m.Taken != 0 && !b.queueIsBusy.Load() {
					b.Send(b.filters, &messages.VerdictsTaken{Request: m.Taken})
				}
			}
			return nil
		})
		b.filters = e.Start("filters", filters.Props(filters.Config{Env: e.Env, Queue: b.queue.PID, ClusterConfig: b.cluster.PID, Catalogue: opcode.Builtin()}))
		f(t, b)
	})
}

// onReady runs a test with a filter engine that knows these rules and no jobs.
func onReady(t *testing.T, rules map[string]string, f func(*testing.T, *bench)) {
	t.Helper()
	onBench(t, func(t *testing.T, b *bench) {
		b.configure(rules)
		b.sendEvaluate(0)
		kittest.Expect[*messages.PublishConfig](b.cluster)
		kittest.Expect[*messages.FiltersStarted](b.queue)
		b.queue.Unread()
		f(t, b)
	})
}

// configure sends a configuration with these rules.
func (b *bench) configure(rules map[string]string) {
	b.Helper()
	b.stored = configtest.New(b)
	for uuid, rule := range rules {
		b.stored = configtest.Edit(b, b.stored, config.ConfigChange{RuleUUID: uuid, Rule: []byte(rule)})
	}
	b.cluster.Ask(b.filters, &clusterconfig.ConfigPublished{Config: b.stored})
	b.Settle()
}

// rule is a rule in the configuration.
func rule(uuid string, priority int, predicates, action string) string {
	return fmt.Sprintf(`{"uuid": %q, "watermark": 5, "priority": %d, "predicates": %s, "action": %s,
		"reason_trail": [["gnt:user", "pink bunny", 1], ["luxid", "", 2]]}`, uuid, priority, predicates, action)
}

// idIs is a predicate on the job id.
func idIs(op string, value any) string { return fmt.Sprintf(`[["jobid", [%q, "id", %#v]]]`, op, value) }

// unfinished is a job with a reason trail.
func unfinished(id int64) *messages.UnfinishedJob {
	return kittest.Unfinished(jobtest.Queued(id, jobtest.Delay(`"reason": [["gnt:user", "because", 1]]`)))
}

func (b *bench) sendEvaluate(request uint64, ids ...int64) {
	m := &messages.EvaluateFilters{Request: request}
	for _, id := range ids {
		m.Jobs = append(m.Jobs, unfinished(id))
	}
	b.queue.Ask(b.filters, m)
	b.Settle()
}

func (b *bench) expectVerdicts(request uint64, verdicts ...*messages.Verdict) {
	b.Helper()
	answer := kittest.Expect[*messages.EvaluateFiltersResult](b.queue)
	require.EqualExportedValues(b, &messages.EvaluateFiltersResult{Request: request, Verdicts: verdicts, Taken: answer.Taken}, answer)
	require.Equal(b, request == 0, answer.Taken != 0, "the queue says when it has taken the verdicts on all jobs")
}

// expectChanged expects VerdictsChanged with these verdicts, and no further message to the
// queue.
func (b *bench) expectChanged(verdicts ...*messages.Verdict) {
	b.Helper()
	changed := kittest.Expect[*messages.VerdictsChanged](b.queue)
	require.EqualExportedValues(b, &messages.VerdictsChanged{Request: changed.Request, Verdicts: verdicts}, changed)
	b.queue.Quiet()
}

func verdict(id int64, rule string, action filter.Verb, limit int64) *messages.Verdict {
	return &messages.Verdict{Id: id, Rule: rule, Action: int32(action), Limit: limit, Reason: "pink bunny"}
}

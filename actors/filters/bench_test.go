package filters_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/filters"
	"lockstep/actors/kittest"
	"lockstep/core/config"
	"lockstep/core/config/configtest"
	"lockstep/core/config/model"
	"lockstep/core/opcode"
	"lockstep/messages"
)

// BenchmarkRuleChange measures the time from a change of ten rules to its answer, when 100,000 jobs are judged: all verdicts change, or none.
func BenchmarkRuleChange(b *testing.B) {
	const jobs = 100_000
	for name, op := range map[string]string{"all": ">=", "none": "<"} {
		b.Run(name, func(b *testing.B) {
			e, told := newTiming(b, jobs), 0
			e.queue.Answer(func(m any) any {
				changed, is := m.(*messages.VerdictsChanged)
				if !is {
					return nil
				}
				told += len(changed.Verdicts)
				return &messages.VerdictsTaken{Request: changed.Request}
			})
			n := 0
			e.cluster.Answer(func(m any) any {
				edit, is := m.(*messages.EditConfig)
				if !is {
					return nil
				}
				e.Send(e.filters, &clusterconfig.ConfigPublished{Config: tenRules(b, op, n)})
				return &messages.EditConfigResult{Request: edit.Request}
			})
			for b.Loop() {
				n++
				e.client.Ask(e.filters, &messages.ChangeFilter{Request: uint64(n), Change: &messages.ChangeFilter_Delete{Delete: uuidA}})
				kittest.Expect[*messages.ChangeFilterResult](e.client)
			}
			if op == ">=" {
				require.Equal(b, n*jobs, told)
			}
		})
	}
}

// BenchmarkNewJob measures the judging of one new job by ten rules, beside 100,000 other jobs.
func BenchmarkNewJob(b *testing.B) {
	const jobs = 100_000
	e := newTiming(b, jobs)
	for id := int64(jobs + 1); b.Loop(); id++ {
		e.queue.Ask(e.filters, &messages.EvaluateFilters{Request: uint64(id), Jobs: []*messages.UnfinishedJob{unfinished(id)}})
		kittest.Expect[*messages.EvaluateFiltersResult](e.queue)
	}
}

// newTiming is a filter engine with ten rules that has judged these jobs, without a bubble of its own.
func newTiming(b *testing.B, jobs int) *bench {
	e := &bench{Env: kittest.New(b)}
	e.queue, e.cluster, e.client = e.Probe("queue"), e.Probe("clusterconfig"), e.Probe("client")
	pid, _, err := e.SpawnRoot(filters.Props(filters.Config{Env: e.Env.Env, Queue: e.queue.PID, ClusterConfig: e.cluster.PID, Catalogue: opcode.Builtin()}), "filters")
	require.NoError(b, err)
	e.filters = pid
	e.Send(pid, &clusterconfig.ConfigPublished{Config: tenRules(b, "<", 0)})
	all := &messages.EvaluateFilters{}
	for id := range int64(jobs) {
		all.Jobs = append(all.Jobs, unfinished(id+1))
	}
	e.queue.Ask(pid, all)
	kittest.Expect[*messages.EvaluateFiltersResult](e.queue)
	return e
}

// tenRules are ten different rules, which depend on n. The last one applies to all jobs or
// to none.
func tenRules(b *testing.B, op string, n int) *model.Config {
	current := configtest.New(b)
	for i := range 10 {
		uuid := fmt.Sprintf("%08x-0000-4000-8000-%012x", i, n)
		predicates := fmt.Sprintf(`[["opcode", ["&", ["=", "OP_ID", "OP_TEST_DELAY"], ["=", "duration", %d]]], ["reason", ["=~", "reason", "bunny %d"]]]`, i, n)
		if i == 9 {
			predicates = fmt.Sprintf(`[["jobid", [%q, "id", 1]]]`, op)
		}
		current = configtest.Edit(b, current, config.ConfigChange{RuleUUID: uuid, Rule: []byte(rule(uuid, i, predicates, `"PAUSE"`))})
	}
	return current
}

package filters_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	clusterconfig "lockstep/actors/config"
	"lockstep/actors/filters"
	"lockstep/actors/kittest"
	"lockstep/core/config"
	"lockstep/core/config/configtest"
	"lockstep/core/config/model"
	"lockstep/messages"
)

// BenchmarkRuleChange measures the time from a change of ten rules to the new verdicts on
// 100,000 jobs: all verdicts change, or none.
func BenchmarkRuleChange(b *testing.B) {
	const jobs = 100_000
	for name, op := range map[string]string{"all": ">=", "none": "<"} {
		b.Run(name, func(b *testing.B) {
			e := &bench{Env: kittest.New(b)}
			e.queue, e.cluster = e.Probe("queue"), e.Probe("cluster")
			pid, _, err := e.SpawnRoot(filters.Props(filters.Config{Env: e.Env.Env, Queue: e.queue.PID, ClusterConfig: e.cluster.PID}), "filters")
			require.NoError(b, err)
			e.Send(pid, &clusterconfig.Published{Config: tenRules(b, "<", 0)})
			all := &messages.EvaluateFilters{Request: 1}
			for id := range int64(jobs) {
				all.Jobs = append(all.Jobs, unfinished(id+1))
			}
			e.queue.Ask(pid, all)
			kittest.Expect[*messages.EvaluateFiltersResult](e.queue)
			n := 0
			for b.Loop() {
				n++
				e.Send(pid, &clusterconfig.Published{Config: tenRules(b, op, n)})
				e.queue.Ask(pid, &messages.EvaluateFilters{Request: 2}) // answered after the change
				kittest.Expect[*messages.EvaluateFiltersResult](e.queue)
				if op == ">=" {
					require.Len(b, kittest.Expect[*messages.VerdictsChanged](e.queue).Verdicts, jobs)
				}
			}
		})
	}
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

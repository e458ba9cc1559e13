package study

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/lock"
	"lockstep/core/opcode"
	"lockstep/sim"
	"lockstep/sim/longtest"
)

var rewrite = flag.Bool("rewrite", false, "write the golden file")

// specText formats the opcodes of a job.
func specText(ops []sim.OpSpec) string {
	words := make([]string, len(ops))
	for i, op := range ops {
		words[i] = string(op)
	}
	return "[" + strings.Join(words, "; ") + "]"
}

// planText formats a plan.
func planText(batches []batch) string {
	var b strings.Builder
	for _, x := range batches {
		for _, j := range x.jobs {
			fmt.Fprintf(&b, "%9.3f %-15s %s\n", x.at.Seconds(), j.kind, specText(j.ops))
		}
	}
	return b.String()
}

// The work of a seed must not change, because published figures are computed from it. If it
// has to change, use -rewrite.
func TestMixesAreWhatTheyWere(t *testing.T) {
	var b strings.Builder
	for _, m := range Mixes {
		fmt.Fprintf(&b, "%s: %s\n%s\n", m.Name, m.About, planText(plan(m, MixOptions{Seed: 4, Jobs: 25, Slots: 4, Nodes: 5, Load: 0.3})))
	}
	const golden = "testdata/mixes.golden"
	if *rewrite {
		require.NoError(t, os.WriteFile(golden, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), b.String())
}

func TestMixesDependOnTheSeedAlone(t *testing.T) {
	for _, m := range Mixes {
		for seed := range longtest.Times(uint64(20)) {
			o := MixOptions{Seed: seed, Jobs: 1 + int(seed)*40, Slots: 20, Nodes: 3 + int(seed), Load: 0.5}
			batches := plan(m, o)
			text := planText(batches)
			require.Equal(t, text, planText(plan(m, o)))
			o.Seed++
			require.NotEqual(t, text, planText(plan(m, o)), "%s: another seed", m.Name)
			jobs := 0
			for i, b := range batches {
				jobs += len(b.jobs)
				require.True(t, i == 0 || b.at >= batches[i-1].at, "in order")
			}
			require.Equal(t, o.Jobs, jobs)
		}
	}
}

// The predictive order depends on declared locks: every job of a mix must declare the locks
// that it will request.
func TestJobsOfMixesDeclareTheirLocks(t *testing.T) {
	catalogue := opcode.Builtin()
	for _, m := range Mixes {
		for _, b := range plan(m, MixOptions{Seed: 1, Jobs: 300, Slots: 20, Nodes: 10, Load: 0.5}) {
			for _, j := range b.jobs {
				for _, op := range j.ops {
					draft, err := catalogue.Parse(op.Encode(""))
					require.NoError(t, err)
					needs, err := catalogue.RequiredLocks(draft.Input, nil)
					require.NoError(t, err)
					declared := catalogue.Declare(draft.Input, nil)
					require.Equal(t, lock.DeclarationOf(needs.Request...), declared)
					require.Equal(t, j.kind == "big-lock", declared.BGL)
					require.True(t, declared.BGL || declared.At(lock.Instance).Kind != lock.Nothing || declared.At(lock.Node).Kind != lock.Nothing)
					if j.kind == "verify" {
						require.Equal(t, lock.AllShared, declared.At(lock.Node).Kind)
					}
				}
			}
		}
	}
}

// A plan has the same jobs as its batches, in the same order.
func TestPlansAreTheBatches(t *testing.T) {
	o := MixOptions{Seed: 1, Jobs: 300, Slots: 20, Nodes: 10, Load: 0.5}
	for _, m := range Mixes {
		p, i := NewPlan(m, o), 0
		require.Equal(t, o.Jobs, p.Len())
		for _, b := range plan(m, o) {
			for _, j := range b.jobs {
				ops := p.Job(i)
				require.Equal(t, b.at, p.At(i))
				require.Len(t, ops, len(j.ops))
				for k, op := range ops {
					require.Equal(t, j.ops[k].Encode(""), op.Input)
					require.Contains(t, string(j.ops[k]), fmt.Sprintf("run_for=%g ", op.Duration.Round(time.Millisecond).Seconds()))
				}
				i++
			}
		}
	}
}

func TestUnknownMix(t *testing.T) {
	_, err := FindMix("nosuch")
	require.ErrorContains(t, err, "operator, creation")
}

package jobs

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/limits"
	"lockstep/core/replication"
	"lockstep/core/retry"
	"lockstep/messages"
)

// featuresOf are the features that each member of a cluster must know to run jobs, and why this node cannot run them; "": it can. An older
// version would run jobs of another user than the daemon's (foreign) as its own user, jobs that may be tried again once, those that start
// at a time at once, and those with limits without.
func (c *request) featuresOf(jobs []*messages.JobDraft, foreign bool) (needed []string, refusal string) {
	if foreign {
		needed = append(needed, replication.Submitters)
	}
	if slices.ContainsFunc(jobs, mayBeTriedAgain) {
		needed = append(needed, replication.Tries)
	}
	if slices.ContainsFunc(jobs, func(draft *messages.JobDraft) bool { return draft.AtUs > 0 }) {
		needed = append(needed, replication.StartTimes)
	}
	limited, refusal := limitsOf(jobs, c.Config.About.LimitsNow)
	if limited {
		needed = append(needed, replication.Limits)
	}
	return needed, refusal
}

// limitsOf reports whether a command of the jobs has limits, and why this node cannot enforce them. What the node can is asked for once, if
// there are any.
func limitsOf(drafts []*messages.JobDraft, now func() limits.Node) (limited bool, refusal string) {
	var node limits.Node
	for _, draft := range drafts {
		for _, op := range draft.Ops {
			l, err := limits.Of(op.Input)
			if err != nil || l == (limits.Limits{}) { // Parse has refused what cannot be read
				continue
			}
			if !limited {
				limited, node = true, now()
			}
			if refusal = node.Refusal(l); refusal != "" {
				return true, refusal
			}
		}
	}
	return limited, ""
}

func mayBeTriedAgain(draft *messages.JobDraft) bool {
	return slices.ContainsFunc(draft.Ops, func(op *messages.OpDraft) bool { return retry.Of(op.Input).Times > 0 })
}

// askAllKnown calls then if all members of the cluster know these features.
func (c *request) askAllKnown(ctx actor.Context, needed []string, then func(actor.Context)) {
	if len(needed) == 0 {
		then(ctx)
		return
	}
	c.AskKnown(ctx, needed[0], func(ctx actor.Context) { c.askAllKnown(ctx, needed[1:], then) })
}

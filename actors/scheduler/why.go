package scheduler

import (
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/answer"
	"lockstep/core/job"
	"lockstep/core/lock"
	"lockstep/core/sched"
	"lockstep/messages"
)

// To tell a job's position the scheduler looks at those before it: at looksMax for one job, and at looksMost for all jobs of one
// question, which takes a few ms.
const (
	searchMax   = 5_000
	searchTotal = 50_000
)

// explainJobs tells what holds jobs back; nothing of one that the scheduler does not know.
func (s *scheduler) explainJobs(ctx actor.Context, m *messages.ExplainJobs) {
	result := &messages.ExplainJobsResult{Request: m.Request}
	search := min(searchMax, searchTotal/max(len(m.Ids), 1))
	for _, id := range m.Ids {
		result.Jobs = append(result.Jobs, &messages.JobExplanation{Id: id, Reasons: s.reasons(job.ID(id), search)})
	}
	ctx.Respond(result)
}

func (s *scheduler) reasons(id job.ID, search int) []byte {
	all := []answer.Reason{}
	if s.state != nil && s.jobs[id] != nil {
		all = append(all, s.blockReasons(s.jobs[id], search)...)
	}
	encoded, err := json.Marshal(all)
	if err != nil {
		panic(fmt.Errorf("why job %d waits cannot be encoded: %w", id, err))
	}
	return encoded
}

func (s *scheduler) blockReasons(j *scheduledJob, search int) []answer.Reason {
	var all []answer.Reason
	for _, d := range s.graph.Unmet(j.id) {
		all = append(all, answer.Reason{Kind: answer.WhyDependency, Opcode: j.op, Job: d.Job,
			Statuses: append([]string{}, d.Statuses...), Unknown: s.unknownOutcomes[job.ID(d.Job)]})
	}
	if v := j.verdict; v != nil && (v.Action == pause || v.Action == reject && !j.running) {
		all = append(all, answer.Reason{Kind: answer.WhyFilter, UUID: v.Rule, Action: v.Action, RuleReason: v.Reason, By: v.By})
	}
	w, candidate := s.state.Explain(j.id, s.config.Env.Clock().Now(), search)
	if !candidate {
		return all
	}
	for _, full := range w.FullLimits {
		all = append(all, s.limitReason(j, full))
	}
	if w.Running >= w.Slots {
		all = append(all, answer.Reason{Kind: answer.WhySlots, Slots: int64(w.Slots), Running: int64(w.Running)})
	}
	return append(all, s.orderReason(w))
}

// limitReason tells a rule's limit from one of the reason trail by its key.
func (s *scheduler) limitReason(j *scheduledJob, full sched.FullLimit) answer.Reason {
	if v := j.verdict; v != nil && full.Key == v.Rule {
		return answer.Reason{Kind: answer.WhyFilterLimit, UUID: full.Key, Limit: int64(full.N), Running: int64(full.Running), RuleReason: v.Reason, By: v.By}
	}
	return answer.Reason{Kind: answer.WhyRateLimit, Label: full.Key, Limit: int64(full.N), Running: int64(full.Running)}
}

func (s *scheduler) orderReason(w sched.Explanation) answer.Reason {
	r := answer.Reason{Kind: answer.WhyOrder, Position: int64(w.Position), Pending: int64(s.state.Len()),
		Predictive: w.Predictive, AtLeast: w.PositionIsMinimum}
	if !w.Predictive {
		return r
	}
	r.Weight, r.StaticWeight, r.AgeTicks, r.BigLock, r.Causes = w.Weight, w.StaticWeight, w.AgeTicks, w.BGL, []answer.Cause{}
	for _, c := range w.Causes {
		cause := answer.Cause{Value: c.Value, Level: c.Level.String(), How: c.ClaimKind.String(), Others: c.OtherOwners,
			Job: int64(c.Owner.Job), Owner: c.Owner.Name}
		if c.Lock != (lock.Lock{}) {
			cause.Lock = c.Lock.String()
		}
		r.Causes = append(r.Causes, cause)
	}
	return r
}

// dependencies is who waits for whose end.
func (s *scheduler) dependencies(ctx actor.Context, m *messages.ListDependencies) {
	all := []answer.JobWait{}
	for _, w := range s.graph.WaitingJobs() {
		on := []answer.AwaitedJob{}
		for _, d := range w.Unmet {
			on = append(on, answer.AwaitedJob{ID: d.Job, Statuses: append([]string{}, d.Statuses...)})
		}
		all = append(all, answer.JobWait{ID: int64(w.ID), On: on})
	}
	encoded, err := json.Marshal(all)
	if err != nil {
		panic(fmt.Errorf("the dependencies cannot be encoded: %w", err))
	}
	ctx.Respond(&messages.ListDependenciesResult{Request: m.Request, Jobs: encoded})
}

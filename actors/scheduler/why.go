package scheduler

import (
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/job"
	"lockstep/core/lock"
	"lockstep/core/sched"
	"lockstep/messages"
)

// reason is one thing that holds a job back, as a JSON object.
type reason map[string]any

// To tell a job's position the scheduler looks at those before it: at looksMax for one job, and at looksMost for all jobs of one
// question, which takes a few ms.
const (
	looksMax  = 5_000
	looksMost = 50_000
)

// why tells what holds jobs back; nothing of one that the scheduler does not know.
func (s *scheduler) why(ctx actor.Context, m *messages.AskWhy) {
	answer := &messages.Why{Request: m.Request}
	looks := min(looksMax, looksMost/max(len(m.Ids), 1))
	for _, id := range m.Ids {
		answer.Jobs = append(answer.Jobs, &messages.JobWhy{Id: id, Reasons: s.reasons(job.ID(id), looks)})
	}
	ctx.Respond(answer)
}

func (s *scheduler) reasons(id job.ID, looks int) []byte {
	all := []reason{}
	if s.state != nil && s.jobs[id] != nil {
		all = append(all, s.held(s.jobs[id], looks)...)
	}
	encoded, err := json.Marshal(all)
	if err != nil {
		panic(fmt.Errorf("why job %d waits cannot be encoded: %w", id, err))
	}
	return encoded
}

func (s *scheduler) held(j *subject, looks int) []reason {
	var all []reason
	for _, d := range s.graph.Waits(j.id) {
		statuses := d.Statuses
		if statuses == nil {
			statuses = []string{}
		}
		r := reason{"kind": "dependency", "opcode": j.op, "job": d.Job, "statuses": statuses}
		if s.unknown[job.ID(d.Job)] {
			r["unknown"] = true
		}
		all = append(all, r)
	}
	if v := j.verdict; v != nil && (v.Action == pause || v.Action == reject && !j.running) {
		all = append(all, madeBy(v, reason{"kind": "filter", "uuid": v.Rule, "action": v.Action, "reason": v.Reason}))
	}
	w, candidate := s.state.Why(j.id, s.config.Env.Clock().Now(), looks)
	if !candidate {
		return all
	}
	for _, full := range w.Full {
		all = append(all, s.limited(j, full))
	}
	if w.Running >= w.Slots {
		all = append(all, reason{"kind": "slots", "slots": w.Slots, "running": w.Running})
	}
	return append(all, s.order(w))
}

// limited tells a rule's limit from one of the reason trail by its key.
func (s *scheduler) limited(j *subject, full sched.Full) reason {
	if j.verdict != nil && full.Key == j.verdict.Rule {
		return madeBy(j.verdict, reason{"kind": "filter-limit", "uuid": full.Key, "limit": full.N, "running": full.Running, "reason": j.verdict.Reason})
	}
	return reason{"kind": "rate-limit", "label": full.Key, "limit": full.N, "running": full.Running}
}

// madeBy says of a reason that is a rule who made it, if that is known.
func madeBy(v *messages.Verdict, r reason) reason {
	if v.By != "" {
		r["by"] = v.By
	}
	return r
}

func (s *scheduler) order(w sched.Why) reason {
	r := reason{"kind": "order", "position": w.Position, "pending": s.state.Len(), "predictive": w.Predictive}
	if w.Beyond {
		r["at_least"] = true
	}
	if !w.Predictive {
		return r
	}
	causes := []reason{}
	for _, c := range w.Causes {
		cause := reason{"value": c.Value, "level": c.Level.String(), "how": c.How.String(), "others": c.Others}
		if c.Owner.Named {
			cause["owner"] = c.Owner.Name
		} else {
			cause["job"] = c.Owner.Job
		}
		if c.Lock != (lock.Lock{}) {
			cause["lock"] = c.Lock.String()
		}
		causes = append(causes, cause)
	}
	r["weight"], r["static_weight"], r["age_ticks"], r["big_lock"], r["causes"] = w.Weight, w.Static, w.AgeTicks, w.BGL, causes
	return r
}

// dependencies is who waits for whose end.
func (s *scheduler) dependencies(ctx actor.Context, m *messages.AskDependencies) {
	all := []reason{}
	for _, w := range s.graph.All() {
		on := []reason{}
		for _, d := range w.Waits {
			statuses := d.Statuses
			if statuses == nil {
				statuses = []string{}
			}
			on = append(on, reason{"id": d.Job, "statuses": statuses})
		}
		all = append(all, reason{"id": w.ID, "on": on})
	}
	encoded, err := json.Marshal(all)
	if err != nil {
		panic(fmt.Errorf("the dependencies cannot be encoded: %w", err))
	}
	ctx.Respond(&messages.Dependencies{Request: m.Request, Jobs: encoded})
}

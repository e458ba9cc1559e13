package queue

import (
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/core/job"
	"lockstep/messages"
)

// requests is which jobs came of the submissions that clients have named (see
// job.RequestSource), as long as these are in the queue. The names are in the job
// files: it survives the daemon.
type requests struct {
	jobs map[string][]int64
	name map[int64]string
}

func newRequests() requests { return requests{map[string][]int64{}, map[int64]string{}} }

func (r *requests) add(name string, id int64) {
	if name != "" {
		r.jobs[name] = append(r.jobs[name], id)
		r.name[id] = name
	}
}

// drop forgets a job that has left the queue, and with it its submission.
func (r *requests) drop(id int64) {
	if name, named := r.name[id]; named {
		delete(r.name, id)
		delete(r.jobs, name)
	}
}

func nameOf(jobs []*messages.JobDraft) string {
	if len(jobs) == 0 || len(jobs[0].Ops) == 0 {
		return ""
	}
	return job.RequestName(json.RawMessage(jobs[0].Ops[0].Input))
}

// repeated answers a submission that has come before, now or when that is
// committed; false: it has not.
func (q *queue) repeated(ctx actor.Context, sender *actor.PID, name string, m *messages.SubmitJobs) bool {
	if name == "" {
		return false
	}
	for _, list := range [][]*submission{q.incoming, q.group} {
		for _, s := range list {
			if s.name == name {
				s.also = append(s.also, asker{sender, m.Request})
				return true
			}
		}
	}
	ids, known := q.requests.jobs[name]
	if !known {
		return false
	}
	answer := &messages.JobsSubmitted{Request: m.Request, Ids: ids}
	if len(ids) != len(m.Jobs) {
		answer = &messages.JobsSubmitted{Request: m.Request, Failure: invalid(fmt.Sprintf(
			"The submission named %q was one of %d jobs, this one has %d: use a new name for each submission", name, len(ids), len(m.Jobs)))}
	}
	for i, id := range answer.Ids {
		if e := q.entries[id]; e.place == pending && q.vault[id] == nil {
			q.vault.keep(id, m.Jobs[i].Ops) // a daemon that has restarted has lost its secrets
		}
	}
	ctx.Send(sender, answer)
	return true
}

// asker is somebody who waits for a submission that was sent before.
type asker struct {
	pid     *actor.PID
	request uint64
}

// tell answers everybody who waits for a submission.
func (s *submission) tell(ctx actor.Context, ids []int64) {
	for _, a := range append([]asker{{s.sender, s.request}}, s.also...) {
		ctx.Send(a.pid, &messages.JobsSubmitted{Request: a.request, Ids: ids, Failure: s.failure})
	}
}

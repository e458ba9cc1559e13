package luxi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/locks"
	"lockstep/core/job"
	"lockstep/core/lock"
	"lockstep/core/paths"
	"lockstep/core/query"
	"lockstep/messages"
)

// reason is one thing that holds a job back, as a JSON object with a "kind".
type reason map[string]any

// decodeReasons keeps numbers as they are: ids are not to be shown as floats.
func decodeReasons(encoded []byte) (reasons []reason, err error) {
	d := json.NewDecoder(bytes.NewReader(encoded))
	d.UseNumber()
	err = d.Decode(&reasons)
	return reasons, err
}

// dependency is the job that a reason is about, which may be none that could be.
func (r reason) dependency() (id int64, is bool) {
	number, _ := r["job"].(json.Number)
	id, err := number.Int64()
	return id, err == nil && r["kind"] == "dependency" && id > 0
}

// lockstepWhy tells why a job is not running, for `lockstep why`: [id]. The
// answer is {"id", "status", "summary", "archived", "reasons": [reason]}.
func (c *connection) lockstepWhy(ctx actor.Context, args []json.RawMessage) error {
	var id jobID
	if err := arguments(args, &id); err != nil {
		return fmt.Errorf("LockstepWhy: %w", err)
	}
	c.askRows(ctx, []int64{int64(id)}, func(ctx actor.Context, rows []*messages.JobRow) {
		if row := rows[0]; row.Unknown {
			c.whyGone(ctx, int64(id))
		} else {
			c.whyInfo(ctx, row.Info)
		}
	})
	return nil
}

// askRows asks the queue for jobs.
func (c *connection) askRows(ctx actor.Context, ids []int64, answer func(actor.Context, []*messages.JobRow)) {
	c.askQueue(ctx, func(request uint64) any { return &messages.ListJobs{Request: request, Ids: ids} },
		func(ctx actor.Context, m any) {
			if a, ok := m.(*messages.JobsListed); ok && a.Request == c.request {
				answer(ctx, a.Rows)
			}
		})
}

// whyGone looks for a job in the archive.
func (c *connection) whyGone(ctx actor.Context, id int64) {
	c.again = func(actor.Context) {} // the rest is between us and the store
	number := c.request
	c.store.Read(ctx, "query-job", paths.ArchivePath(id), func(ctx actor.Context, m *messages.FileRead) {
		if number != c.request {
			return
		}
		j, err := job.Decode(m.Content)
		if m.Failure != nil || m.Missing || err != nil {
			c.fail(ctx, &messages.Failure{Class: "JobLost", Text: fmt.Sprintf("Job %d not found in queue, nor in the archive", id)})
			return
		}
		info := query.Info(j, summaryOf, nil)
		c.tellWhy(ctx, info, true, []reason{endedReason(info)})
	})
}

func (c *connection) tellWhy(ctx actor.Context, info *messages.JobInfo, archived bool, reasons any) {
	c.succeed(ctx, map[string]any{"id": info.Id, "status": query.ShownStatus(info), "summary": info.Summary, "archived": archived, "reasons": reasons})
}

func endedReason(info *messages.JobInfo) reason {
	return reason{"kind": "ended", "since_ts": stampOf(info.EndUs)}
}

func (c *connection) whyInfo(ctx actor.Context, info *messages.JobInfo) {
	if job.Status(info.Status).Final() {
		c.tellWhy(ctx, info, false, []reason{endedReason(info)})
		return
	}
	c.askWhy(ctx, []int64{info.Id}, func(ctx actor.Context, jobs []*messages.JobWhy) {
		held, err := decodeReasons(jobs[0].Reasons)
		if err != nil {
			c.fail(ctx, messages.Generic(err))
			return
		}
		switch j, err := job.Decode(info.Encoded); {
		case err == nil && j.Status() == job.Queued && isNext(held):
			c.whyNotStarted(ctx, info, held)
		case len(held) > 0 || err != nil:
			c.explain(ctx, info, held)
		case j.Status() == job.Running:
			c.tellWhy(ctx, info, false, []reason{runningReason(j)})
		default:
			c.whyLocks(ctx, info)
		}
	})
}

// isNext: nothing holds the job back but that others come first.
func isNext(held []reason) bool {
	return !slices.ContainsFunc(held, func(r reason) bool { return r["kind"] != "slots" && r["kind"] != "order" })
}

// whyNotStarted tells of a job that is being started, or is to be in its turn. That
// no process can be started comes before all else.
func (c *connection) whyNotStarted(ctx actor.Context, info *messages.JobInfo, held []reason) {
	c.withStarts(ctx, func(ctx actor.Context, trouble string) {
		switch {
		case trouble != "":
			held = slices.Insert(held, 0, reason{"kind": "cannot-start", "text": trouble})
		case len(held) == 0:
			held = []reason{{"kind": "starting"}}
		}
		c.tellWhy(ctx, info, false, held)
	})
}

func (c *connection) askWhy(ctx actor.Context, ids []int64, answer func(actor.Context, []*messages.JobWhy)) {
	c.askCore(ctx, c.config.Scheduler,
		func(request uint64) any { return &messages.AskWhy{Request: request, Ids: ids} },
		func(ctx actor.Context, m any) {
			if a, ok := m.(*messages.Why); ok && a.Request == c.request {
				answer(ctx, a.Jobs)
			}
		})
}

func runningReason(j *job.Job) reason {
	for i := range j.Ops {
		if op := &j.Ops[i]; op.Status == job.Running {
			return reason{"kind": "running", "opcode": i, "opcodes": len(j.Ops), "since_ts": stampOf(op.Exec.Sec*1e6 + op.Exec.Usec)}
		}
	}
	return reason{"kind": "running", "opcode": 0, "opcodes": len(j.Ops)}
}

// explain adds to dependencies how the jobs stand that are waited for.
func (c *connection) explain(ctx actor.Context, info *messages.JobInfo, reasons []reason) {
	var ids []int64
	for _, r := range reasons {
		if on, is := r.dependency(); is {
			ids = append(ids, on)
		}
	}
	if ids == nil {
		c.tellWhy(ctx, info, false, reasons)
		return
	}
	c.askRows(ctx, ids, func(ctx actor.Context, rows []*messages.JobRow) {
		status := map[int64]string{}
		for _, row := range rows {
			if !row.Unknown {
				status[row.Id] = query.ShownStatus(row.Info)
			}
		}
		for _, r := range reasons {
			if on, is := r.dependency(); is {
				r["job_status"] = status[on]
			}
		}
		c.tellWhy(ctx, info, false, reasons)
	})
}

// whyLocks tells what a job waits for that has begun: for locks, most likely.
func (c *connection) whyLocks(ctx actor.Context, info *messages.JobInfo) {
	c.askWaits(ctx, func(ctx actor.Context, waits []locks.Wait) {
		for _, w := range waits {
			if !w.Owner.Named && int64(w.Owner.Job) == info.Id {
				c.blamed(ctx, info, w)
				return
			}
		}
		c.tellWhy(ctx, info, false, []reason{{"kind": "starting"}})
	})
}

// blamed tells since when those have what they have who are in the way.
func (c *connection) blamed(ctx actor.Context, info *messages.JobInfo, w locks.Wait) {
	var ids []int64
	for _, b := range w.Blockers {
		if !b.Named {
			ids = append(ids, int64(b.Job))
		}
	}
	answer := func(ctx actor.Context, since map[int64]any) {
		blockers := []reason{}
		for i, b := range w.Blockers {
			one := reason{"owner": b.Name, "locks": w.Locks[i]}
			if !b.Named {
				one["job"], one["since_ts"] = b.Job, since[int64(b.Job)]
			}
			blockers = append(blockers, one)
		}
		c.tellWhy(ctx, info, false, []reason{{"kind": "lock", "locks": w.Request, "seconds": w.Seconds, "blockers": blockers}})
	}
	if ids == nil {
		answer(ctx, nil)
		return
	}
	c.askRows(ctx, ids, func(ctx actor.Context, rows []*messages.JobRow) {
		since := map[int64]any{}
		for _, row := range rows {
			if j, err := job.Decode(row.Info.GetEncoded()); err == nil && j.Status() == job.Running {
				since[row.Id] = runningReason(j)["since_ts"]
			}
		}
		answer(ctx, since)
	})
}

// pendingMax bounds the jobs of one LockstepPending.
const pendingMax = 1000

// lockstepPending tells in a few words what holds jobs back: [[id, ...]]. The
// answer is [[id, text], ...].
func (c *connection) lockstepPending(ctx actor.Context, args []json.RawMessage) error {
	var asked []jobID
	if err := arguments(args, &asked); err != nil {
		return fmt.Errorf("LockstepPending: %w", err)
	}
	if len(asked) > pendingMax {
		return fmt.Errorf("LockstepPending: %d jobs in one call, at most %d", len(asked), pendingMax)
	}
	ids := make([]int64, len(asked))
	for i, id := range asked {
		ids[i] = int64(id)
	}
	c.askWhy(ctx, ids, func(ctx actor.Context, jobs []*messages.JobWhy) {
		c.askWaits(ctx, func(ctx actor.Context, waits []locks.Wait) {
			forLocks := make(map[int64]string, len(waits))
			for _, w := range waits {
				if !w.Owner.Named {
					forLocks[int64(w.Owner.Job)] = waitShortly(w)
				}
			}
			answer := make([][2]any, len(jobs))
			for i, j := range jobs {
				text := shortly(j.Reasons)
				if text == "" {
					text = forLocks[j.Id]
				}
				answer[i] = [2]any{j.Id, text}
			}
			c.succeed(ctx, answer)
		})
	})
	return nil
}

// waitShortly is a wait for locks in a few words.
func waitShortly(w locks.Wait) string {
	for i, b := range w.Blockers {
		if len(w.Locks[i]) > 0 {
			return fmt.Sprintf("waits for %s, which %s has", w.Locks[i][0], ownerShown(b))
		}
	}
	return "waits for locks"
}

func ownerShown(o lock.Owner) string {
	if o.Named {
		return o.Name
	}
	return "job " + o.Job.String()
}

func (c *connection) askWaits(ctx actor.Context, answer func(actor.Context, []locks.Wait)) {
	c.askLocks(ctx, locks.Waits, func(ctx actor.Context, result json.RawMessage) {
		var waits []locks.Wait
		if err := json.Unmarshal(result, &waits); err != nil {
			c.fail(ctx, messages.Generic(err))
			return
		}
		answer(ctx, waits)
	})
}

// placeIn is a job's place in the order; of one that is far behind only the least that it can be is known.
func placeIn(order reason) string {
	if order["at_least"] == true {
		return fmt.Sprintf("number %v or later in order", order["position"])
	}
	return fmt.Sprintf("number %v in order", order["position"])
}

// shortly is the first reason in a few words.
func shortly(encoded []byte) string {
	reasons, err := decodeReasons(encoded)
	if err != nil || len(reasons) == 0 {
		return ""
	}
	switch r := reasons[0]; r["kind"] {
	case "dependency":
		if r["unknown"] == true {
			return fmt.Sprintf("waits for job %v, which is not known on this node", r["job"])
		}
		return fmt.Sprintf("waits for job %v", r["job"])
	case "filter":
		return fmt.Sprintf("%v by a filter rule", map[any]string{"PAUSE": "paused", "REJECT": "rejected"}[r["action"]])
	case "filter-limit", "rate-limit":
		return fmt.Sprintf("rate limit: %v of %v run", r["running"], r["limit"])
	case "slots":
		text := fmt.Sprintf("no free slot (%v of %v)", r["running"], r["slots"])
		if len(reasons) > 1 && reasons[1]["position"] != nil {
			text += ", " + placeIn(reasons[1])
		}
		return text
	case "order":
		return placeIn(r)
	default:
		return fmt.Sprint(r["kind"])
	}
}

package luxi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/locks"
	"lockstep/core/answer"
	"lockstep/core/filter"
	"lockstep/core/job"
	"lockstep/messages"
)

// whyRow is the queue's answer about a job.
func (c *core) whyRow(rows ...*messages.JobRow) {
	c.Helper()
	m := asked[*messages.ListJobs](c.client, c.queue)
	require.Len(c, m.Ids, len(rows))
	for i, row := range rows {
		require.Equal(c, m.Ids[i], row.Id)
	}
	c.Tell(&messages.ListJobsResult{Request: m.Request, Rows: rows})
}

// answerReasons is the scheduler's answer: these reasons hold each job back.
func (c *core) answerReasons(reasons ...string) {
	c.Helper()
	m := asked[*messages.ExplainJobs](c.client, c.scheduler)
	require.Len(c, m.Ids, len(reasons))
	answer := &messages.ExplainJobsResult{Request: m.Request}
	for i, id := range m.Ids {
		answer.Jobs = append(answer.Jobs, &messages.JobExplanation{Id: id, Reasons: reasonsFrom(c, reasons[i])})
	}
	c.Tell(answer)
}

// reasonsFrom builds the scheduler's reasons from those of an answer to a client.
func reasonsFrom(t require.TestingT, encoded string) []*messages.Reason {
	var list []*messages.Reason
	for _, r := range decodedAs[[]struct {
		Kind, UUID, Action, Reason, Label string
		Opcode                            int32
		Job, Limit, Running, Slots        int64
		Position, Pending                 int64
		Statuses                          []string
		Unknown                           bool
		AtLeast                           bool                 `json:"at_least"`
		BlockedBy                         []answer.LockBlocker `json:"blocked_by"`
		OtherBlockers                     int64                `json:"other_blockers"`
		Reserves                          bool
		Before                            int64 `json:"reservations_before"`
		NothingPromised                   bool  `json:"nothing_promised"`
	}](t, encoded) {
		var blockers []*messages.LockBlocker
		for _, b := range r.BlockedBy {
			blockers = append(blockers, &messages.LockBlocker{Named: b.Owner != "", Owner: b.Owner, Job: b.Job, Locks: b.Locks, Holds: b.Holds})
		}
		verdict := &messages.Verdict{Rule: r.UUID, Reason: r.Reason, Action: int32(map[string]filter.Verb{
			"PAUSE": filter.Pause, "REJECT": filter.Reject, "": filter.RateLimit}[r.Action])}
		list = append(list, map[string]*messages.Reason{
			"dependency":   {Kind: &messages.Reason_Dependency{Dependency: &messages.DependencyReason{Opcode: r.Opcode, Job: r.Job, Statuses: r.Statuses, Unknown: r.Unknown}}},
			"filter":       {Kind: &messages.Reason_Filter{Filter: verdict}},
			"filter-limit": {Kind: &messages.Reason_FilterLimit{FilterLimit: &messages.FilterLimitReason{Verdict: verdict, Limit: r.Limit, Running: r.Running}}},
			"rate-limit":   {Kind: &messages.Reason_RateLimit{RateLimit: &messages.RateLimitReason{Label: r.Label, Limit: r.Limit, Running: r.Running}}},
			"slots":        {Kind: &messages.Reason_Slots{Slots: &messages.SlotsReason{Slots: r.Slots, Running: r.Running}}},
			"order": {Kind: &messages.Reason_Order{Order: &messages.OrderReason{Position: r.Position, Pending: r.Pending, AtLeast: r.AtLeast,
				BlockedBy: blockers, OtherBlockers: r.OtherBlockers, Reserves: r.Reserves, ReservationsBefore: r.Before, NothingPromised: r.NothingPromised}}},
		}[r.Kind])
		require.NotNil(t, list[len(list)-1], "%s", r.Kind)
	}
	return list
}

const summary = `"summary": ["TEST_DELAY(1.0)"]`

// because is the answer for a job that is not final.
func because(status, reasons string) string {
	return `{"id": 7, "status": "` + status + `", ` + summary + `, "archived": false, "reasons": ` + reasons + `}`
}

func endedJob(id int64) *job.Job {
	j := someJob(id, job.Success)
	j.End = job.Timestamp{Sec: 9, Usec: 8}
	return j
}

func TestWhyOfAJobThatHasEnded(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.Call("LockstepWhy", `["7"]`)
		c.whyRow(rowOf(endedJob(7)))
		require.JSONEq(t, because("success", `[{"kind": "ended", "since_ts": [9, 8]}]`), c.succeeded())
		c.scheduler.Quiet()
	})
}

func TestWhyOfAJobInTheArchive(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.Call("LockstepWhy", `[7]`)
		c.whyRow(&messages.JobRow{Id: 7, Unknown: true})
		c.queueRestarts() // the queue has already answered
		c.storeGives("queue/archive/0/job-7", string(job.Encode(endedJob(7))))
		c.storeGives("queue/archive/0/lockstep-7", "")
		require.JSONEq(t, strings.Replace(because("success", `[{"kind": "ended", "since_ts": [9, 8]}]`), "false", "true", 1), c.succeeded())
		c.queue.Quiet()
	})
}

func TestWhyOfNoJob(t *testing.T) {
	for name, content := range map[string]string{"nowhere": "", "spoiled": "{"} {
		t.Run(name, func(t *testing.T) {
			withCore(t, func(t *testing.T, c *core) {
				c.Call("LockstepWhy", `[7]`)
				c.whyRow(&messages.JobRow{Id: 7, Unknown: true})
				c.storeGives("queue/archive/0/job-7", content)
				class, text := c.failed()
				require.Equal(t, "JobLost", class)
				require.Equal(t, "Job 7 not found in queue, nor in the archive", text)
			})
		})
	}
}

func TestWhyOfAQueuedJob(t *testing.T) {
	queued := rowOf(someJob(7, job.Queued))
	for name, c := range map[string]struct{ told, want string }{
		"it is just being started": {`[]`, `[{"kind": "starting"}]`},
		"no slot":                  {`[{"kind": "slots", "slots": 1, "running": 1}]`, `[{"kind": "slots", "slots": 1, "running": 1}]`},
		"a rule":                   {`[{"kind": "filter", "uuid": "u", "action": "PAUSE", "reason": ""}]`, `[{"kind": "filter", "uuid": "u", "action": "PAUSE", "reason": ""}]`},
		"a job that never was":     {`[{"kind": "dependency", "opcode": 0, "job": 0, "statuses": []}]`, `[{"kind": "dependency", "opcode": 0, "job": 0, "statuses": []}]`},
	} {
		t.Run(name, func(t *testing.T) {
			withCore(t, func(t *testing.T, core *core) {
				core.Call("LockstepWhy", `[7]`)
				core.whyRow(queued)
				core.answerReasons(c.told)
				require.JSONEq(t, because("queued", c.want), core.succeeded())
			})
		})
	}
}

// If no job process can be started, that is the first reason of a job that would start now.
func TestWhyNothingIsStarted(t *testing.T) {
	for name, c := range map[string]struct{ told, want string }{
		"next": {`[]`, `[{"kind": "cannot-start", "text": "no such file"}]`},
		"in its turn": {`[{"kind": "slots", "slots": 1, "running": 1}, {"kind": "order", "position": 2, "pending": 3, "predictive": false}]`,
			`[{"kind": "cannot-start", "text": "no such file"}, {"kind": "slots", "slots": 1, "running": 1}, {"kind": "order", "position": 2, "pending": 3, "predictive": false}]`},
		"held back": {`[{"kind": "filter", "uuid": "u", "action": "PAUSE", "reason": ""}]`, `[{"kind": "filter", "uuid": "u", "action": "PAUSE", "reason": ""}]`},
	} {
		t.Run(name, func(t *testing.T) {
			withCore(t, func(t *testing.T, core *core) {
				core.trouble = "no such file"
				core.Call("LockstepWhy", `[7]`)
				core.whyRow(rowOf(someJob(7, job.Queued)))
				core.answerReasons(c.told)
				require.JSONEq(t, because("queued", c.want), core.succeeded())
			})
		})
	}
}

// A dependency has the status of the other job. The status of an archived job is unknown while it is looked up.
func TestWhyOfAJobThatWaitsForOthers(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		row := rowOf(someJob(7, job.Queued))
		row.Info.Wait = messages.StartWait_FOR_JOBS
		c.Call("LockstepWhy", `[7]`)
		c.whyRow(row)
		c.answerReasons(`[{"kind": "dependency", "opcode": 0, "job": 5, "statuses": []}, {"kind": "filter", "uuid": "u", "action": "REJECT", "reason": ""}, {"kind": "dependency", "opcode": 0, "job": 6, "statuses": ["error"]}]`)
		c.whyRow(rowOf(someJob(5, job.Running)), &messages.JobRow{Id: 6, Unknown: true})
		require.JSONEq(t, because("waiting", `[{"kind": "dependency", "opcode": 0, "job": 5, "statuses": [], "job_status": "running"}, {"kind": "filter", "uuid": "u", "action": "REJECT", "reason": ""},
			{"kind": "dependency", "opcode": 0, "job": 6, "statuses": ["error"], "job_status": ""}]`), c.succeeded())
	})
}

func TestWhyOfAJobThatRuns(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		j := someJob(7, job.Running)
		j.Ops[0].Exec = job.Timestamp{Sec: 3, Usec: 4}
		c.Call("LockstepWhy", `[7]`)
		c.whyRow(rowOf(j))
		c.answerReasons(`[]`)
		require.JSONEq(t, because("running", `[{"kind": "running", "opcode": 0, "opcodes": 1, "since_ts": [3, 4]}]`), c.succeeded())
	})
}

// A rule delays the opcodes that follow. Of a job that executes its last opcode it is no reason.
func TestWhyOfAJobThatRunsWhileARulePausesIt(t *testing.T) {
	for steps, want := range map[int]string{
		1: `[{"kind": "running", "opcode": 0, "opcodes": 1, "since_ts": [3, 4]}]`,
		2: `[{"kind": "running", "opcode": 0, "opcodes": 2, "since_ts": [3, 4]}, {"kind": "filter", "uuid": "u", "action": "PAUSE", "reason": ""}]`,
	} {
		withCore(t, func(t *testing.T, c *core) {
			j := someJob(7, job.Running)
			j.Ops[0].Exec = job.Timestamp{Sec: 3, Usec: 4}
			for len(j.Ops) < steps {
				j.Ops = append(j.Ops, job.Op{Input: j.Ops[0].Input, Status: job.Queued})
			}
			c.Call("LockstepWhy", `[7]`)
			c.whyRow(rowOf(j))
			c.answerReasons(`[{"kind": "filter", "uuid": "u", "action": "PAUSE", "reason": ""}]`)
			var got struct{ Reasons json.RawMessage }
			require.NoError(t, json.Unmarshal([]byte(c.succeeded()), &got))
			require.JSONEq(t, want, string(got.Reasons))
		})
	}
}

const waitOfSeven = `{"owner": [7, "/l/7", 77], "priority": 0, "request": [["node/a", "exclusive"]], "seconds": 2.5,
	"blockers": [[8, "/l/8", 78], [9, "/l/9", 79], ["admin", "/l/a", 80]], "locks": [["node/a"], [], ["node/a"]]}`

func TestWhyOfAJobThatWaitsForLocks(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		blocker := someJob(8, job.Running)
		blocker.Ops[0].Exec = job.Timestamp{Sec: 3, Usec: 4}
		c.Call("LockstepWhy", `[7]`)
		c.whyRow(rowOf(someJob(7, job.Waiting)))
		c.answerReasons(`[]`)
		c.locksSay(locks.ListWaits{}, `[{"owner": [6, "/l/6", 76], "priority": 0, "request": [], "seconds": 1, "blockers": [], "locks": []}, `+waitOfSeven+`]`)
		c.whyRow(rowOf(blocker), &messages.JobRow{Id: 9, Unknown: true})
		require.JSONEq(t, because("waiting", `[{"kind": "lock", "locks": [["node/a", "exclusive"]], "seconds": 2.5, "blockers": [
			{"owner": "", "job": 8, "since_ts": [3, 4], "locks": ["node/a"]},
			{"owner": "", "job": 9, "since_ts": null, "locks": []},
			{"owner": "admin", "locks": ["node/a"]}]}]`), c.succeeded())
	})
}

func TestWhyOfAJobThatWaitsForSomebodyWhoIsNoJob(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.Call("LockstepWhy", `[7]`)
		c.whyRow(rowOf(someJob(7, job.Waiting)))
		c.answerReasons(`[]`)
		c.locksSay(locks.ListWaits{}, `[{"owner": [7, "/l/7", 77], "priority": 0, "request": [["node/a", "shared"]], "seconds": 0,
			"blockers": [["admin", "/l/a", 80]], "locks": [["node/a"]]}]`)
		require.JSONEq(t, because("waiting", `[{"kind": "lock", "locks": [["node/a", "shared"]], "seconds": 0, "blockers": [{"owner": "admin", "locks": ["node/a"]}]}]`), c.succeeded())
	})
}

func TestWhyOfAJobBetweenTheSteps(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.Call("LockstepWhy", `[7]`)
		c.whyRow(rowOf(someJob(7, job.Waiting)))
		c.answerReasons(`[]`)
		c.coreRestarts()
		c.locksSay(locks.ListWaits{}, `[]`)
		require.JSONEq(t, because("waiting", `[{"kind": "starting"}]`), c.succeeded())
	})
}

// Each question is sent again after a restart that can have lost it.
func TestWhyIsAskedAgain(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.Call("LockstepWhy", `[7]`)
		asked[*messages.ListJobs](c.client, c.queue)
		c.coreRestarts()
		c.queue.Quiet()
		c.queueRestarts()
		c.whyRow(rowOf(someJob(7, job.Queued)))
		asked[*messages.ExplainJobs](c.client, c.scheduler)
		c.queueRestarts()
		c.scheduler.Quiet()
		c.coreRestarts()
		c.answerReasons(`[]`)
		require.JSONEq(t, because("queued", `[{"kind": "starting"}]`), c.succeeded())
	})
}

func TestPending(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		told := map[string]string{
			`[]`: "",
			`[{"kind": "dependency", "job": 1234567}, {"kind": "dependency", "job": 8}]`:                                           "waits for job 1234567",
			`[{"kind": "dependency", "job": 8, "unknown": true}]`:                                                                  "waits for job 8, which is not known on this node",
			`[{"kind": "filter", "action": "PAUSE"}]`:                                                                              "paused by a filter rule",
			`[{"kind": "filter", "action": "REJECT"}]`:                                                                             "rejected by a filter rule",
			`[{"kind": "filter-limit", "limit": 5, "running": 6}]`:                                                                 "rate limit: 6 of 5 run",
			`[{"kind": "rate-limit", "limit": 2, "running": 2}]`:                                                                   "rate limit: 2 of 2 run",
			`[{"kind": "slots", "slots": 20, "running": 21}, {"kind": "order", "position": 1000000}]`:                              "no free slot (21 of 20), number 1000000 in order",
			`[{"kind": "slots", "slots": 20, "running": 21}]`:                                                                      "no free slot (21 of 20)",
			`[{"kind": "order", "position": 51, "at_least": true}]`:                                                                "number 51 or later in order",
			`[{"kind": "order", "position": 3}]`:                                                                                   "number 3 in order",
			`[{"kind": "order", "position": 1, "blocked_by": [{"job": 17, "locks": ["node/a"], "holds": true}]}]`:                  "waits for node/a, which job 17 has",
			`[{"kind": "order", "position": 1, "blocked_by": [{"owner": "gnt", "locks": ["node/a"]}]}]`:                            "waits for node/a, which gnt gets first",
			`[{"kind": "order", "position": 2, "reserves": true, "blocked_by": [{"job": 17, "locks": ["a"]}]}]`:                    "starts when job 17 has ended",
			`[{"kind": "order", "reserves": true, "blocked_by": [{"job": 17, "locks": ["a"]}, {"job": 23, "locks": ["a"]}]}]`:      "starts when jobs 17 and 23 have ended",
			`[{"kind": "order", "reserves": true, "other_blockers": 7, "blocked_by": [{"job": 17, "locks": ["a"]}]}]`:              "starts when jobs 17 and 7 more have ended",
			`[{"kind": "order", "reserves": true, "blocked_by": [{"job": 17, "locks": ["a"]}, {"owner": "gnt", "locks": ["a"]}]}]`: "starts when job 17 and gnt have left its locks",
			`[{"kind": "order", "position": 4, "reservations_before": 2}]`:                                                         "2 reservations are before it",
			`[{"kind": "slots", "slots": 2, "running": 2}, {"kind": "order", "reservations_before": 1, "nothing_promised": true, "blocked_by": [{"job": 17, "locks": ["a"], "holds": true}]}]`: "no free slot (2 of 2), waits for a, which job 17 has, 1 reservation is before it, nothing is promised while more urgent jobs come",
		}
		var ids, reasons, want []string
		for encoded, text := range told {
			id := len(ids) + 10
			ids, reasons = append(ids, fmt.Sprint(id)), append(reasons, encoded)
			want = append(want, fmt.Sprintf(`[%d, %q]`, id, text))
		}
		ids, reasons, want = append(ids, `"7"`), append(reasons, `[]`), append(want, `[7, "waits for node/a, which job 8 has"]`)
		c.Call("LockstepPending", `[[`+strings.Join(ids, ",")+`]]`)
		c.answerReasons(reasons...)
		c.locksSay(locks.ListWaits{}, `[`+waitOfSeven+`]`)
		require.JSONEq(t, `[`+strings.Join(want, ",")+`]`, c.succeeded())
	})
}

func TestPendingForLocks(t *testing.T) {
	for text, wait := range map[string]string{
		"waits for node/a, which admin has": `"blockers": [["admin", "/l/a", 80]], "locks": [["node/a", "node/b"]]`,
		"waits for locks":                   `"blockers": [[8, "/l/8", 78]], "locks": [[]]`,
	} {
		withCore(t, func(t *testing.T, c *core) {
			c.Call("LockstepPending", `[[7]]`)
			c.answerReasons(`[]`)
			c.locksSay(locks.ListWaits{}, `[{"owner": [7, "/l/7", 77], "priority": 0, "request": [["node/a", "shared"]], "seconds": 0, `+wait+`}]`)
			require.JSONEq(t, `[[7, "`+text+`"]]`, c.succeeded())
		})
	}
}

func TestPendingOfNone(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.Call("LockstepPending", `[[]]`)
		c.answerReasons()
		c.locksSay(locks.ListWaits{}, `[]`)
		require.JSONEq(t, `[]`, c.succeeded())
	})
}

func TestPendingOfTooMany(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.Call("LockstepPending", `[[`+strings.Repeat("1,", 1000)+`1]]`)
		_, text := c.failed()
		require.Equal(t, "Failed to parse request: LockstepPending: 1001 jobs in one call, at most 1000", text)
	})
}

package luxi_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/conn"
	"lockstep/actors/kittest"
	"lockstep/actors/luxi"
	"lockstep/core/job"
	"lockstep/core/opcode"
	"lockstep/messages"
)

// benchConn hands the answers to the benchmark.
type benchConn struct {
	to      chan *actor.PID
	answers chan []byte
}

func (c *benchConn) Serve(to *actor.PID) { c.to <- to }
func (c *benchConn) Reserve(int) bool    { return true }

func (c *benchConn) Answer(parts ...[]byte) { c.answers <- bytes.Join(parts, nil) }
func (c *benchConn) Close()                 {}

// It measures a list of jobs in memory, from the frame of the request to the frame of the answer, with a queue that
// answers at once.
func BenchmarkListJobs(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		byID := []byte(`["|"`)
		rows := make([]*messages.JobRow, n)
		for i := range rows {
			rows[i] = rowOf(someJob(int64(i+1), []job.Status{job.Success, job.Queued, job.Running}[i%3]))
			rows[i].Info.Name, rows[i].Info.User = fmt.Sprintf("nightly-%d", i%100), "uid=1000(alice)"
			rows[i].Info.Reasons = []string{"for disk 3, weekly"}
			byID = fmt.Appendf(byID, `,["==","id",%d]`, i+1)
		}
		for _, question := range []struct{ name, frame string }{
			{"QueryJobs", `{"method": "QueryJobs", "args": [null, ["id", "status", "summary"]]}`},
			{"Query", `{"method": "Query", "args": ["job", ["id", "status", "summary"], null]}`},
			{"filtered", `{"method": "Query", "args": ["job", ["id", "status", "summary"], ["|", ["==", "status", "queued"], ["==", "status", "waiting"]]]}`},
			{"LockstepListJobs", `{"method": "LockstepListJobs", "args": [{}]}`},
			{"window", `{"method": "LockstepListJobs", "args": [{"max_unfinished": 50, "max_ended": 20}]}`},
			{"name", `{"method": "LockstepListJobs", "args": [{"names": ["night*y"], "max_unfinished": 50, "max_ended": 20}]}`},
			{"user", `{"method": "LockstepListJobs", "args": [{"users": ["alice"], "max_unfinished": 50, "max_ended": 20}]}`},
			{"opcode", `{"method": "LockstepListJobs", "args": [{"opcodes": ["OP_RUN_*"], "max_unfinished": 50, "max_ended": 20}]}`},
			{"reason", `{"method": "LockstepListJobs", "args": [{"reasons": ["disk 3"], "max_unfinished": 50, "max_ended": 20}]}`},
			{"since", `{"method": "LockstepListJobs", "args": [{"since_us": 1000000, "max_unfinished": 50, "max_ended": 20}]}`},
			{"failed", `{"method": "LockstepListJobs", "args": [{"statuses": ["error"], "max_unfinished": 50, "max_ended": 20}]}`},
			{"limit", `{"method": "LockstepListJobs", "args": [{"limit": 10}]}`},
			{"by-id", `{"method": "Query", "args": ["job", ["id", "status", "summary"], ` + string(byID) + `]]}`},
		} {
			b.Run(fmt.Sprintf("%s/%d", question.name, n), func(b *testing.B) {
				e := kittest.New(b)
				queue, nobody := e.Probe("queue"), e.Probe("nobody")
				queue.Answer(func(m any) any {
					if ask, ok := m.(*messages.ListJobs); ok {
						return &messages.ListJobsResult{Request: ask.Request, Rows: pageOf(rows, ask)}
					}
					return nil
				})
				gateway, _, err := e.SpawnRoot(luxi.Props(luxi.Config{Env: e.Env, Queue: queue.PID, Store: nobody.PID, Catalogue: opcode.Builtin()}), "luxi")
				if err != nil {
					b.Fatal(err)
				}
				client := &benchConn{to: make(chan *actor.PID, 1), answers: make(chan []byte, 1)}
				e.Send(gateway, &conn.Opened{Conn: client})
				pid := <-client.to
				b.ReportAllocs()
				size := 0
				for b.Loop() {
					e.Send(pid, &conn.Received{Frame: []byte(question.frame)})
					frame := <-client.answers
					if !bytes.HasPrefix(frame, []byte(`{"success":true`)) {
						b.Fatal(string(frame))
					}
					size = len(frame)
				}
				b.ReportMetric(float64(size)/1e6, "MB/answer")
			})
		}
	}
}

// pageOf returns what the queue answers, of rows with the ids from 1.
func pageOf(rows []*messages.JobRow, ask *messages.ListJobs) []*messages.JobRow {
	limit := int(ask.Limit)
	switch {
	case len(ask.Ids) > 0:
		page := make([]*messages.JobRow, len(ask.Ids))
		for i, id := range ask.Ids {
			page[i] = rows[id-1]
		}
		return page
	case limit == 0:
		return rows
	case ask.Newest:
		if ask.Cursor > 0 {
			rows = rows[:ask.Cursor-1]
		}
		page := slices.Clone(rows[max(0, len(rows)-limit):])
		slices.Reverse(page)
		return page
	default:
		rows = rows[ask.Cursor:]
		return rows[:min(limit, len(rows))]
	}
}

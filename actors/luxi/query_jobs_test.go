package luxi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/messages"
)

// threeJobs: 1 has ended, 2 runs, 3 is queued; 4 and 10005 are in the archive.
func (w *world) threeJobs() {
	w.add(someJob(1, job.Success))
	w.add(someJob(2, job.Running))
	w.add(someJob(3, job.Queued))
	w.archive(someJob(4, job.Error))
	w.archive(someJob(10005, job.Success))
}

func TestQueriesForJobs(t *testing.T) {
	for args, want := range map[string]struct {
		cells string
		reads []string
	}{
		`["job", ["id", "status"], null]`:                                                     {`[[[0,1],[0,"success"]],[[0,2],[0,"running"]],[[0,3],[0,"queued"]]]`, nil},
		`["job", ["id", "status", "start_ts"], ["==", "status", "queued"]]`:                   {`[[[0,3],[0,"queued"],[3,null]]]`, nil},
		`["job", ["id"], ["&", [">", "id", 1], ["!", ["=", "status", "running"]]]]`:           {`[[[0,3]]]`, nil},
		`["job", ["id", "opstatus"], ["==", "id", 1]]`:                                        {`[[[0,1],[0,["success"]]]]`, []string{"queue/job-1"}},
		`["job", ["id"], ["=[]", "opstatus", "success"]]`:                                     {`[[[0,1]]]`, []string{"queue/job-1"}},
		`["job", ["id"], ["&", ["==", "status", "running"], ["=[]", "opstatus", "running"]]]`: {`[[[0,2]]]`, nil},
		// A filter on fields in memory avoids reading the files of jobs that do not match.
		`["job", ["id", "oplog"], ["!=", "status", "success"]]`: {`[[[0,2],[0,[[[1,[3,4],"message","hello"]]]]],[[0,3],[0,[[[1,[3,4],"message","hello"]]]]]]`, nil},
		// The field "archived" includes the archive; a filter on it does not.
		`["job", ["id"], ["?", "archived"]]`:             {`[]`, nil},
		`["job", ["id", "archived"], null]`:              {`[[[0,1],[0,false]],[[0,2],[0,false]],[[0,3],[0,false]],[[0,4],[0,true]],[[0,10005],[0,true]]]`, nil},
		`["job", ["id", "archived"], ["?", "archived"]]`: {`[[[0,4],[0,true]],[[0,10005],[0,true]]]`, nil},
		`["job", ["archived", "id", "status"], [">", "id", 3]]`: {`[[[0,true],[0,4],[0,"error"]],[[0,true],[0,10005],[0,"success"]]]`,
			[]string{"queue/archive/0/job-4", "queue/archive/1/job-10005"}},
		`["job", ["id", "archived"], ["==", "status", "error"]]`: {`[[[0,4],[0,true]]]`, []string{"queue/archive/0/job-4", "queue/archive/1/job-10005"}},
		// Ids are found in the queue and in the archive, in the order of the query, each once. An unknown id has a row.
		`["job", ["id", "status", "archived"], ["|", ["=", "id", 4], ["=", "id", 1], ["=", "id", 99], ["=", "id", 4]]]`: {
			`[[[0,4],[0,"error"],[0,true]],[[0,1],[0,"success"],[0,false]],[[0,99],[3,null],[3,null]]]`, []string{"queue/archive/0/job-4", "queue/archive/0/job-99"}},
		`["job", ["id", "nosuch", "opstatus"], ["=", "id", 99]]`: {`[[[0,99],[1,null],[3,null]]]`, []string{"queue/archive/0/job-99"}},
		`["job", ["id"], ["|"]]`:                                 {`[]`, nil},
		`["job", ["id"], ["==", "id", -1]]`:                      {`[]`, nil},
		`["job", [], ["<", "id", 3]]`:                            {`[[],[]]`, nil},
		`["job", ["nosuch"], null]`:                              {`[[[1,null]],[[1,null]],[[1,null]]]`, nil},
		// The fields that gnt-job list and ganeti-watcher query.
		`["job", ["id", "status", "summary"], null]`:                                                 {`[[[0,1],[0,"success"],[0,["TEST_DELAY(1.0)"]]],[[0,2],[0,"running"],[0,["TEST_DELAY(1.0)"]]],[[0,3],[0,"queued"],[0,["TEST_DELAY(1.0)"]]]]`, nil},
		`["job", ["id", "summary"], ["|", ["==", "status", "queued"], ["==", "status", "waiting"]]]`: {`[[[0,3],[0,["TEST_DELAY(1.0)"]]]]`, nil},
	} {
		inWorld(t, func(t *testing.T, w *world, c *client) {
			w.threeJobs()
			require.JSONEq(t, want.cells, c.cells(args), args)
			require.ElementsMatch(t, want.reads, w.reads, args)
		})
	}
}

// A job is archived during the query, or its file is not a job.
func TestJobsThatCannotBeRead(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, c *client) {
		w.threeJobs()
		w.files["queue/archive/0/job-4"] = "garbage"
		delete(w.files, "queue/job-1")
		require.JSONEq(t, `[[[0,1],[3,null]],[[0,2],[0,["running"]]],[[0,3],[0,["queued"]]]]`, c.cells(`["job", ["id", "opstatus"], null]`))
		require.JSONEq(t, `[[[0,4],[3,null]]]`, c.cells(`["job", ["id", "status"], ["==", "id", 4]]`))
		w.failure = messages.GenericFailure("no disk")
		require.JSONEq(t, `[[[0,10005],[3,null]]]`, c.cells(`["job", ["id", "status"], ["==", "id", 10005]]`))
	})
}

// A job moves to the archive while the queue still has it.
func TestQueriesForAJobThatMovesToTheArchive(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, c *client) {
		w.threeJobs()
		delete(w.files, "queue/job-1")
		w.archive(someJob(1, job.Success))
		require.JSONEq(t, `[[[0,1],[0,["success"]],[0,true]]]`, c.cells(`["job", ["id", "opstatus", "archived"], ["==", "id", 1]]`))
		require.JSONEq(t, `[[[0,1],[0,["success"]]],[[0,2],[0,["running"]]],[[0,3],[0,["queued"]]]]`, c.cells(`["job", ["id", "opstatus"], null]`))
		got, err := jsonOf(c.asks("QueryJobs", `[[1, 3], ["id", "opstatus"]]`))
		require.NoError(t, err)
		require.JSONEq(t, `[[1,["success"]],[3,["queued"]]]`, got)
	})
}

// What the queue said of a job without a file is older than the reads, so the queue is asked again, once.
func TestAJobWithoutAFileIsAskedForAgain(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("QueryJobs", `[[1, 2, 3], ["id", "opstatus"]]`)
		c.listed(rowOf(someJob(1, job.Success)), rowOf(someJob(2, job.Running)), rowOf(someJob(3, job.Success)))
		c.storeGives("queue/job-1", "")
		c.storeGives("queue/job-3", "")
		c.storeGives("queue/archive/0/job-1", "")
		c.storeGives("queue/archive/0/job-3", "")
		m := asked[*messages.ListJobs](c, b.queue)
		require.Equal(t, []int64{1, 3}, m.Ids)
		c.Tell(&messages.ListJobsResult{Request: m.Request, Rows: []*messages.JobRow{{Id: 1, Unknown: true}, rowOf(someJob(3, job.Success))}})
		c.storeGives("queue/archive/0/job-1", string(job.Encode(someJob(1, job.Success))))
		c.storeGives("queue/job-3", "")
		c.storeGives("queue/archive/0/job-3", "")
		require.JSONEq(t, `{"success":true,"result":[[1,["success"]],[2,["running"]],[3,null]]}`, c.Answer())
		require.Equal(t, int64(3), kittest.Expect[*messages.JobFileMissed](b.queue).Id, "the queue may forget it")
	})
}

// A filter can fail only when a file was read. The query fails as a whole, and the answers of later reads are dropped.
func TestAFilterThatFailsLate(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("Query", `["job", ["id"], ["?", "opresult"]]`)
		c.listed(rowOf(someJob(1, job.Success)), rowOf(someJob(2, job.Success)))
		c.storeGives("queue/job-1", string(job.Encode(someJob(1, job.Success))))
		require.JSONEq(t, `{"success":false,"result":["ParameterError",["filter: the field \"opresult\" is not boolean"]]}`, c.Answer())
		c.storeGives("queue/job-2", string(job.Encode(someJob(2, job.Success))))
		c.Silent()
		c.Call("PickupJob", `[1]`)
		c.Answer()
	})
}

// Files arrive in any order; rows are in the order of jobs.
func TestRowsAreInOrder(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("Query", `["job", ["id", "opstatus"], ["!=", "id", 4]]`)
		var rows []*messages.JobRow
		for id := int64(1); id <= 7; id++ {
			rows = append(rows, rowOf(someJob(id, []job.Status{job.Success, job.Running}[id%2])))
		}
		c.listed(rows...)
		var requests []*messages.AccessStore
		for _, m := range b.store.Unread() {
			requests = append(requests, m.(*messages.AccessStore))
		}
		require.Len(t, requests, 2)
		for i := len(requests) - 1; i >= 0; i-- {
			c.Silent()
			var id int64
			_, err := fmt.Sscanf(requests[i].GetRead().Path, "queue/job-%d", &id)
			require.NoError(t, err)
			c.Tell(&messages.AccessStoreResult{Request: requests[i].Request, What: &messages.AccessStoreResult_Read{
				Read: &messages.ReadFileResult{Content: job.Encode(someJob(id, job.Success))}}})
		}
		require.Contains(t, c.Answer(), `"data":[[[0,1],[0,["running"]]],[[0,2],[0,["success"]]],[[0,3],[0,["running"]]],[[0,5],[0,["running"]]],[[0,6],[0,["success"]]],[[0,7],[0,["running"]]]]`)
	})
}

func TestAClassicQueryOfTheArchive(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, c *client) {
		w.threeJobs()
		got, err := jsonOf(c.asks("QueryJobs", `[null, ["id", "archived"]]`))
		require.NoError(t, err)
		require.JSONEq(t, `[[1,false],[2,false],[3,false],[4,true],[10005,true]]`, got)
		require.Empty(t, w.reads)
		got, err = jsonOf(c.asks("QueryJobs", `[[4, "99"], ["id", "archived", "status"]]`))
		require.NoError(t, err)
		require.JSONEq(t, `[[4,true,"error"],[99,null,null]]`, got)
	})
}

// An answer for which its client has no memory becomes "too busy", and the connection stays open. A later one is not concerned.
func TestAnAnswerWithoutMemory(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, c *client) {
		for id := range int64(5) {
			j := someJob(id+1, job.Success)
			j.AppendLog(0, job.Timestamp{Sec: 5}, "message", json.RawMessage(`"`+strings.Repeat("x", 100_000)+`"`))
			w.add(j)
		}
		for _, call := range [][2]string{
			{"QueryJobs", `[null, ["id", "oplog"]]`}, {"QueryJobs", `[[1], ["oplog", "oplog", "oplog", "oplog"]]`},
			{"Query", `["job", ["id", "oplog"], null]`},
		} {
			c.Conn.SetMemory(300_000)
			c.Call(call[0], call[1])
			require.Contains(t, c.Answer(), "too busy to make this answer", call)
			c.Conn.SetMemory(0)
			c.Call(call[0], call[1])
			require.Contains(t, c.Answer(), `"success":true`, call)
		}
		require.Zero(t, c.Conn.Closes())
	})
}

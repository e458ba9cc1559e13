package luxi_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/job"
	"lockstep/messages"
)

// listed is the queue's answer to the current listing.
func (c *client) listed(rows ...*messages.JobRow) *messages.ListJobs {
	c.Helper()
	m := asked[*messages.ListJobs](c, c.queue)
	c.Tell(&messages.ListJobsResult{Request: m.Request, Rows: rows})
	return m
}

func TestQueryJobs(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("QueryJobs", `[[4962, "7"], ["id", "status", "priority", "summary", "received_ts", "start_ts"]]`)
		m := c.listed(rowOf(someJob(4962, job.Queued)), rowOf(someJob(7, job.Success)))
		require.Equal(t, []int64{4962, 7}, m.Ids)
		require.Zero(t, m.Limit)
		require.JSONEq(t, `{"success":true,"result":[[4962,"queued",0,["TEST_DELAY(1.0)"],[1,2],null],[7,"success",0,["TEST_DELAY(1.0)"],[1,2],null]]}`, c.Answer())
		b.store.Quiet()
	})
}

func TestQueryAllJobs(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("QueryJobs", `[null, ["id"]]`)
		require.Positive(t, c.listed(rowOf(someJob(1, job.Queued))).Limit)
		require.JSONEq(t, `{"success":true,"result":[[1]]}`, c.Answer())
		c.Call("QueryJobs", `[[], ["id"]]`)
		require.Zero(t, c.listed().Limit)
		require.JSONEq(t, `{"success":true,"result":[]}`, c.Answer())
	})
}

// The file of a final job is read for fields that only the file has.
func TestQueryJobsFromTheFile(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("QueryJobs", `[[1, 2], ["id", "opstatus", "oplog", "ops"]]`)
		ended := someJob(2, job.Success)
		c.listed(rowOf(someJob(1, job.Running)), rowOf(ended))
		c.Silent()
		c.storeGives("queue/job-2", string(job.Encode(ended)))
		require.JSONEq(t, `{"success":true,"result":[
			[1,["running"],[[[1,[3,4],"message","hello"]]],[{"OP_ID":"OP_TEST_DELAY","duration":1.0,"reason":[]}]],
			[2,["success"],[[[1,[3,4],"message","hello"]]],[{"OP_ID":"OP_TEST_DELAY","duration":1.0,"reason":[]}]]]}`, c.Answer())
	})
}

func TestQueryJobsThatAreNotInTheQueue(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("QueryJobs", `[[5, 30000, 6], ["id", "status", "archived"]]`)
		c.listed(&messages.JobRow{Id: 5, Unknown: true}, &messages.JobRow{Id: 30000, Unknown: true}, &messages.JobRow{Id: 6, Unknown: true})
		c.storeGives("queue/archive/0/job-5", string(job.Encode(someJob(5, job.Error))))
		c.storeGives("queue/archive/3/job-30000", "")
		c.storeGives("queue/archive/0/job-6", "not a job")
		require.JSONEq(t, `{"success":true,"result":[[5,"error",true],[30000,null,null],[6,null,null]]}`, c.Answer())
	})
}

// A listing reads at most 64 files at the same time, and its rows are in the order of the query.
func TestQueryOfManyFiles(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("QueryJobs", `[null, ["opstatus"]]`)
		var rows []*messages.JobRow
		for id := int64(1); id <= 200; id++ {
			rows = append(rows, rowOf(someJob(id, job.Success)))
		}
		c.listed(rows...)
		requests := b.store.Unread()
		require.Len(t, requests, 64)
		for i := 0; i < len(requests); i++ {
			r := requests[i].(*messages.AccessStore)
			var id int64
			_, err := fmt.Sscanf(r.GetRead().Path, "queue/job-%d", &id)
			require.NoError(t, err)
			c.Tell(&messages.AccessStoreResult{Request: r.Request, What: &messages.AccessStoreResult_Read{
				Read: &messages.ReadFileResult{Content: job.Encode(someJob(id, job.Success))}}})
			requests = append(requests, b.store.Unread()...)
		}
		require.Len(t, requests, 200)
		require.Contains(t, c.Answer(), `{"success":true,"result":[[["success"]],[["success"]],`)
	})
}

func TestTheQueueRestartsDuringAQuery(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("QueryJobs", `[[1], ["id"]]`)
		first := asked[*messages.ListJobs](c, b.queue)
		b.Send(b.luxi, &messages.QueueStarted{Incarnation: 2})
		again := asked[*messages.ListJobs](c, b.queue)
		require.EqualExportedValues(t, first, again)
		for range 2 { // both are answered
			c.Tell(&messages.ListJobsResult{Request: first.Request, Rows: []*messages.JobRow{rowOf(someJob(1, job.Queued))}})
		}
		require.JSONEq(t, `{"success":true,"result":[[1]]}`, c.Answer())
	})
}

// A restart of the queue after its answer does not affect the listing.
func TestTheQueueRestartsWhileFilesAreRead(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("QueryJobs", `[[1], ["opstatus"]]`)
		c.listed(rowOf(someJob(1, job.Success)))
		b.Send(b.luxi, &messages.QueueStarted{Incarnation: 2})
		b.queue.Quiet()
		c.Silent()
		c.storeGives("queue/job-1", string(job.Encode(someJob(1, job.Success))))
		require.JSONEq(t, `{"success":true,"result":[[["success"]]]}`, c.Answer())
	})
}

func TestTheStoreRestartsWhileFilesAreRead(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("QueryJobs", `[[1], ["opstatus"]]`)
		c.listed(rowOf(someJob(1, job.Success)))
		asked[*messages.AccessStore](c, b.store) // lost
		b.Send(b.luxi, &messages.StoreStarted{Incarnation: 2})
		c.storeGives("queue/job-1", string(job.Encode(someJob(1, job.Success))))
		require.JSONEq(t, `{"success":true,"result":[[["success"]]]}`, c.Answer())
	})
}

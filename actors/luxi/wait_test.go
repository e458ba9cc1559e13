package luxi_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/messages"
)

// wait calls WaitForJobChange for job 1 and sends the queue's answer.
func (c *client) wait(args string, j *job.Job) {
	c.Helper()
	c.Call("WaitForJobChange", args)
	m := asked[*messages.SubscribeJob](c, c.queue)
	require.Equal(c, int64(1), m.Id)
	c.Tell(&messages.SubscribeJobResult{Request: m.Request, Row: rowOf(j)})
}

func (c *client) changed(j *job.Job) {
	c.Tell(&messages.JobChanged{Info: rowOf(j).Info, Encoded: job.Encode(j)})
}

const oneEntry = `[[1,[3,4],"message","hello"]]`

// It is the table of queue.md 1.6: which calls are answered at once, and which wait.
func TestWaitForJobChange(t *testing.T) {
	for name, c := range map[string]struct {
		args   string
		status job.Status
		want   string // "": wait
	}{
		"nothing known":               {`[1, ["status"], null, null, 60]`, job.Running, `[["running"],` + oneEntry + `]`},
		"id as text":                  {`["1", ["status"], null, null, 60]`, job.Running, `[["running"],` + oneEntry + `]`},
		"nothing known, no new log":   {`[1, ["status"], null, 1, 60]`, job.Running, `[["running"],[]]`},
		"other values":                {`[1, ["status"], ["queued"], 1, 60]`, job.Running, `[["running"],[]]`},
		"same values":                 {`[1, ["status"], ["running"], 1, 60]`, job.Running, ""},
		"same values, new log":        {`[1, ["status"], ["running"], 0, 60]`, job.Running, `[["running"],` + oneEntry + `]`},
		"same values, log unknown":    {`[1, ["status"], ["running"], null, 60]`, job.Running, `[["running"],` + oneEntry + `]`},
		"same values, serial -1":      {`[1, ["status"], ["running"], -1, 60]`, job.Running, `[["running"],` + oneEntry + `]`},
		"same values as JSON":         {`[1, ["id", "received_ts"], [1.0, [1e0, 2]], 1, 60]`, job.Running, ""},
		"same objects, other order":   {`[1, ["ops"], [[{"reason": [], "duration": 1, "OP_ID": "OP_TEST_DELAY"}]], 1, 60]`, job.Running, ""},
		"more values than before":     {`[1, ["status", "id"], ["running"], 1, 60]`, job.Running, `[["running",1],[]]`},
		"unknown field, same":         {`[1, ["nosuch"], [null], 1, 60]`, job.Running, ""},
		"unknown field":               {`[1, ["nosuch"], null, 1, 60]`, job.Running, `[[null],[]]`},
		"ended, with its last values": {`[1, ["status"], ["success"], 1, 60]`, job.Success, `[["success"],[]]`},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench, cl *client) {
				cl.Call("WaitForJobChange", c.args)
				m := asked[*messages.SubscribeJob](cl, b.queue)
				j := someJob(1, c.status)
				cl.Tell(&messages.SubscribeJobResult{Request: m.Request, Row: rowOf(j)})
				if c.status.Final() {
					cl.storeGives("queue/job-1", string(job.Encode(j)))
				}
				if c.want == "" {
					cl.Silent()
					return
				}
				require.JSONEq(t, `{"success":true,"result":`+c.want+`}`, cl.Answer())
				require.Equal(t, int64(1), asked[*messages.UnsubscribeJob](cl, b.queue).Id)
			})
		})
	}
}

func TestWaitUntilSomethingChanges(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.wait(`[1, ["status"], ["running"], 1, 60]`, someJob(1, job.Running))
		c.Silent()
		c.changed(someJob(1, job.Running)) // no change that the client asks for
		c.changed(someJob(2, job.Success))
		c.Silent()
		logged := someJob(1, job.Running)
		logged.AppendLog(0, job.Timestamp{Sec: 5}, "message", []byte(`"more"`))
		c.changed(logged)
		require.JSONEq(t, `{"success":true,"result":[["running"],[[2,[5,0],"message","more"]]]}`, c.Answer())

		c.wait(`[1, ["status"], ["running"], 2, 60]`, logged)
		c.changed(someJob(1, job.Success))
		require.JSONEq(t, `{"success":true,"result":[["success"],[]]}`, c.Answer())
		c.changed(someJob(1, job.Success)) // late
		c.Silent()
	})
}

// When the time is up, the answer is the job's present state. No wait is longer than 89 seconds.
func TestWaitUntilTheTimeIsUp(t *testing.T) {
	for _, w := range []struct {
		asked string
		takes time.Duration
	}{{"1", time.Second}, {"60", time.Minute}, {"89", 89 * time.Second}, {"1000", 89 * time.Second}} {
		onBench(t, func(t *testing.T, b *bench, c *client) {
			c.wait(`[1, ["status"], ["running"], 1, `+w.asked+`]`, someJob(1, job.Running))
			b.Advance(w.takes - 1)
			c.Silent()
			b.Advance(1)
			require.JSONEq(t, `{"success":true,"result":[["running"],[]]}`, c.Answer())
			b.Advance(time.Hour)
			c.Silent()
		})
	}
}

// A timeout of 0 or less asks for the present state.
func TestWaitForNoTime(t *testing.T) {
	for _, seconds := range []string{"0", "-5"} {
		for previous, want := range map[string]string{`["running"]`: `[["running"],[]]`, `null`: `[["running"],[]]`, `["queued"]`: `[["running"],[]]`} {
			onBench(t, func(t *testing.T, b *bench, c *client) {
				c.Call("WaitForJobChange", `[1, ["status"], `+previous+`, 1, `+seconds+`]`)
				m := asked[*messages.SubscribeJob](c, b.queue)
				b.Advance(0) // before the queue has answered
				c.Silent()
				c.Tell(&messages.SubscribeJobResult{Request: m.Request, Row: rowOf(someJob(1, job.Running))})
				require.JSONEq(t, `{"success":true,"result":`+want+`}`, c.Answer())
			})
		}
	}
}

// The answer is "nochange" only if the queue never answered, as while the daemon reads its disk.
func TestWaitForAQueueThatDoesNotAnswer(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("WaitForJobChange", `[1, ["status"], null, null, 89]`)
		b.Advance(89 * time.Second)
		b.Advance(60 * time.Second)
		require.JSONEq(t, `{"success":true,"result":"nochange"}`, c.Answer())
	})
}

func TestWaitForALostJob(t *testing.T) {
	const lost = `{"success":false,"result":["JobLost",["Can't load job file"]]}`
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("WaitForJobChange", `[9, ["status"], null, null, 60]`)
		m := asked[*messages.SubscribeJob](c, b.queue)
		c.Tell(&messages.SubscribeJobResult{Request: m.Request, Row: &messages.JobRow{Id: 9, Unknown: true}})
		c.storeGives("queue/archive/0/job-9", "")
		require.JSONEq(t, lost, c.Answer())

		c.wait(`[1, ["status"], null, null, 60]`, someJob(1, job.Success))
		c.storeGives("queue/job-1", "")
		c.storeGives("queue/archive/0/job-1", "")
		m = asked[*messages.SubscribeJob](c, c.queue) // what the queue said is older than the reads
		c.Tell(&messages.SubscribeJobResult{Request: m.Request, Row: rowOf(someJob(1, job.Success))})
		c.storeGives("queue/job-1", "")
		c.storeGives("queue/archive/0/job-1", "")
		require.JSONEq(t, lost, c.Answer())
		require.Equal(t, int64(1), kittest.Expect[*messages.JobFileMissed](b.queue).Id, "the queue may forget it")
		require.False(t, c.Closed())
	})
}

// A job moves to the archive while the queue still has it, and the queue forgets it after that.
func TestAWaitForAJobThatMovesToTheArchive(t *testing.T) {
	const over = `{"success":true,"result":[["success",true],` + oneEntry + `]}`
	onBench(t, func(t *testing.T, b *bench, c *client) {
		j := someJob(1, job.Success)
		c.wait(`[1, ["status", "archived"], null, null, 60]`, j)
		c.storeGives("queue/job-1", "")
		c.storeGives("queue/archive/0/job-1", string(job.Encode(j)))
		require.JSONEq(t, over, c.Answer())
		asked[*messages.UnsubscribeJob](c, b.queue)

		c.Call("WaitForJobChange", `[1, ["status", "archived"], null, null, 60]`)
		m := asked[*messages.SubscribeJob](c, b.queue)
		c.Tell(&messages.SubscribeJobResult{Request: m.Request, Row: &messages.JobRow{Id: 1, Unknown: true}})
		c.storeGives("queue/archive/0/job-1", string(job.Encode(j)))
		require.JSONEq(t, over, c.Answer())
	})
}

// A wait without a file asks the queue again, and its time goes on.
func TestAWaitWithoutAFileAsksTheQueueAgain(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.wait(`[1, ["status"], ["running"], 1, 60]`, someJob(1, job.Success))
		b.Advance(59 * time.Second)
		c.storeGives("queue/job-1", "")
		c.storeGives("queue/archive/0/job-1", "")
		m := asked[*messages.SubscribeJob](c, b.queue)
		c.Tell(&messages.SubscribeJobResult{Request: m.Request, Row: rowOf(someJob(1, job.Running))})
		c.Silent()
		b.Advance(time.Second)
		require.JSONEq(t, `{"success":true,"result":[["running"],[]]}`, c.Answer())
	})
}

func TestTheQueueRestartsDuringAWait(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.wait(`[1, ["status"], ["running"], 1, 60]`, someJob(1, job.Running))
		b.Send(b.luxi, &messages.QueueStarted{Incarnation: 2})
		m := asked[*messages.SubscribeJob](c, b.queue)
		c.Silent()
		c.Tell(&messages.SubscribeJobResult{Request: m.Request, Row: rowOf(someJob(1, job.Running))})
		c.Silent()
		c.changed(someJob(1, job.Success))
		require.JSONEq(t, `{"success":true,"result":[["success"],[]]}`, c.Answer())
	})
}

// A restart of the queue does not extend the wait.
func TestAWaitThatIsUpWhileTheQueueRestarts(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.wait(`[1, ["status"], ["running"], 1, 60]`, someJob(1, job.Running))
		b.Advance(59 * time.Second)
		b.Send(b.luxi, &messages.QueueStarted{Incarnation: 2})
		b.Advance(time.Second)
		require.JSONEq(t, `{"success":true,"result":[["running"],[]]}`, c.Answer())
	})
}

func TestAClientThatGoesWhileItWaits(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.wait(`[1, ["status"], ["running"], 1, 60]`, someJob(1, job.Running))
		b.Send(c.Conn.Server(), closedByPeer)
		b.Settle()
		b.Advance(time.Hour)
		require.Empty(t, c.Conn.Answers())
	})
}

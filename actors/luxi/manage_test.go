package luxi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/clusterconfig"
	"lockstep/core/answer"
	"lockstep/core/job"
	"lockstep/messages"
)

// Each client order is one OrderJob, and its answer is [done, text].
func TestClientOrders(t *testing.T) {
	for _, c := range []struct {
		method, args string
		want         *messages.OrderJob
	}{
		{"CancelJob", `[7]`, &messages.OrderJob{Id: 7, Kind: messages.OrderJob_CANCEL}},
		{"CancelJob", `["7", false]`, &messages.OrderJob{Id: 7, Kind: messages.OrderJob_CANCEL}},
		{"CancelJob", `[7, true]`, &messages.OrderJob{Id: 7, Kind: messages.OrderJob_KILL}},
		{"LockstepHoldJob", `[7, true]`, &messages.OrderJob{Id: 7, Kind: messages.OrderJob_HOLD}},
		{"LockstepHoldJob", `[7, false]`, &messages.OrderJob{Id: 7, Kind: messages.OrderJob_RELEASE}},
		{"ChangeJobPriority", `[7, -20]`, &messages.OrderJob{Id: 7, Kind: messages.OrderJob_SET_PRIORITY, Priority: -20}},
	} {
		onBench(t, func(t *testing.T, b *bench, cl *client) {
			cl.Call(c.method, c.args)
			m := asked[*messages.OrderJob](cl, b.queue)
			b.Send(b.luxi, &messages.QueueStarted{Incarnation: 2})
			again := asked[*messages.OrderJob](cl, b.queue)
			require.EqualExportedValues(t, m, again)
			c.want.Request = m.Request
			require.EqualExportedValues(t, c.want, m)
			cl.Tell(&messages.OrderJobResult{Request: m.Request, Done: true, Text: "done"})
			require.JSONEq(t, `{"success":true,"result":[true,"done"]}`, cl.Answer())
		})
	}
}

// One order to several jobs is one message. It is sent again after a restart of the queue.
func TestAnOrderToSeveralJobs(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, cl *client) {
		cl.Call("LockstepOrderJobs", `["priority", [7, "8"], -20]`)
		asked[*messages.OrderJobs](cl, b.queue)
		b.Send(b.luxi, &messages.QueueStarted{Incarnation: 2})
		m := asked[*messages.OrderJobs](cl, b.queue)
		require.EqualExportedValues(t,
			&messages.OrderJobs{Request: m.Request, Ids: []int64{7, 8}, Kind: messages.OrderJob_SET_PRIORITY, Priority: -20, By: m.By}, m)
		cl.Tell(&messages.OrderJobsResult{Request: m.Request, Results: []*messages.OrderJobResult{{Done: true, Text: "a"}, {Text: "b"}}})
		require.JSONEq(t, `{"success":true,"result":[[true,"a"],[false,"b"]]}`, cl.Answer())
	})
	for _, args := range []string{`["drop", [7]]`, `["cancel", 7]`, `["cancel", null]`, `["priority", [7]]`, `["priority", [7], 20]`, `["hold", [-1]]`,
		`["cancel", [` + strings.Repeat("1,", 1000) + `1]]`} {
		onBench(t, func(t *testing.T, b *bench, cl *client) {
			cl.Call("LockstepOrderJobs", args)
			require.Contains(t, cl.Answer(), "LockstepOrderJobs: ")
			b.queue.Quiet()
		})
	}
}

// Whether a client may give an order for several jobs is asked without giving it.
func TestWhetherAnOrderIsPermitted(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, cl *client) {
		cl.Call("LockstepMayOrder", `["archive", [7, "8"]]`)
		m := asked[*messages.OrderJobs](cl, b.queue)
		require.EqualExportedValues(t,
			&messages.OrderJobs{Request: m.Request, Ids: []int64{7, 8}, Kind: messages.OrderJob_ARCHIVE, Check: true, By: m.By}, m)
		cl.Tell(&messages.OrderJobsResult{Request: m.Request})
		require.JSONEq(t, `{"success":true,"result":true}`, cl.Answer())
		cl.Call("LockstepMayOrder", `["kill", [7]]`)
		m = asked[*messages.OrderJobs](cl, b.queue)
		cl.Tell(&messages.OrderJobsResult{Request: m.Request, Refused: messages.PrereqFailure(messages.NotPermitted, "job 7 is root's")})
		require.Contains(t, cl.Answer(), "job 7 is root's")
	})
	for _, args := range []string{`["drop", [7]]`, `["cancel", 7]`, `["archive", [` + strings.Repeat("1,", 1000) + `1]]`} {
		onBench(t, func(t *testing.T, b *bench, cl *client) {
			cl.Call("LockstepMayOrder", args)
			require.Contains(t, cl.Answer(), "LockstepMayOrder: ")
			b.queue.Quiet()
		})
	}
}

// These calls are answered without the queue.
func TestOrdersThatTheGatewayRefuses(t *testing.T) {
	for _, c := range []struct{ method, args, want string }{
		{"ChangeJobPriority", `[7, -21]`, `[false,"Priority -21 is not between -20 and 19"]`},
		{"ChangeJobPriority", `[7, 20]`, `[false,"Priority 20 is not between -20 and 19"]`},
		{"ArchiveJob", `[0]`, `false`},
	} {
		onBench(t, func(t *testing.T, b *bench, cl *client) {
			cl.Call(c.method, c.args)
			require.JSONEq(t, `{"success":true,"result":`+c.want+`}`, cl.Answer())
			b.queue.Quiet()
		})
	}
}

func TestArchive(t *testing.T) {
	failure := &messages.Failure{Class: "GenericError", Text: "disk"}
	for _, c := range []struct {
		method, args string
		asked        *messages.ArchiveJobs
		answer       *messages.ArchiveJobsResult
		want         string
	}{
		{"ArchiveJob", `[7]`, &messages.ArchiveJobs{Id: 7}, &messages.ArchiveJobsResult{Archived: 1}, `{"success":true,"result":true}`},
		{"ArchiveJob", `[7]`, &messages.ArchiveJobs{Id: 7}, &messages.ArchiveJobsResult{}, `{"success":true,"result":false}`},
		{"AutoArchiveJobs", `[-1, 30]`, &messages.ArchiveJobs{AgeS: -1, TimeoutS: 30}, &messages.ArchiveJobsResult{Archived: 3, Remaining: 2}, `{"success":true,"result":[3,2]}`},
		{"AutoArchiveJobs", `[9, 30]`, &messages.ArchiveJobs{AgeS: 9, TimeoutS: 30}, &messages.ArchiveJobsResult{Archived: 3, Failure: failure},
			`{"success":false,"result":["GenericError",["3 jobs were archived; of the others, the first could not be: disk"]]}`},
	} {
		onBench(t, func(t *testing.T, b *bench, cl *client) {
			cl.Call(c.method, c.args)
			m := asked[*messages.ArchiveJobs](cl, b.queue)
			c.asked.Request, c.answer.Request = m.Request, m.Request
			require.EqualExportedValues(t, c.asked, m)
			cl.Tell(c.answer)
			require.JSONEq(t, c.want, cl.Answer())
		})
	}
}

func TestSetDrainFlag(t *testing.T) {
	for want, failure := range map[string]*messages.Failure{
		`{"success":true,"result":true}`:                       nil,
		`{"success":false,"result":["GenericError",["disk"]]}`: {Class: "GenericError", Text: "disk"},
	} {
		onBench(t, func(t *testing.T, b *bench, c *client) {
			c.Call("SetDrainFlag", `[true]`)
			m := asked[*messages.SetDrain](c, b.queue)
			require.True(t, m.Drained)
			c.Tell(&messages.SetDrainResult{Request: m.Request, Failure: failure})
			require.JSONEq(t, want, c.Answer())
		})
	}
}

// The status is collected from the queue, the configuration, the nodes and the jobs.
func TestStatus(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.configured(7, "")
		c.trouble = "no such program"
		c.Call("LockstepStatus", `[]`)
		m := asked[*messages.GetQueueStatus](c.client, c.queue)
		active := rowOf(someJob(5, job.Running)).Info
		active.Progress = &messages.CommandProgress{Percent: 40, Text: "copying"}
		c.Tell(&messages.GetQueueStatusResult{Request: m.Request, Serial: 12, Drained: true,
			Jobs: map[int32]int64{int32(job.Running): 1}, Active: []*messages.JobInfo{active}})
		asks := asked[*clusterconfig.CheckForeign](c.client, c.cluster)
		c.Tell(&clusterconfig.CheckForeignResult{Request: asks.Request, Foreign: messages.ConfigurationFailure("adopt or discard")})
		slots := asked[*messages.GetRunSlots](c.client, c.scheduler)
		c.Tell(&messages.GetRunSlotsResult{Request: slots.Request, Taken: 3})
		var got struct {
			Cluster string
			LastID  int64 `json:"last_id"`
			Drained bool
			Jobs    map[string]int64
			Running []answer.RunningJob
			Slots   int `json:"run_slots_taken"`
			Nodes   any
		}
		text := c.succeeded()
		require.NoError(t, json.Unmarshal([]byte(text), &got))
		require.Equal(t, "demo", got.Cluster)
		require.Equal(t, int64(12), got.LastID)
		require.True(t, got.Drained)
		require.Equal(t, map[string]int64{"running": 1}, got.Jobs)
		require.Equal(t, int64(5), got.Running[0].ID)
		require.Equal(t, "copying", got.Running[0].Progress.Text)
		require.Equal(t, 3, got.Slots)
		require.Nil(t, got.Nodes, "the daemon belongs to no cluster")
		require.Contains(t, text, "no such program")
		require.Contains(t, text, `"foreign_config":"adopt or discard"`)
	})
}

package luxi_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/conn"
	"lockstep/messages"
)

// The texts are those of a real server, with three exceptions: the opcodes' "reason" is optional, the texts about
// arguments of the wrong form differ, and some texts say more.
func TestWhatIsNotARequest(t *testing.T) {
	for frame, text := range map[string]string{
		`hello`:                 `parsing top-level JSON message: Invalid JSON: a JSON text a serialized object or array at the top level.`,
		``:                      `parsing top-level JSON message: Invalid JSON: a JSON text a serialized object or array at the top level.`,
		`{}`:                    `key 'method' not found, object contains only []`,
		"{\"method\":\"\xff\"}": `key 'args' not found, object contains only ["method"]`,
		`{"method": "Nope", "args": [], "version": 3000000}`:                                                                    `Unable to parse LUXI request method: Invalid string value for type LuxiReq: "Nope"`,
		`{"method": "QueryJobs", "args": {}, "version": 3000000}`:                                                               `Cannot convert value '{}', error: Unable to read Pair`,
		`{"method": "QueryJobs", "args": []}`:                                                                                   `QueryJobs: 0 arguments, expected 2`,
		`{"method": "QueryJobs", "args": [["x"], ["status"]]}`:                                                                  `QueryJobs: argument 1: "x" is not a job id`,
		`{"method": "QueryJobs", "args": [[-1], ["status"]]}`:                                                                   `QueryJobs: argument 1: -1 is not a job id`,
		`{"method": "QueryJobs", "args": [[1.5], ["status"]]}`:                                                                  `QueryJobs: argument 1: 1.5 is not a job id`,
		`{"method": "QueryJobs", "args": [[1], "status"]}`:                                                                      `QueryJobs: argument 2: a string is not what belongs here`,
		`{"method": "WaitForJobChange", "args": [1, ["status"], null, null]}`:                                                   `WaitForJobChange: 4 arguments, expected 5`,
		`{"method": "WaitForJobChange", "args": [1, ["status"], null, null, 1.5]}`:                                              `WaitForJobChange: argument 5: a number 1.5 is not what belongs here`,
		`{"method": "SubmitJob", "args": []}`:                                                                                   `SubmitJob: 0 arguments, expected 1`,
		`{"method": "SubmitJob", "args": [7]}`:                                                                                  `SubmitJob: argument 1: a number is not what belongs here`,
		`{"method": "SubmitJob", "args": [[{"OP_ID": "OP_NO_SUCH", "reason": []}]]}`:                                            `SubmitJob: Unknown opcode OP_NO_SUCH`,
		`{"method": "SubmitJob", "args": [[{"OP_ID": "OP_TEST_DELAY", "duration": "x", "reason": []}]]}`:                        `SubmitJob: Can't parse value for 'duration': Unable to read Double: want a number (in the range of a double), found a string`,
		`{"method": "SubmitJob", "args": [[{"OP_ID": "OP_TEST_DELAY", "reason": []}]]}`:                                         `SubmitJob: key 'duration' not found, object contains only ["OP_ID","reason"]`,
		`{"method": "SubmitJob", "args": [[{"OP_ID": "OP_TEST_DELAY", "duration": 1, "priority": -99, "reason": []}]]}`:         `SubmitJob: Can't parse value for 'priority': Invalid string value for type OpSubmitPriority: -99: want -10 (high), 0 (normal) or 10 (low), found -99`,
		`{"method": "SubmitJob", "args": [[{"OP_ID": "OP_TEST_DELAY", "duration": 1, "reason": []}, {"OP_ID": "OP_NO_SUCH"}]]}`: `SubmitJob: Unknown opcode OP_NO_SUCH, in opcode 2 of 2`,
		`{"method": "SubmitManyJobs", "args": [[[{"OP_ID": "OP_TEST_DELAY", "duration": 1}], [{"OP_ID": "OP_NO_SUCH"}]]]}`:      `SubmitManyJobs: Unknown opcode OP_NO_SUCH, in job 2 of 2`,
		`{"method": "SubmitJobToDrainedQueue", "args": [[], 1]}`:                                                                `SubmitJobToDrainedQueue: 2 arguments, expected 1`,
		`{"method": "LockstepReportJob", "args": [1]}`:                                                                          `LockstepReportJob: 1 arguments, expected 3`,
		`{"method": "LockstepBeginOpcode", "args": [1, "l", "0"]}`:                                                              `LockstepBeginOpcode: argument 3: a string is not what belongs here`,
	} {
		onBench(t, func(t *testing.T, b *bench, c *client) {
			c.Tell(&conn.Received{Frame: []byte(frame), From: c.From})
			answer := c.Answer()
			want, err := jsonOf(map[string]any{"success": false, "result": "Failed to parse request: " + text})
			require.NoError(t, err)
			require.JSONEq(t, want, answer, "%s", frame)
			require.True(t, c.Closed())
			b.queue.Quiet()
			b.jobs.Quiet()
		})
	}
}

func TestAFrameThatIsTooLarge(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Tell(&conn.Refused{Err: errors.New("frame is larger than 10 bytes")})
		require.JSONEq(t, `{"success":false,"result":"Failed to parse request: frame is larger than 10 bytes"}`, c.Answer())
		require.True(t, c.Closed())
	})
}

func TestAnErrorKeepsTheConnection(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		for range 2 {
			c.Call("PickupJob", `[1]`)
			require.JSONEq(t, `{"success":false,"result":["GenericError",["Luxi call 'PickupJob' is for internal use only"]]}`, c.Answer())
		}
		require.False(t, c.Closed())
	})
}

func TestUnknownFields(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("QueryJobs", `[[4962], ["id", "nosuch", "nor this"]]`)
		require.JSONEq(t, `{"success":false,"result":["OpPrereqError",["Unknown output fields selected: nosuch, nor this","wrong_input"]]}`, c.Answer())
		require.False(t, c.Closed())
		b.queue.Quiet()
	})
}

func TestConnectionsAreIndependent(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		other := b.connect()
		c.Call("Nope", `[]`)
		require.True(t, c.Closed())
		other.Call("PickupJob", `[1]`)
		other.Answer()
		require.False(t, other.Closed())
	})
}

func TestAClientThatIsGone(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("SubmitJob", `[[`+delay+`]]`)
		m := asked[*messages.SubmitJobs](c, b.queue)
		c.Tell(&conn.Closed{})
		require.True(t, c.Closed())
		dead := b.DeadLetters()
		b.queue.Ask(c.Conn.Server(), &messages.SubmitJobsResult{Request: m.Request, Ids: []int64{1}})
		b.Settle()
		require.Equal(t, dead+1, b.DeadLetters())
		require.Empty(t, c.Conn.Answers())
	})
}

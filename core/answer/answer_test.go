package answer_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
	"lockstep/core/wire"
)

// The bytes for clients must not change: keys, their order, omitted values and null.
func TestBytesOnTheWire(t *testing.T) {
	since, known, none := answer.TimeOf(9_000_008), "running", ""
	for want, value := range map[string]any{
		`null`:    answer.TimeOf(0),
		`[9,8]`:   since,
		`[7,"x"]`: answer.PendingReason{ID: 7, Text: "x"},
		`{"between_tries":3,"cannot_start":"","cannot_write":[{"job":7,"by":"process","text":"t","since_ts":[9,8]}],"cluster":"c","data_dir":"/d","drained":false,"foreign_config":"","guarded":true,"jobs":{"running":1},"last_id":7,"marked":2,"master":"m","members_are_root":false,"nodes":null,"not_due":4,"pid":5,` +
			`"quarantined":[],"queued_with_secrets":0,"retention":{"archive_after":0,"archived":0,"keep_last":0,"remove_archived_after":0},"run_slots":20,"run_slots_taken":1,"running":[{"id":7,"name":"","priority":0,"start_ts":null,"status":"queued",` +
			`"summary":["A"]}],"schedules":null,"started_ts":[9,8],"version":"v"}`: answer.QueueStatus{Cluster: "c", DataDir: "/d", Guarded: true,
			CannotWrite: []answer.CannotWrite{{Job: 7, By: answer.ByProcess, Text: "t", Since: answer.TimeOf(9_000_008)}}, Jobs: map[string]int64{"running": 1},
			BetweenTries: 3, NotDue: 4, LastID: 7, Marked: 2, Master: "m", PID: 5, Quarantined: []string{}, RunSlots: 20, SlotsTaken: 1, Started: since, Version: "v",
			Running: []answer.RunningJob{{ID: 7, Status: "queued", Summary: []string{"A"}}}},
		`{"count":1,"jobs":[7],"uuid":"u"}`:                       answer.FilterReplaced{Count: 1, Jobs: []int64{7}, UUID: "u"},
		`{"self":"a","master":"","master_address":"","nodes":[]}`: answer.Nodes{Self: "a", Nodes: []answer.Node{}},
		`{"jobs":[],"locks":[{"name":"a","owners":[],"pending":[]}],"waits":null}`: answer.Locks{Jobs: []answer.JobWait{},
			Locks: []answer.Lock{{Name: "a", Owners: []string{}, Pending: []answer.LockWaiter{}}}},
		`[7,"/l",5]`:               answer.LockOwner{Who: answer.Principal{Job: 7}, Livelock: "/l", PID: 5},
		`["7","/l",5]`:             answer.LockOwner{Who: answer.Principal{Named: true, Name: "7"}, Livelock: "/l", PID: 5},
		`["node/\u00e4","shared"]`: answer.LockItem{Lock: "node/ä", Mode: "shared"},
		`{"job":1,"kind":"dependency","opcode":0,"statuses":[]}`: answer.Reason{Kind: answer.WhyDependency, Job: 1, Statuses: []string{}},
		`{"job":1,"job_status":"running","kind":"dependency","opcode":2,"statuses":["error"],"unknown":true}`: answer.Reason{
			Kind: answer.WhyDependency, Job: 1, Opcode: 2, Statuses: []string{"error"}, Unknown: true, JobStatus: &known},
		`{"job":1,"job_status":"","kind":"dependency","opcode":0,"statuses":null}`: answer.Reason{Kind: answer.WhyDependency, Job: 1, JobStatus: &none},
		`{"action":"PAUSE","kind":"filter","reason":"a <b>","uuid":"u"}`: answer.Reason{
			Kind: answer.WhyFilter, UUID: "u", Action: "PAUSE", RuleReason: "a <b>"},
		`{"by":"ada","kind":"filter-limit","limit":2,"reason":"","running":1,"uuid":"u"}`: answer.Reason{
			Kind: answer.WhyFilterLimit, UUID: "u", Limit: 2, Running: 1, By: "ada"},
		`{"kind":"rate-limit","label":"l","limit":2,"running":1}`:      answer.Reason{Kind: answer.WhyRateLimit, Label: "l", Limit: 2, Running: 1},
		`{"kind":"slots","running":1,"slots":2}`:                       answer.Reason{Kind: answer.WhySlots, Slots: 2, Running: 1},
		`{"kind":"order","pending":3,"position":2,"predictive":false}`: answer.Reason{Kind: answer.WhyOrder, Position: 2, Pending: 3},
		`{"age_ticks":4,"at_least":true,"big_lock":false,"causes":[{"how":"holds","job":1,"level":"node","lock":"node/a","others":0,"value":3},` +
			`{"how":"waits","level":"node","others":1,"owner":"o","value":0.5}],"kind":"order","pending":3,"position":2,"predictive":true,` +
			`"static_weight":4,"weight":2.5}`: answer.Reason{Kind: answer.WhyOrder, Position: 2, Pending: 3, AtLeast: true, Predictive: true,
			AgeTicks: 4, StaticWeight: 4, Weight: 2.5, Causes: []answer.Cause{
				{Job: 1, Lock: "node/a", Value: 3, Level: "node", How: "holds"}, {Owner: "o", Value: 0.5, Level: "node", How: "waits", Others: 1}}},
		`{"blockers":[{"job":1,"locks":["node/a"],"owner":"","since_ts":[9,8]},{"locks":[],"owner":"o"}],"kind":"lock",` +
			`"locks":[["node/a","shared"]],"seconds":1.5}`: answer.Reason{Kind: answer.WhyLock, Locks: []answer.LockItem{{Lock: "node/a", Mode: "shared"}},
			Seconds: 1.5, Blockers: []answer.Blocker{{Job: 1, Since: since, Locks: []string{"node/a"}}, {Owner: "o", Locks: []string{}}}},
		`{"kind":"starting"}`:                                        answer.Reason{Kind: answer.WhyStarting},
		`{"kind":"cannot-start","text":"t"}`:                         answer.Reason{Kind: answer.WhyCannotStart, Text: "t"},
		`{"kind":"running","opcode":1,"opcodes":2,"since_ts":[9,8]}`: answer.Reason{Kind: answer.WhyRunning, Opcode: 1, Opcodes: 2, Since: &since},
		`{"kind":"running","opcode":0,"opcodes":2}`:                  answer.Reason{Kind: answer.WhyRunning, Opcodes: 2},
		`{"kind":"ended","since_ts":null}`:                           answer.Reason{Kind: answer.WhyEnded},
		`{"archived":true,"id":7,"reasons":[],"status":"success","summary":["A"]}`: answer.Why{Archived: true, ID: 7,
			Reasons: []answer.Reason{}, Status: "success", Summary: []string{"A"}},
	} {
		frame, err := wire.EncodeResult(value)
		require.NoError(t, err)
		require.Equal(t, `{"success":true,"result":`+want+`}`, string(frame))
	}
}

// A decoded reason encodes to the same bytes.
func TestReasonsAreReadAndWritten(t *testing.T) {
	for _, text := range []string{
		`{"job":1,"job_status":"","kind":"dependency","opcode":0,"statuses":[]}`,
		`{"age_ticks":4,"big_lock":true,"causes":[],"kind":"order","pending":3,"position":2,"predictive":true,"static_weight":4,"weight":10.666666666666666}`,
		`{"blockers":[{"job":1,"locks":[],"owner":"","since_ts":null}],"kind":"lock","locks":[],"seconds":0.25}`,
	} {
		var r answer.Reason
		require.NoError(t, json.Unmarshal([]byte(text), &r))
		written, err := json.Marshal(r)
		require.NoError(t, err)
		require.Equal(t, text, string(written))
	}
	var moon answer.Reason
	require.NoError(t, json.Unmarshal([]byte(`{"kind":"moon","job":"x"}`), &moon))
	require.Equal(t, answer.Reason{Kind: "moon", Raw: json.RawMessage(`{"kind":"moon","job":"x"}`)}, moon)
	require.ErrorContains(t, json.Unmarshal([]byte(`{"kind":"slots","slots":"x"}`), &moon), "a reason: ")
}

func TestTimes(t *testing.T) {
	var read answer.Time
	require.NoError(t, json.Unmarshal([]byte(`[9,8]`), &read))
	require.True(t, time.Unix(9, 8000).Equal(read.Time))
	require.NoError(t, json.Unmarshal([]byte(`null`), &read))
	require.True(t, read.IsZero())
	require.EqualError(t, read.UnmarshalJSON([]byte(`[1]`)), "timestamp [1] has 1 parts")
}

// Metrics count a job that waits for locks without a process as queued.
func TestCountedJobs(t *testing.T) {
	s := answer.QueueStatus{Jobs: map[string]int64{"queued": 1, "waiting": 5, "running": 2}, Marked: 3}
	require.Equal(t, []int64{4, 2, 2, 0}, []int64{s.Counted("queued"), s.Counted("waiting"), s.Counted("running"), s.Counted("error")})
}

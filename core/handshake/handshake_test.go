package handshake

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/job"
)

func TestTheStartHandshake(t *testing.T) {
	var s Attempt
	require.Equal(t, Save, s.LivelockNamed())
	require.False(t, s.MayAct())
	require.Equal(t, Confirm, s.NameSaved())
	require.True(t, s.MayAct(), "permission on its way is as good as given")
	s.Confirmed()
	require.Equal(t, Running, s.Phase())
	require.Equal(t, Finalize, s.Gone("exit status 0"))
	require.Empty(t, s.StartFailure())
}

func TestAStartThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		events func(*Attempt) Action
		do     Action
		reason string
	}{
		"spawn fails":             {func(s *Attempt) Action { return s.Failed("no such file") }, Abandon, "no such file"},
		"write fails":             {func(s *Attempt) Action { s.LivelockNamed(); return s.Failed("disk full") }, Abandon, "disk full"},
		"dies before it is named": {func(s *Attempt) Action { return s.Gone("killed") }, Finalize, "killed"},
		"dies while it is saved":  {func(s *Attempt) Action { s.LivelockNamed(); return s.Gone("killed") }, Finalize, "killed"},
		"pipe breaks, then gone": {func(s *Attempt) Action { s.LivelockNamed(); s.Failed("pipe"); return s.Gone("exit status 1") },
			Finalize, "pipe"},
		"pipe breaks after permission": {func(s *Attempt) Action { s.LivelockNamed(); s.NameSaved(); return s.Failed("pipe") }, NoAction, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var s Attempt
			require.Equal(t, c.do, c.events(&s))
			require.Equal(t, c.reason, s.StartFailure())
		})
	}
}

// In any order of events the permission is given at most once, only after the name was saved, and never after a failure.
func TestPermissionIsGivenOnceAndOnlyForADurableName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Attempt
		saved, confirms, settles, failed := false, 0, 0, false
		for range rapid.IntRange(1, 20).Draw(t, "events") {
			before := s.Phase()
			var do Action
			switch rapid.IntRange(0, 5).Draw(t, "event") {
			case 0:
				do = s.LivelockNamed()
			case 1:
				do = s.NameSaved()
				saved = saved || before == Saving
			case 2:
				s.Confirmed()
			case 3:
				do = s.Failed("broken")
				failed = failed || do == Abandon
			case 4:
				do = s.Gone("gone")
			case 5:
				do = s.CallOff()
				failed = failed || do == Abandon
				require.Equal(t, before == Spawning || before == Saving, do == Abandon)
			}
			switch do {
			case Confirm:
				confirms++
				require.True(t, saved)
				require.False(t, failed)
			case Finalize:
				settles++
			}
			require.GreaterOrEqual(t, s.Phase(), before)
		}
		require.False(t, s.CalledOff() && confirms > 0)
		require.LessOrEqual(t, confirms, 1)
		require.LessOrEqual(t, settles, 1)
	})
}

func TestWhatAProcessLeavesBehind(t *testing.T) {
	now := job.Timestamp{Sec: 9}
	fresh := func() *job.Job {
		in := json.RawMessage(`{"OP_ID": "OP_TEST_DELAY", "reason": []}`)
		return job.New(5, []json.RawMessage{in, in}, []int{0, 0}, job.Timestamp{Sec: 1}, "")
	}

	j := fresh()
	j.Ops[0].Status = job.Success
	j.Ops[1].Status = job.Running
	require.True(t, FinalizeJob(j, Death{Exit: "ended by SIGKILL"}, now))
	require.Equal(t, job.Success, j.Ops[0].Status, "what had succeeded keeps its success")
	require.Equal(t, job.Error, j.Ops[1].Status)
	require.JSONEq(t, `"detected death of job 5: ended by SIGKILL"`, string(j.Ops[1].Result))
	require.Contains(t, string(j.Ops[1].Input), "gnt:daemon:luxid:deathdetection")
	require.Equal(t, now, j.End)

	j = fresh()
	require.True(t, FinalizeJob(j, Death{StartFailure: "no such file"}, now))
	require.JSONEq(t, `"job 5 failed to start: no such file"`, string(j.Ops[0].Result))
	require.Contains(t, string(j.Ops[0].Input), "gnt:daemon:luxid:startjobs")

	require.False(t, FinalizeJob(j, Death{}, now), "a final job is left alone")
}

// What the command of a dead process has used is in the result of its opcode, or of its try, and in that of no other opcode.
func TestWhatTheCommandOfADeadProcessHasUsed(t *testing.T) {
	in := json.RawMessage(`{"OP_ID": "OP_RUN_COMMAND", "retry": 1}`)
	running := func() *job.Job {
		j := job.New(5, []json.RawMessage{in, in}, []int{0, 0}, job.Timestamp{Sec: 1}, "")
		j.Ops[0].Status = job.Running
		return j
	}
	d := Death{Exit: "ended by SIGKILL", Used: UsedOf([]byte(`{"cpu_seconds": 2.5}`), 0)}
	j := running()
	require.True(t, FinalizeJob(j, d, job.Timestamp{Sec: 9}))
	require.JSONEq(t, `["OpExecError", ["detected death of job 5: ended by SIGKILL", {"usage": {"cpu_seconds": 2.5}}]]`, string(j.Ops[0].Result))
	require.JSONEq(t, `"detected death of job 5: ended by SIGKILL"`, string(j.Ops[1].Result))
	j = running()
	EndTry(j, d, job.Timestamp{Sec: 9})
	require.Equal(t, &job.Usage{CPUSeconds: 2.5}, job.UsageIn(j.Ops[0].Result))
	d.Used = UsedOf([]byte(`{"cpu_seconds": 2.5}`), 1)
	j = running()
	require.True(t, FinalizeJob(j, d, job.Timestamp{Sec: 9}))
	require.Nil(t, job.UsageIn(j.Ops[0].Result), "of a command that is not that of the opcode")
}

// A process that dies while a command may run leaves a note about its output; others leave none.
func TestADeadProcessLeavesANoteAboutTheOutput(t *testing.T) {
	now := job.Timestamp{Sec: 9}
	after := func(id string, first job.Status, d Death) *job.Job {
		j := job.New(5, []json.RawMessage{json.RawMessage(`{"OP_ID": "OP_TEST_DELAY"}`), json.RawMessage(`{"OP_ID": "` + id + `"}`)},
			[]int{0, 0}, job.Timestamp{Sec: 1}, "")
		j.Ops[0].Status = first
		require.True(t, FinalizeJob(j, d, now))
		return j
	}
	for _, id := range []string{"OP_RUN_COMMAND", "OP_SITE_DRAIN"} {
		log := after(id, job.Success, Death{Exit: "ended by SIGKILL"}).Ops[1].Log
		require.Equal(t, []job.LogEntry{{Serial: 1, Time: now, Type: job.LogCut, Payload: json.RawMessage("null")}}, log)
		log = after(id, job.Success, Death{GanetiLog: true}).Ops[1].Log
		require.Equal(t, []job.LogEntry{{Serial: 1, Time: now, Type: job.LogMessage, Payload: json.RawMessage(`"[output-cut] null"`)}}, log)
	}
	for _, j := range []*job.Job{
		after("OP_TEST_DELAY", job.Success, Death{}), after("OP_INSTANCE_CREATE", job.Success, Death{}),
		after("OP_RUN_COMMAND", job.Queued, Death{}), after("OP_RUN_COMMAND", job.Success, Death{StartFailure: "no such file"}),
	} {
		require.Empty(t, j.Ops[0].Log)
		require.Empty(t, j.Ops[1].Log)
	}
}

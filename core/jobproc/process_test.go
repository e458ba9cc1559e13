package jobproc

import (
	"encoding/json"
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/job"
	"lockstep/core/lock"
	"lockstep/core/rawjson"
	"lockstep/core/wire"
)

// rig drives a Process step by step. The test decides what its disk and its daemon do.
type rig struct {
	complaints []string
	t          require.TestingT
	p          *Process
	now        time.Time
	// the calls and writes that the shell would have under way
	calls     map[Line]Call
	write     *FileWrite
	preparing bool
	executing bool
	locks     []lock.Item
	ended     *End

	written  []FileWrite // that have succeeded
	reported []json.RawMessage
}

func newRig(t require.TestingT, ops int, specs ...LaunchSpec) *rig {
	p, err := NewProcess(newJob(ops), specs, Identity{Livelock: "livelock", Pid: 5, ReportSizeMax: ReportSizeMax})
	require.NoError(t, err)
	r := &rig{t: t, p: p, now: time.Unix(1000, 0), calls: map[Line]Call{}}
	r.do(p.Start(r.now))
	return r
}

func (r *rig) do(a Actions) {
	require.Nil(r.t, r.ended, "nothing follows the end")
	for _, c := range a.Calls {
		r.calls[c.Line] = c
	}
	require.False(r.t, a.Prepare && a.Execute)
	require.False(r.t, (a.Prepare || a.Execute) && (r.preparing || r.executing), "one opcode at a time")
	r.preparing = r.preparing || a.Prepare
	r.executing = r.executing || a.Execute
	if a.Execute {
		r.locks = a.Locks
	}
	if a.Write != nil {
		require.Nil(r.t, r.write, "one write at a time")
		r.write = a.Write
	}
	r.ended = a.End
	r.complaints = append(r.complaints, a.Complaints...)
}

func (r *rig) disk(err error) {
	require.NotNil(r.t, r.write)
	if err == nil {
		r.written = append(r.written, *r.write)
	}
	r.write = nil
	r.do(r.p.Written(r.now, err))
}

func (r *rig) answer(line Line, result string, err error) {
	c, under := r.calls[line]
	require.True(r.t, under, "no call is under way")
	delete(r.calls, line)
	if line == ReportLine && err == nil {
		r.reported = append(r.reported, c.Args[2].(json.RawMessage))
	}
	r.do(r.p.Answered(r.now, line, c.Number, json.RawMessage(result), err))
}

func (r *rig) executed(o Outcome) {
	require.True(r.t, r.executing)
	r.executing = false
	r.do(r.p.Executed(r.now, o))
}

func (r *rig) prepared(err error) {
	require.True(r.t, r.preparing)
	r.preparing = false
	r.do(r.p.Prepared(r.now, err))
}

// tick moves the time to the deadline.
func (r *rig) tick() (passed time.Duration) {
	deadline := r.p.Deadline()
	require.False(r.t, deadline.IsZero())
	passed = deadline.Sub(r.now)
	r.now = deadline
	r.do(r.p.Tick(r.now))
	return passed
}

var (
	errAway      = errors.New("no daemon answers")
	errNotMaster = &wire.Error{Class: "NotMaster"}
	nodeLock     = LaunchSpec{RequiredLocks: lock.RequiredLocks{Request: lock.Request{exclusiveLock("node/a")}}}
)

func exclusiveLock(name string) lock.Item {
	l, err := lock.ParseLock(name)
	if err != nil {
		panic(err)
	}
	return lock.Item{Lock: l, Mode: lock.Exclusive}
}

const granted = `{"Granted": true}`

func TestAProcessFromStartToEnd(t *testing.T) {
	r := newRig(t, 2)
	require.True(t, r.executing, "the confirmation is the permission")
	require.Equal(t, visibleDelay, r.tick())
	require.False(t, r.write.Durable)
	r.disk(nil)
	require.Equal(t, "LockstepReportJob", r.calls[ReportLine].Method)

	r.executed(Outcome{})
	r.disk(nil)
	require.Empty(t, r.calls[PermissionLine], "the daemon does not know yet that the former opcode has ended")
	r.answer(ReportLine, "null", nil)
	r.answer(ReportLine, "null", nil)
	require.Equal(t, []any{int64(7), "livelock", 1}, r.calls[PermissionLine].Args)
	r.answer(PermissionLine, "null", nil)
	require.True(t, r.executing)
	r.executed(Outcome{})
	require.True(t, r.write.Durable)
	require.Nil(t, r.ended)
	r.disk(nil)
	require.Equal(t, &End{}, r.ended)
	require.Len(t, r.reported, 2, "the end of the process reports the end of the job")
}

func TestADaemonIsAskedAgain(t *testing.T) {
	const ms = time.Millisecond
	r := newRig(t, 2)
	r.executed(Outcome{})
	r.disk(nil)
	for _, want := range []time.Duration{50 * ms, 100 * ms, 200 * ms, 400 * ms, 800 * ms, 1000 * ms, 1000 * ms} {
		r.answer(ReportLine, "", errNotMaster)
		require.Equal(t, want, r.tick())
	}
	r.do(r.p.PriorityChanged(r.now, 5))
	r.disk(nil)
	r.answer(ReportLine, "", errAway)
	r.tick()
	require.Equal(t, string(r.written[1].Content), string(r.calls[ReportLine].Args[2].(json.RawMessage)), "the newest content is reported")
	r.answer(ReportLine, "", &wire.Error{Class: "GenericError"})
	require.Contains(t, r.calls, PermissionLine, "a refused report is not repeated")

	r.answer(PermissionLine, "", errAway)
	require.Equal(t, 50*ms, r.tick())
	r.answer(PermissionLine, "", &wire.Error{Class: "JobLost"})
	require.Equal(t, time.Second, r.tick(), "the daemon may not have adopted the process yet")
	r.answer(PermissionLine, `{"canceled": true, "text": "because"}`, nil)
	r.disk(nil)
	require.Equal(t, &End{}, r.ended)
	require.Equal(t, job.Canceled, r.p.Job().Ops[1].Status)
}

func TestAReportDoesNotWaitForAPermission(t *testing.T) {
	r := newRig(t, 2)
	r.executed(Outcome{})
	r.disk(nil)
	r.answer(ReportLine, "null", nil)
	require.Contains(t, r.calls, PermissionLine)
	r.do(r.p.PriorityChanged(r.now, 5))
	r.disk(nil)
	require.Contains(t, r.calls, ReportLine)
	r.answer(ReportLine, "null", nil)
	require.Contains(t, r.calls, PermissionLine)
}

func TestALargeFileIsReportedWithoutItsContent(t *testing.T) {
	r := newRig(t, 1)
	r.p.reports.sizeMax = 10
	r.tick()
	r.disk(nil)
	r.answer(ReportLine, "null", nil)
	require.Equal(t, []json.RawMessage{json.RawMessage("null")}, r.reported)
}

func TestLocksAreTakenAndReleased(t *testing.T) {
	r := newRig(t, 2, nodeLock)
	require.True(t, r.preparing)
	r.prepared(nil)
	require.Equal(t, "lockstepAwaitLocks", r.calls[LockLine].Method)
	r.answer(LockLine, "", errNotMaster)
	require.Nil(t, r.p.Locks())
	r.tick() // the write of the start
	r.disk(nil)
	r.tick()
	r.answer(LockLine, granted, nil)
	require.True(t, r.executing)
	require.Len(t, r.locks, 1)
	require.Equal(t, r.locks, r.p.Locks())
	r.executed(Outcome{})
	r.disk(nil)
	require.Equal(t, "freeLocks", r.calls[LockLine].Method)
	require.Nil(t, r.p.Locks())
	r.answer(ReportLine, "null", nil)
	r.answer(ReportLine, "null", nil)
	require.NotContains(t, r.calls, PermissionLine, "the locks are not released yet")
	r.answer(LockLine, "", errAway)
	require.Equal(t, 50*time.Millisecond, r.tick())
	r.answer(LockLine, "null", nil)
	require.Contains(t, r.calls, PermissionLine)
}

func TestARefusalOfLocksFailsTheOpcode(t *testing.T) {
	for what, answer := range map[string]struct {
		result string
		err    error
	}{
		"refused":                   {"", &wire.Error{Class: "GenericError", Args: []json.RawMessage{json.RawMessage(`"a text"`)}}},
		"the request is wrong":      {"", &wire.RequestError{Text: "a text"}},
		"the answer cannot be read": {`"a text"`, nil},
	} {
		r := newRig(t, 1, nodeLock)
		r.prepared(nil)
		r.answer(LockLine, answer.result, answer.err)
		r.disk(nil)
		require.Contains(t, string(r.p.Job().Ops[0].Result), "The locks cannot be taken: ", what)
		require.Equal(t, "freeLocks", r.calls[LockLine].Method)
		require.Equal(t, releaseTimeout, r.tick(), "the daemon frees the locks of an ended process")
		require.Equal(t, &End{}, r.ended)
	}
}

func TestAWithdrawnRequestAsksForPermissionAgain(t *testing.T) {
	r := newRig(t, 1, nodeLock)
	r.tick()
	r.disk(nil)
	r.answer(ReportLine, "null", nil)
	r.prepared(nil)
	r.answer(LockLine, `{"Withdrawn": true}`, nil)
	require.Equal(t, "freeLocks", r.calls[LockLine].Method)
	r.answer(LockLine, "null", nil)
	require.Contains(t, r.calls, PermissionLine)
	r.answer(PermissionLine, "null", nil)
	require.True(t, r.preparing)
}

func TestAnotherPriorityRepeatsTheRequestForLocks(t *testing.T) {
	r := newRig(t, 1, nodeLock)
	r.prepared(nil)
	first := r.calls[LockLine]
	r.do(r.p.PriorityChanged(r.now, -9))
	second := r.calls[LockLine]
	require.Equal(t, -9, second.Args[1])
	r.disk(nil)
	r.do(r.p.Answered(r.now, LockLine, first.Number, json.RawMessage(granted), nil))
	require.False(t, r.executing, "the answer to a replaced call is dropped")
	r.answer(LockLine, granted, nil)
	require.True(t, r.executing)
}

func TestAPreparationThatFails(t *testing.T) {
	r := newRig(t, 1, nodeLock)
	r.do(r.p.Logged(r.now, []LogEntry{{Kind: "message", Payload: rawjson.Quote("x")}}))
	r.prepared(errors.New("no client"))
	r.disk(nil)
	require.JSONEq(t, `["OpPrereqError", ["no client"]]`, string(r.p.Job().Ops[0].Result))
	require.Equal(t, &End{}, r.ended, "no locks are held")
}

func TestACancelWhileLocksAreAwaited(t *testing.T) {
	r := newRig(t, 1, nodeLock)
	r.prepared(nil)
	call := r.calls[LockLine]
	r.do(r.p.CancelRequested(r.now))
	r.do(r.p.Answered(r.now, LockLine, call.Number, json.RawMessage(granted), nil))
	r.disk(nil)
	require.Equal(t, "freeLocks", r.calls[LockLine].Method)
	r.answer(LockLine, "null", nil)
	require.Equal(t, &End{}, r.ended)
	require.Equal(t, job.Canceled, r.p.Job().Status())
}

func TestAKillEndsTheOpcodeAndTheJob(t *testing.T) {
	r := newRig(t, 2)
	a := r.p.KillRequested(r.now)
	require.True(t, a.EndOpcode)
	r.do(a)
	r.disk(nil)
	r.executed(Outcome{}) // the opcode ends before the request reaches it
	r.disk(nil)
	require.True(t, r.write.Durable)
	r.disk(nil)
	require.Equal(t, []job.Status{job.Success, job.Canceled}, []job.Status{r.p.Job().Ops[0].Status, r.p.Job().Ops[1].Status})
	require.Equal(t, &End{}, r.ended)
}

// While a write is repeated, events are held, and their order stays.
func TestEventsWaitForAWrite(t *testing.T) {
	r := newRig(t, 2)
	r.executed(Outcome{})
	require.False(t, r.p.AcceptsOutput())
	r.do(r.p.PriorityChanged(r.now, 3))
	r.do(r.p.CancelRequested(r.now))
	require.Equal(t, 0, r.p.Job().Ops[1].Priority)
	for _, want := range []time.Duration{100, 200, 400, 800, 1600, 3200, 5000, 5000} {
		content := string(r.write.Content)
		r.disk(errors.New("no space"))
		require.False(t, r.p.IsResting())
		require.Equal(t, want*time.Millisecond, r.tick())
		require.Equal(t, content, string(r.write.Content))
	}
	r.disk(nil)
	require.Equal(t, 3, r.p.Job().Ops[1].Priority)
	require.Equal(t, job.Waiting, r.p.Job().Ops[1].Status, "the write of the priority comes first")
	r.disk(nil)
	r.disk(nil)
	require.Equal(t, &End{}, r.ended)
	require.Equal(t, job.Canceled, r.p.Job().Ops[1].Status)
}

func TestALostQueueEndsTheProcess(t *testing.T) {
	missing := &QueueMissingError{Err: errors.New("not found")}
	t.Run("after a minute", func(t *testing.T) {
		r := newRig(t, 2)
		r.tick()
		start := r.now
		for r.disk(missing); r.p.stage == working; r.disk(missing) {
			r.tick()
		}
		require.GreaterOrEqual(t, r.now.Sub(start), queueLossMax)
		require.Nil(t, r.ended, "the opcode has to end first")
		require.True(t, r.p.AcceptsOutput())
		require.Zero(t, r.p.Deadline())
		r.do(r.p.Logged(r.now, []LogEntry{{Kind: "message", Payload: rawjson.Quote("x")}}))
		r.do(r.p.Answered(r.now, ReportLine, 1, nil, nil))
		r.executed(Outcome{})
		require.Equal(t, &End{Abandoned: true}, r.ended)
	})
	t.Run("while the process waits for its daemon", func(t *testing.T) {
		for _, line := range []Line{PermissionLine, ReportLine, LockLine} {
			r := newRig(t, 2, LaunchSpec{}, nodeLock)
			r.tick()
			r.disk(nil)
			r.answer(ReportLine, "null", nil)
			r.executed(Outcome{})
			r.disk(nil)
			if line != ReportLine {
				r.answer(ReportLine, "null", nil)
			}
			if line == LockLine {
				r.answer(PermissionLine, "null", nil)
				for !r.preparing {
					if r.write == nil {
						r.tick()
					}
					r.disk(nil)
				}
				r.prepared(nil)
			}
			start, probes := r.now, 0
			for r.ended == nil { // data and run directory are gone for ever
				for _, l := range []Line{PermissionLine, ReportLine, LockLine} {
					if _, under := r.calls[l]; under {
						r.answer(l, "", errAway)
					}
				}
				if r.write != nil {
					probes++
					r.disk(missing)
				}
				if r.ended == nil {
					r.tick()
				}
				require.Less(t, r.now.Sub(start), queueProbe+2*queueLossMax)
			}
			require.True(t, r.ended.Abandoned)
			require.Positive(t, probes)
		}
	})
	t.Run("not while the directory is there", func(t *testing.T) {
		r := newRig(t, 2)
		r.tick()
		r.disk(nil)
		r.answer(ReportLine, "null", nil)
		r.executed(Outcome{})
		r.disk(nil)
		r.answer(ReportLine, "null", nil)
		before := len(r.written)
		for start := r.now; r.now.Sub(start) < time.Hour; {
			for _, l := range []Line{PermissionLine, ReportLine} {
				if _, under := r.calls[l]; under {
					r.answer(l, "", errAway)
				}
			}
			if r.write != nil {
				r.disk(nil)
			} else {
				r.tick()
			}
		}
		require.Nil(t, r.ended)
		require.InDelta(t, 60, len(r.written)-before, 10)
	})
	t.Run("on a cancel, when no opcode executes", func(t *testing.T) {
		r := newRig(t, 2)
		r.executed(Outcome{})
		r.disk(missing)
		r.do(r.p.CancelRequested(r.now))
		require.Equal(t, &End{Abandoned: true}, r.ended)
	})
	t.Run("on a cancel that came before", func(t *testing.T) {
		r := newRig(t, 2)
		r.executed(Outcome{})
		r.do(r.p.CancelRequested(r.now))
		r.disk(errors.New("no space"))
		r.tick()
		r.disk(missing)
		require.Equal(t, &End{Abandoned: true}, r.ended)
	})
	t.Run("during an attempt", func(t *testing.T) {
		r := newRig(t, 2)
		r.executed(Outcome{})
		r.disk(missing)
		r.tick()
		r.do(r.p.CancelRequested(r.now))
		require.Nil(t, r.ended, "the attempt may succeed")
		r.disk(missing)
		require.Equal(t, &End{Abandoned: true}, r.ended)
	})
	t.Run("not while an opcode executes", func(t *testing.T) {
		r := newRig(t, 2)
		r.tick()
		r.disk(missing)
		r.do(r.p.CancelRequested(r.now))
		require.Nil(t, r.ended)
	})
}

// In any order of events, each opcode executes at most once and with its locks, the last write is the only
// durable one, and the job ends when daemon, disk and opcodes do their part.
func TestEveryProcessEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		specs := rapid.SliceOfN(rapid.SampledFrom([]LaunchSpec{{}, nodeLock}), 1, 4).Draw(t, "specs")
		r := newRig(t, len(specs), specs...)
		executions := 0
		count := func() {
			if r.executing {
				require.Equal(t, specs[r.p.CurrentOp()].RequiredLocks.NotEmpty(), len(r.locks) > 0)
			}
		}
		for step := 0; r.ended == nil; step++ {
			require.Less(t, step, 5000, "the job does not end")
			troubled := step < 60
			count()
			choices := []string{}
			add := func(possible bool, name string) {
				if possible {
					choices = append(choices, name)
				}
			}
			add(r.write != nil, "disk")
			for _, line := range []Line{ReportLine, PermissionLine, LockLine} {
				_, under := r.calls[line]
				add(under, "answer"+string(rune('0'+line)))
			}
			add(r.preparing, "prepared")
			add(r.executing, "executed")
			add(r.executing && troubled, "log")
			add(!r.p.Deadline().IsZero(), "tick")
			add(troubled && step > 20, "priority")
			add(troubled && step > 40, "cancel")
			add(troubled && step > 40, "kill")
			require.NotEmpty(t, choices, "nothing can happen")
			var err error
			if troubled && rapid.IntRange(0, 2).Draw(t, "trouble") == 0 {
				err = errAway
			}
			switch choice := rapid.SampledFrom(choices).Draw(t, "event"); choice {
			case "disk":
				r.disk(err)
			case "answer0":
				r.answer(ReportLine, "null", err)
			case "answer1":
				r.answer(PermissionLine, "null", err)
			case "answer2":
				r.answer(LockLine, granted, err)
			case "prepared":
				r.prepared(nil)
			case "executed":
				executions++
				r.executed(Outcome{Failed: err != nil})
			case "log":
				r.do(r.p.Logged(r.now, []LogEntry{{Kind: "message", Payload: rawjson.Quote("x")}}))
			case "tick":
				r.tick()
			case "priority":
				r.do(r.p.PriorityChanged(r.now, 7))
			case "cancel":
				r.do(r.p.CancelRequested(r.now))
			case "kill":
				r.do(r.p.KillRequested(r.now))
			}
		}
		require.LessOrEqual(t, executions, len(specs))
		require.Equal(t, &End{}, r.ended)
		require.True(t, r.p.Job().Status().Final())
		last := len(r.written) - 1
		require.Equal(t, last, slices.IndexFunc(r.written, func(w FileWrite) bool { return w.Durable }))
		require.Equal(t, string(job.Encode(r.p.Job())), string(r.written[last].Content))
	})
}

func TestAJobThatHasBegunGetsNoProcess(t *testing.T) {
	j := newJob(1)
	j.Ops[0].Status = job.Running
	_, err := NewProcess(j, nil, Identity{})
	require.ErrorContains(t, err, "has begun before")
}

func TestWhichAnswersOfADaemonCount(t *testing.T) {
	require.True(t, QueryDecided(nil))
	for class, decided := range map[string]bool{"GenericError": true, "JobLost": true, "OpPrereqError": true, "NotMaster": false, "SomethingNew": false} {
		require.Equal(t, decided, QueryDecided(&wire.Error{Class: class}), class)
	}
	require.True(t, QueryDecided(&wire.RequestError{}))
	require.False(t, QueryDecided(errAway))
}

// A write that fails is reported at each attempt, with the first failure's time and with content that is not delivered yet,
// and complained about once. A report of content ends it.
func TestAFailingWriteIsReported(t *testing.T) {
	r := newRig(t, 1)
	r.tick()
	r.disk(nil)
	undelivered := r.calls[ReportLine].Args[2]
	r.executed(Outcome{})
	began := r.now
	full := errors.New("run-job: write queue/job-1: no space left on device")
	for range 3 {
		r.disk(full)
		r.tick()
	}
	require.Len(t, r.complaints, 1)
	r.answer(ReportLine, "", errAway)
	for r.calls[ReportLine].Args == nil {
		if r.write != nil {
			r.disk(full)
		}
		r.tick()
	}
	report := r.calls[ReportLine].Args
	require.Len(t, report, 4)
	require.Equal(t, undelivered, report[2], "the daemon has not got it yet")
	require.Equal(t, &Condition{WriteFailure: WriteFailure{Error: full.Error(), SinceUS: began.UnixMicro()}}, report[3])
	r.answer(ReportLine, "null", nil)
	if r.write == nil {
		r.tick()
	}
	r.disk(full)
	require.Equal(t, json.RawMessage("null"), r.calls[ReportLine].Args[2], "the file is as it was")
	r.tick()
	r.disk(nil)
	require.Len(t, r.complaints, 2)
	require.Contains(t, r.complaints[1], "written again")
	require.NotNil(t, r.ended)
}

// The file of an ended job may be archived as soon as it is replaced: a repeated write says so.
func TestTheRepeatedWriteOfAnEndedJobSaysSo(t *testing.T) {
	unsynced := &UnsyncedError{syscall.EIO}
	r := newRig(t, 1)
	r.tick()
	r.disk(unsynced)
	r.tick()
	require.False(t, r.write.Ended, "the job runs")
	r.disk(nil)
	r.answer(ReportLine, "null", nil)
	r.executed(Outcome{})
	r.disk(syscall.ENOSPC)
	r.tick()
	require.False(t, r.write.Ended, "the file was not replaced")
	r.disk(unsynced)
	r.tick()
	require.True(t, r.write.Ended)
	r.disk(nil)
	require.NotNil(t, r.ended)
}

package scheduler_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/actors/scheduler"
	"lockstep/core/job"
	"lockstep/core/opcode"
	"lockstep/core/paths"
	"lockstep/messages"
)

// durationsStore is a store with the file of durations only.
type durationsStore struct {
	*kittest.Probe
	content     string
	writes      int
	quarantined bool
	fails       bool
	blocked     bool                  // writes get no answer yet
	open        *messages.AccessStore // the write without an answer
}

func newDurationsStore(e *kittest.Env, content string) *durationsStore {
	s := &durationsStore{Probe: e.Probe("store"), content: content}
	s.Answer(func(m any) any {
		switch m := m.(type) {
		case *messages.AnnounceStore:
			return &messages.StoreStarted{Incarnation: 1}
		case *messages.AccessStore:
			return s.access(m)
		}
		return nil
	})
	return s
}

func (s *durationsStore) access(m *messages.AccessStore) any {
	switch {
	case m.GetRead() != nil:
		return &messages.AccessStoreResult{Request: m.Request, What: &messages.AccessStoreResult_Read{
			Read: &messages.ReadFileResult{Content: []byte(s.content), Missing: s.content == ""}}}
	case m.GetQuarantine() != nil:
		s.quarantined = true
		return nil
	}
	s.writes++
	if s.blocked {
		s.open = m
		return nil
	}
	return s.written(m)
}

// written carries a write out and answers it.
func (s *durationsStore) written(m *messages.AccessStore) any {
	result := &messages.ChangeFilesResult{}
	for _, f := range m.GetWrite().Files {
		if s.fails {
			result.Failures = append(result.Failures, &messages.FileFailure{Path: f.Path, Failure: &messages.Failure{Text: "no space"}})
		} else if f.Path == paths.DurationsPath {
			s.content = string(f.Content)
		}
	}
	return &messages.AccessStoreResult{Request: m.Request, What: &messages.AccessStoreResult_Files{Files: result}}
}

// kinds are the kinds in the file.
func (s *durationsStore) kinds(t *testing.T) []string {
	var f struct{ Kinds []struct{ Kind string } }
	require.NoError(t, json.Unmarshal([]byte(s.content), &f))
	var kinds []string
	for _, k := range f.Kinds {
		kinds = append(kinds, k.Kind)
	}
	return kinds
}

// onDurations runs a test with a scheduler in the order expected with one slot, which knows of no jobs.
func onDurations(t *testing.T, content string, f func(*testing.T, *bench, *durationsStore)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		s := newDurationsStore(e, content)
		b := &bench{T: t, Env: e, queue: e.Probe("queue"), locks: e.Probe("locks"), cluster: e.Probe("clusterconfig"),
			process: e.Probe("process"), config: configOf(1, `{"order": "expected"}`)}
		b.cluster.Answer(func(any) any { return b.config })
		b.scheduler = e.Start("scheduler", scheduler.Props(scheduler.Config{Env: e.Env, Store: s.PID, Queue: b.queue.PID,
			Locks: b.locks.PID, ClusterConfig: b.cluster.PID, Catalogue: opcode.Builtin()}))
		b.answerJobsRequest(nil, nil)
		f(t, b, s)
	})
}

func command(program string) string {
	return fmt.Sprintf(`{"OP_ID": "OP_RUN_COMMAND", "argv": ["%s"]}`, program)
}

// endAfter reports the end of a job that has executed one program for so many seconds.
func (b *bench) endAfter(id int64, program string, seconds int64) {
	j := newJob(id, command(program))
	op := &j.Ops[0]
	op.Status, op.Exec, op.End = job.Success, job.Timestamp{Sec: 1_704_067_200}, job.Timestamp{Sec: 1_704_067_200 + seconds}
	b.send(&messages.JobReleased{Id: id, Ended: true, Status: int32(job.Success), Encoded: kittest.Unfinished(j).Encoded})
	b.Settle()
}

// What is learned is written at most once a minute, as one file, through the store: in a cluster that is an ordinary entry.
func TestDurationsAreWrittenAtMostOnceAMinute(t *testing.T) {
	onDurations(t, "", func(t *testing.T, b *bench, s *durationsStore) {
		b.endAfter(1, "/bin/one", 3)
		b.Advance(59 * time.Second)
		b.endAfter(2, "two", 5)
		require.Zero(t, s.writes)
		b.Advance(time.Second)
		require.Equal(t, 1, s.writes)
		require.Equal(t, []string{"OP_RUN_COMMAND one", "OP_RUN_COMMAND two"}, s.kinds(t))
		b.Advance(time.Hour)
		require.Equal(t, 1, s.writes, "nothing was learned")
		for i := range int64(600) {
			b.endAfter(10+i, "one", 3)
			b.Advance(time.Second)
		}
		require.Equal(t, 11, s.writes)
	})
}

// A write that fails is repeated a minute later, although nothing else was learned.
func TestAFailedWriteOfDurationsIsRepeated(t *testing.T) {
	onDurations(t, "", func(t *testing.T, b *bench, s *durationsStore) {
		s.fails = true
		b.endAfter(1, "one", 3)
		b.Advance(time.Minute)
		require.Equal(t, 1, s.writes)
		require.Empty(t, s.content)
		s.fails = false
		b.Advance(time.Minute)
		require.Equal(t, []string{"OP_RUN_COMMAND one"}, s.kinds(t))
	})
}

// At the hand-over everything is written before the answer, also what was learned during a write.
func TestDurationsAreWrittenAtTheHandOver(t *testing.T) {
	onDurations(t, "", func(t *testing.T, b *bench, s *durationsStore) {
		daemon := b.Probe("daemon")
		s.blocked = true
		b.endAfter(1, "one", 3)
		daemon.Ask(b.scheduler, &messages.Drain{})
		b.Settle()
		require.Equal(t, 1, s.writes, "at once")
		b.endAfter(2, "two", 3)
		daemon.Quiet()
		s.blocked = false
		s.Ask(b.scheduler, s.written(s.open))
		b.Settle()
		kittest.Expect[*messages.DrainResult](daemon)
		require.Equal(t, []string{"OP_RUN_COMMAND one", "OP_RUN_COMMAND two"}, s.kinds(t))
	})
}

// A crash loses what was learned since the last write: the order is that of the file, and nothing else changes.
func TestACrashLosesTheLastMinuteOfDurations(t *testing.T) {
	onDurations(t, "", func(t *testing.T, b *bench, s *durationsStore) {
		b.endAfter(1, "slow", 3600)
		b.endAfter(2, "fast", 1)
		b.Advance(time.Minute)
		for i := range int64(32) {
			b.endAfter(10+i, "slow", 1)
			b.endAfter(50+i, "fast", 3600)
		}
		b.Restart(b.scheduler)
		b.Advance(kittest.Backoff)
		b.answerJobsRequest(nil, all(unfinished(101, command("slow")), unfinished(102, command("fast"))))
		require.Equal(t, []int64{102}, b.takePicked(), "fast was fast when the file was written")
	})
}

// Jobs of one program are told from each other by their names without digits, also by a scheduler that has the durations from the file.
func TestDurationsAreLearnedByName(t *testing.T) {
	named := func(id int64, name string) *messages.UnfinishedJob {
		w := unfinished(id, command("sh"))
		w.Name = fmt.Sprintf("%s-%d", name, id)
		return w
	}
	onDurations(t, "", func(t *testing.T, b *bench, s *durationsStore) {
		for id := range int64(6) {
			name, seconds := "check", int64(1)
			if id%2 > 0 {
				name, seconds = "backup", 3600
			}
			b.add(named(id+1, name))
			require.Equal(t, []int64{id + 1}, b.takePicked())
			b.endAfter(id+1, "sh", seconds)
		}
		b.Advance(time.Minute)
		require.Equal(t, []string{"OP_RUN_COMMAND sh name:check-", "OP_RUN_COMMAND sh name:backup-", "OP_RUN_COMMAND sh"}, s.kinds(t))
		b.Restart(b.scheduler)
		b.Advance(kittest.Backoff)
		b.answerJobsRequest(nil, all(named(101, "backup"), named(102, "check")))
		require.Equal(t, []int64{102}, b.takePicked())
	})
}

// A damaged file is quarantined, and the scheduler begins without history.
func TestADamagedFileOfDurationsIsQuarantined(t *testing.T) {
	onDurations(t, `{"all": [-1]}`, func(t *testing.T, b *bench, s *durationsStore) {
		require.True(t, s.quarantined)
		b.add(unfinished(1, command("x")))
		require.Equal(t, []int64{1}, b.takePicked())
	})
}

// What a job will take does not show before its end: the order of the other jobs is the same, however long ago an
// unfinished one began.
func TestOnlyFinishedJobsTeach(t *testing.T) {
	for _, seconds := range []int64{1, 100_000} {
		onDurations(t, "", func(t *testing.T, b *bench, s *durationsStore) {
			j := newJob(1, command("a"), command("a"))
			j.Ops[0].Status, j.Ops[0].Exec, j.Ops[0].End = job.Success, job.Timestamp{Sec: 1}, job.Timestamp{Sec: 1 + seconds}
			b.config = configOf(1, `{"order": "expected"}`)
			b.send(&messages.QueueStarted{})
			b.answerJobsRequest(all(kittest.Unfinished(j)), all(unfinished(2, command("a")), unfinished(3, command("b"))))
			b.sendEnded(1, job.Canceled)
			require.Equal(t, []int64{2}, b.takePicked())
		})
	}
}

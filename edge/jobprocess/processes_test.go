package jobprocess

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"

	"lockstep/actors/jobs"
	"lockstep/actors/kit"
	"lockstep/core/job"
	"lockstep/core/ownership"
	"lockstep/core/paths"
	"lockstep/messages"
	"lockstep/persistence"
)

const patience = 30 * time.Second

var jobProgram string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "lockstep-job")
	if err != nil {
		panic(err)
	}
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", dir, "lockstep/cmd/lockstep-job").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s%v\n", out, err)
		os.Exit(1)
	}
	jobProgram = filepath.Join(dir, "lockstep-job")
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// fixture is the port with a probe in place of the job actor.
type fixture struct {
	t        testing.TB
	dir      string
	port     *Processes
	receiver *actor.PID
	messages chan any
	files    *persistence.OSFiles
}

func newFixture(t testing.TB, program string) *fixture {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, persistence.MakeDirs(filepath.Join(dir, "lib"), filepath.Join(dir, "run"), filepath.Join(dir, "log"), ownership.Rules{}))
	files, err := persistence.OpenFiles(filepath.Join(dir, "lib"), ownership.Rules{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = files.Close() })
	log := logrus.New()
	log.SetOutput(io.Discard)
	env := kit.New(kit.Options{Log: log})
	received := make(chan any, 16)
	probe, _, err := env.SpawnRoot(env.Props("probe", func() actor.Actor {
		return actor.ReceiveFunc(func(ctx actor.Context) {
			switch m := ctx.Message().(type) {
			case *messages.ProcessNamed, *messages.ProcessConfirmed, *messages.HandshakeFailed, *messages.ProcessGone:
				received <- m
			}
		})
	}), "probe")
	require.NoError(t, err)
	stderr, err := os.Create(filepath.Join(dir, "log", "jobs.log"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = stderr.Close() })
	return &fixture{t: t, dir: dir, receiver: probe, messages: received, files: files, port: New(Config{
		System: env.System(), Log: log, Program: program, DataDir: filepath.Join(dir, "lib"),
		RunDir: filepath.Join(dir, "run"), Stderr: stderr})}
}

func expect[T any](r *fixture) T {
	r.t.Helper()
	select {
	case m := <-r.messages:
		wanted, ok := m.(T)
		require.True(r.t, ok, "%T: %v", m, m)
		return wanted
	case <-time.After(patience):
		r.t.Fatalf("no %T", *new(T))
		panic("unreachable")
	}
}

// file writes the file of a job, which names a livelock.
func (r *fixture) file(id int64, livelock string, pid int64) {
	r.t.Helper()
	j := job.New(job.ID(id), []json.RawMessage{json.RawMessage(`{"OP_ID": "OP_TEST_DELAY", "duration": 0.0001}`)}, []int{0}, job.Timestamp{Sec: 1}, livelock)
	j.ProcessID = int(pid)
	require.NoError(r.t, r.files.Replace("test", paths.JobPath(id), job.Encode(j)))
}

func (r *fixture) script(body string) string {
	path := filepath.Join(r.dir, "program")
	require.NoError(r.t, os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755))
	return path
}

func TestTheHandshakeWithARealJobProcess(t *testing.T) {
	r := newFixture(t, jobProgram)
	r.port.Start(1, jobs.Job{ID: 7}, r.receiver)
	named := expect[*messages.ProcessNamed](r)
	require.True(t, paths.IsJobLivelock(named.Livelock))
	alive, err := persistence.ProbeLivelock(named.Livelock)
	require.NoError(t, err)
	require.True(t, alive)
	r.file(7, named.Livelock, named.Pid)
	r.port.Confirm(1, []byte(`[null]`))
	expect[*messages.ProcessConfirmed](r)
	require.Equal(t, "exit status 0", expect[*messages.ProcessGone](r).Text)
	content, err := r.files.Read("test", paths.JobPath(7))
	require.NoError(t, err)
	j, err := job.Decode(content)
	require.NoError(t, err)
	require.Equal(t, job.Success, j.Status())
	require.NoFileExists(t, named.Livelock)
}

// A process that was not confirmed never touches the job's file.
func TestAnAbandonedStartActsOnNothing(t *testing.T) {
	r := newFixture(t, jobProgram)
	r.port.Start(1, jobs.Job{ID: 7}, r.receiver)
	named := expect[*messages.ProcessNamed](r)
	r.file(7, named.Livelock, named.Pid)
	before, err := r.files.Read("test", paths.JobPath(7))
	require.NoError(t, err)
	r.port.Abandon(1)
	expect[*messages.HandshakeFailed](r)
	expect[*messages.ProcessGone](r)
	after, err := r.files.Read("test", paths.JobPath(7))
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
	require.FileExists(t, named.Livelock, "it proves that the job has not begun")
	r.port.Confirm(1, nil) // too late, and harmless
}

func TestAStartThatFails(t *testing.T) {
	r := newFixture(t, "/no/such/program")
	r.port.Start(1, jobs.Job{ID: 7}, r.receiver)
	require.Contains(t, expect[*messages.HandshakeFailed](r).Text, "no such file")
	expect[*messages.ProcessGone](r)

	r.port.config.Program = r.script("exit 3")
	r.port.Start(2, jobs.Job{ID: 7}, r.receiver)
	require.Contains(t, expect[*messages.HandshakeFailed](r).Text, "did not name its lock file")
	require.Equal(t, "exit status 3", expect[*messages.ProcessGone](r).Text)

	// A process that only SIGKILL ends.
	r.port.config.Program = r.script(`trap "" TERM ABRT; printf '%s/run/livelocks/job_x\003' "` + r.dir + `"; while :; do sleep 1 || :; done`)
	r.port.Start(3, jobs.Job{ID: 7}, r.receiver)
	expect[*messages.ProcessNamed](r)
	r.port.Abandon(3)
	expect[*messages.HandshakeFailed](r)
	require.Equal(t, "ended by SIGKILL", expect[*messages.ProcessGone](r).Text)
}

// The pid in the file now belongs to a different process. The livelock decides that the job
// process is dead, and the different process gets no signal.
func TestAnotherProcessIsNotTakenForTheJob(t *testing.T) {
	r := newFixture(t, jobProgram)
	other := exec.Command("sleep", "300")
	require.NoError(t, other.Start())
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	livelock := filepath.Join(r.dir, "run", "livelocks", "job_000007_1_2_3")
	require.NoError(t, os.WriteFile(livelock, nil, 0o640)) // not locked: dead

	r.port.Adopt(1, jobs.Job{ID: 7}, int64(other.Process.Pid), livelock, r.receiver)
	expect[*messages.ProcessGone](r)
	require.NoFileExists(t, livelock)
	require.NoError(t, other.Process.Signal(syscall.Signal(0)), "the stranger has been signalled")
}

// An adopted process that has released its livelock and lives on is found by a probe, long before the next look at its livelock.
func TestAProbeFindsAReleasedLivelock(t *testing.T) {
	r := newFixture(t, jobProgram)
	other := exec.Command("sleep", "300")
	require.NoError(t, other.Start())
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	livelock, err := persistence.CreateLivelock(filepath.Join(r.dir, "run", "livelocks"), "job_000007", ownership.Rules{})
	require.NoError(t, err)

	r.port.Adopt(1, jobs.Job{ID: 7}, int64(other.Process.Pid), livelock.Path(), r.receiver)
	require.NoError(t, livelock.Release())
	r.port.Probe(1)
	expect[*messages.ProcessGone](r)
	require.NoError(t, other.Process.Signal(syscall.Signal(0)), "the pid alone proves nothing")
}

func TestAnAdoptedProcessIsSeenToEnd(t *testing.T) {
	for name, known := range map[string]bool{"by its pid": true, "by its livelock alone": false} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t, jobProgram)
			// The process waits for its permission, which does not come during the test.
			r.port.Start(1, jobs.Job{ID: 7}, r.receiver)
			named := expect[*messages.ProcessNamed](r)
			pid := int64(0)
			if known {
				pid = named.Pid
			}
			other := newFixture(t, jobProgram)
			other.port.Adopt(2, jobs.Job{ID: 7}, pid, named.Livelock, other.receiver)
			r.port.Abandon(1)
			expect[*messages.ProcessGone](other)
		})
	}
}

// BenchmarkStart measures a start from the spawn to the acknowledged confirmation.
func BenchmarkStart(b *testing.B) {
	r := newFixture(b, jobProgram)
	start := uint64(0)
	for b.Loop() {
		start++
		r.port.Start(start, jobs.Job{ID: int64(start)}, r.receiver)
		named := expect[*messages.ProcessNamed](r)
		b.StopTimer()
		r.file(int64(start), named.Livelock, named.Pid)
		b.StartTimer()
		r.port.Confirm(start, []byte(`[null]`))
		expect[*messages.ProcessConfirmed](r)
		b.StopTimer()
		expect[*messages.ProcessGone](r)
		b.StartTimer()
	}
}

// BenchmarkBareSpawn measures the spawn and the reaping of the same program without work.
func BenchmarkBareSpawn(b *testing.B) {
	for b.Loop() {
		cmd := exec.Command(jobProgram)
		_ = cmd.Run() // exit status 2: usage
	}
}

// A job process gets GOMAXPROCS=1, whatever the environment of the daemon has.
func TestEnvironment(t *testing.T) {
	t.Setenv("GOMAXPROCS", "7")
	t.Setenv("LANG", "C")
	env := Environment()
	require.Contains(t, env, "LANG=C")
	require.Contains(t, env, "GOMAXPROCS=1")
	require.NotContains(t, env, "GOMAXPROCS=7")
}

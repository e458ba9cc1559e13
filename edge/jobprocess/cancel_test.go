package jobprocess

import (
	"bufio"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/jobs"
	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/core/paths"
	"lockstep/edge/pidfd"
	"lockstep/messages"
)

// standIn is a process in the place of Ganeti's. It writes a line when it gets SIGTERM.
func (r *fixture) standIn(j *job.Job) (*liveProcess, *bufio.Scanner) {
	r.t.Helper()
	require.NoError(r.t, r.files.Replace("test", paths.JobPath(int64(j.ID)), job.Encode(j)))
	cmd := exec.Command("sh", "-c", `trap 'echo told' TERM; echo ready; while :; do sleep 0.01; done`)
	out, err := cmd.StdoutPipe()
	require.NoError(r.t, err)
	require.NoError(r.t, cmd.Start())
	process, err := pidfd.Open(cmd.Process.Pid)
	require.NoError(r.t, err)
	r.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = process.Close()
	})
	lines := bufio.NewScanner(out)
	require.True(r.t, lines.Scan())
	l := &liveProcess{job: jobs.Job{ID: int64(j.ID), Program: messages.JobProgram_GANETI_JOB}, process: process, pid: cmd.Process.Pid, ended: make(chan struct{})}
	r.port.addLive(1, l)
	return l, lines
}

// A cancel ends Ganeti's process of a job that executes no opcode: it waits for locks, is between two opcodes, or has not begun.
func TestACancelEndsGanetisProcessThatExecutesNothing(t *testing.T) {
	waits := jobtest.Running(7, jobtest.Delay(), jobtest.Delay())
	waits.Ops[0].Status, waits.Ops[1].Status = job.Success, job.Waiting
	between := jobtest.Running(7, jobtest.Delay(), jobtest.Delay())
	between.Ops[0].Status, between.Ops[1].Status = job.Success, job.Queued
	for name, j := range map[string]*job.Job{"waits": waits, "between": between, "not begun": jobtest.Queued(7, jobtest.Delay())} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t, jobProgram)
			l, _ := r.standIn(j)
			r.port.Tell(1, jobs.Order{Kind: jobs.StopBeforeNext})
			require.True(t, l.process.AwaitEnd())
			require.True(t, l.canceled.Load())
		})
	}
}

// A process that executes an opcode, or whose file cannot be read or is final, goes on, and is told.
func TestACancelOfGanetisProcessThatExecutes(t *testing.T) {
	ended := jobtest.Running(7)
	ended.Ops[0].Status = job.Success
	for name, j := range map[string]*job.Job{"executes": jobtest.Running(7), "has ended": ended, "unreadable": nil} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t, jobProgram)
			unreadable := j == nil
			if unreadable {
				j = jobtest.Running(7)
			}
			l, lines := r.standIn(j)
			if unreadable {
				require.NoError(t, r.files.Remove("test", paths.JobPath(7)))
			}
			r.port.Tell(1, jobs.Order{Kind: jobs.StopBeforeNext})
			require.True(t, lines.Scan())
			require.Equal(t, "told", lines.Text())
			require.False(t, l.canceled.Load())
			require.False(t, l.process.Ended())
		})
	}
}

// Nothing is done to a process that has ended meanwhile.
func TestACancelOfGanetisProcessThatHasEnded(t *testing.T) {
	r := newFixture(t, jobProgram)
	l, _ := r.standIn(jobtest.Queued(7, jobtest.Delay()))
	require.NoError(t, l.process.Signal(syscall.SIGKILL))
	require.True(t, l.process.AwaitEnd())
	r.port.cancelGaneti(l)
	require.False(t, l.canceled.Load())
	r.port.cancelGaneti(&liveProcess{job: l.job}) // whose pid is not known
}

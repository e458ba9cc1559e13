package jobprocess

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"lockstep/actors/jobs"
	"lockstep/edge/forkserver"
	"lockstep/edge/pidfd"
	"lockstep/messages"
)

// forkServerDir is the directory of the fork server's program in the data directory. Others may make files in the run directory.
const forkServerDir = "lockstep-forkserver"

// newForkServer starts the fork server; nil: it is off.
func (p *Processes) newForkServer() *forkserver.Server {
	g := p.config.Ganeti
	if !g.ForkServer {
		return nil
	}
	return forkserver.New(forkserver.Config{
		Log:         p.config.Log,
		Python:      g.Python,
		Script:      g.Script(),
		Dir:         filepath.Join(p.config.DataDir, forkServerDir),
		Environment: p.environment(jobs.Job{Program: messages.JobProgram_GANETI_JOB}),
		Stderr:      p.config.Stderr,
		Repairs:     g.Repairs,
		Start:       p.startProcess,
	})
}

// isForked reports whether the fork server may make the process of a job.
func (p *Processes) isForked(job jobs.Job) bool {
	return p.forkServer != nil && job.Program == messages.JobProgram_GANETI_JOB
}

// fork asks the fork server for the process of a job. nil without an error: no process exists, and the program is to be executed. With an
// error a process without permission to act may exist.
func (p *Processes) fork(job jobs.Job) (*child, error) {
	ends, err := newPipes()
	if err != nil {
		return nil, err
	}
	made, err := p.forkServer.Fork(job.ID, p.environment(job), [3]*os.File{ends.inRead, ends.outWrite, p.config.Stderr})
	ends.closeProcessEnds()
	if err == nil {
		c := ends.child(made.PID, made.Process)
		c.forked, c.leader = made, leaderOf(made.Process, made.PID)
		return c, nil
	}
	defer ends.outRead.Close()
	_ = ends.inWrite.Close() // a child takes that as a refusal
	if !errors.Is(err, forkserver.ErrUnanswered) {
		return nil, nil
	}
	p.config.Log.WithField("job", job.ID).Warn("a process of the job may exist; the job waits for its end")
	return nil, p.awaitClosed(ends.outRead, job.ID)
}

// holdersTimeout is how long a process without permission may keep its pipe open before it is killed.
const holdersTimeout = 5 * time.Second

// awaitClosed waits until no process has the other end of a pipe, which is then the end of every process that the fork server may have
// made for the job. It kills those that keep the end for longer than holdersTimeout. The error says that one has not ended in time.
func (p *Processes) awaitClosed(pipe *os.File, job int64) error {
	for end := time.Now().Add(permissionTimeout); time.Now().Before(end); {
		if err := pipe.SetReadDeadline(time.Now().Add(holdersTimeout)); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, pipe)
		if err == nil {
			return nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("wait for the end of a process of the job: %w", err)
		}
		for _, pid := range killHolders(pipe) {
			p.config.Log.WithFields(logrus.Fields{"job": job, "pid": pid}).Warn("killing a process of the job that has no permission to act")
		}
	}
	return errors.New("a process of the job that has no permission to act does not end")
}

// killHolders kills the other processes of this user that have an end of the pipe, and returns their pids.
func killHolders(pipe *os.File) (killed []int) {
	conn, err := pipe.SyscallConn()
	if err != nil {
		return nil
	}
	var stat unix.Stat_t
	_ = conn.Control(func(fd uintptr) { err = unix.Fstat(int(fd), &stat) })
	entries, readErr := os.ReadDir("/proc")
	if err != nil || readErr != nil {
		return nil
	}
	name := fmt.Sprintf("pipe:[%d]", stat.Ino)
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		process, err := pidfd.Open(pid)
		if err != nil {
			continue
		}
		if holds(pid, name) && process.Signal(unix.SIGKILL) == nil {
			killed = append(killed, pid)
		}
		_ = process.Close()
	}
	return killed
}

// holds reports whether a process has a descriptor of the file with that name.
func holds(pid int, name string) bool {
	descriptors, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return false
	}
	for _, descriptor := range descriptors {
		if target, err := os.Readlink(descriptor); err == nil && target == name {
			return true
		}
	}
	return false
}

// executeInstead executes the program of a job whose forked process has ended before it has named its lock file, so that it has not
// acted. The fork server is replaced, because the cause may be there.
func (p *Processes) executeInstead(c *child, job jobs.Job) (*child, error) {
	p.config.Log.WithFields(logrus.Fields{"job": job.ID, "pid": c.pid}).
		Warn("a forked job process has ended before it named its lock file; its program is executed")
	p.forkServer.Distrust()
	c.closePipes()
	if !c.process.EndsWithin(killTimeout) {
		_ = c.process.Signal(unix.SIGKILL)
		c.process.AwaitEnd()
	}
	p.config.Log.WithFields(logrus.Fields{"job": job.ID, "pid": c.pid, "err": c.reap()}).Info("the forked job process has ended")
	return p.execute(job)
}

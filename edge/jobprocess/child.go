package jobprocess

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lockstep/actors/jobs"
	"lockstep/core/wire"
	"lockstep/edge/forkserver"
	"lockstep/edge/pidfd"
	"lockstep/edge/reaper"
)

// child is a process that this daemon has started, or that the fork server has made for it.
type child struct {
	pid     int
	process *pidfd.Process
	in      *os.File // its stdin
	out     *os.File // its stdout
	reader  *wire.Reader
	forked  *forkserver.Child // nil: executed by this daemon, which reaps it
	leader  *reaper.Leader    // of a forked process; nil: it had ended before its start time could be read
}

// pipes are the ends of the two pipes of a job's process.
type pipes struct{ inRead, inWrite, outRead, outWrite *os.File }

func newPipes() (p pipes, err error) {
	if p.inRead, p.inWrite, err = os.Pipe(); err != nil {
		return p, fmt.Errorf("make a pipe: %w", err)
	}
	if p.outRead, p.outWrite, err = os.Pipe(); err != nil {
		_, _ = p.inRead.Close(), p.inWrite.Close()
		return p, fmt.Errorf("make a pipe: %w", err)
	}
	return p, nil
}

func (p pipes) closeProcessEnds() { _, _ = p.inRead.Close(), p.outWrite.Close() }
func (p pipes) closeDaemonEnds()  { _, _ = p.inWrite.Close(), p.outRead.Close() }

// child returns the started process together with the daemon's ends of the pipes.
func (p pipes) child(pid int, process *pidfd.Process) *child {
	return &child{pid: pid, process: process, in: p.inWrite, out: p.outRead, reader: wire.NewReader(p.outRead, nameFrameMax)}
}

// spawn starts the process of a job: by fork if the fork server can, or else by execution.
func (p *Processes) spawn(job jobs.Job) (*child, error) {
	if p.isForked(job) {
		if c, err := p.fork(job); c != nil || err != nil {
			return c, err
		}
	}
	return p.execute(job)
}

// execute starts the program of a job in a process of its own, with two pipes for the handshake and the daemon's file for errors.
func (p *Processes) execute(job jobs.Job) (*child, error) {
	ends, err := newPipes()
	if err != nil {
		return nil, err
	}
	// The daemon keeps no copy of these ends: with one it would not see that the process has closed its own.
	defer ends.closeProcessEnds()
	fd := -1
	program, args := p.commandLine(job)
	started, err := p.startProcess(program, args, p.environment(job), []*os.File{ends.inRead, ends.outWrite, p.config.Stderr}, &fd)
	if err != nil {
		ends.closeDaemonEnds()
		return nil, err
	}
	pid := started.Pid
	_ = started.Release() // the end is awaited by pidfd
	process, err := openPidfd(fd, pid)
	if err != nil {
		ends.closeDaemonEnds()
		_ = syscall.Kill(-pid, syscall.SIGKILL)
		_, _ = syscall.Wait4(pid, nil, 0, nil)
		return nil, err
	}
	return ends.child(pid, process), nil
}

// startProcess starts a process that leads a session, in the control group of job processes. Without a group, and if the group cannot be
// used, it starts the process in the daemon's own.
func (p *Processes) startProcess(program string, args, environment []string, files []*os.File, pidFD *int) (*os.Process, error) {
	attributes := &os.ProcAttr{
		Dir:   "/",
		Env:   environment,
		Files: files,
		// A new session: signals to the daemon's terminal or process group do not reach jobs.
		Sys: &syscall.SysProcAttr{Setsid: true, PidFD: pidFD},
	}
	group := p.cgroup.open()
	if group == nil {
		return p.startUncollected(program, args, attributes)
	}
	defer group.Close()
	attributes.Sys.UseCgroupFD, attributes.Sys.CgroupFD = true, int(group.Fd())
	started, inGroupErr := p.startUncollected(program, args, attributes)
	if inGroupErr == nil {
		return started, nil
	}
	attributes.Sys.UseCgroupFD = false
	started, err := p.startUncollected(program, args, attributes)
	if err == nil {
		p.cgroup.unusable(inGroupErr)
	}
	return started, err
}

// startUncollected starts a process while no garbage is collected, see collector.
func (p *Processes) startUncollected(program string, args []string, attributes *os.ProcAttr) (started *os.Process, err error) {
	p.collector.during(func() { started, err = os.StartProcess(program, args, attributes) })
	return started, err
}

// openPidfd wraps the pidfd of a new child. fd is -1 on a system that gives no pidfd with the
// child.
func openPidfd(fd, pid int) (*pidfd.Process, error) {
	if fd < 0 {
		return pidfd.Open(pid)
	}
	return pidfd.FromDescriptor(fd, pid)
}

func (c *child) receive() ([]byte, error) {
	if err := c.out.SetReadDeadline(time.Now().Add(messageTimeout)); err != nil {
		return nil, err
	}
	return c.reader.ReadFrame()
}

func (c *child) send(frame []byte) error {
	if err := c.in.SetWriteDeadline(time.Now().Add(messageTimeout)); err != nil {
		return err
	}
	return wire.WriteFrame(c.in, frame)
}

// closePipes closes the pipes to the child. A child without permission takes that as a refusal.
func (c *child) closePipes() { _, _ = c.in.Close(), c.out.Close() }

// terminate ends a process that has no permission to act. Its closed pipes tell it to end;
// signals follow if it does not.
func (c *child) terminate() {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGABRT, syscall.SIGKILL} {
		if c.process.EndsWithin(killInterval) {
			return
		}
		_ = c.process.Signal(signal)
	}
}

// session is the session that the process has led. It is called before reap.
func (c *child) session() session {
	if c.forked != nil {
		return session{leader: c.leader}
	}
	return session{pid: c.pid} // it is not reaped yet, so the number is not reused
}

// hasEnded reports whether an error of the handshake means that no process has the other ends of the pipes.
func (c *child) hasEnded(failure error) bool {
	return errors.Is(failure, io.EOF) || errors.Is(failure, io.ErrUnexpectedEOF)
}

// reap reaps the ended process and returns in words how it ended. The fork server reaps its children.
func (c *child) reap() string {
	if c.forked != nil {
		_ = c.process.Close()
		status, known := c.forked.Status()
		if !known {
			return "its end could not be seen: the fork server, which has started it, has ended"
		}
		return describeExit(syscall.WaitStatus(status))
	}
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(c.pid, &status, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		_ = c.process.Close()
		if err != nil {
			return "its end could not be seen: " + err.Error()
		}
		return describeExit(status)
	}
}

func describeExit(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "ended by " + unix.SignalName(status.Signal())
	}
	return fmt.Sprintf("exit status %d", status.ExitStatus())
}

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/limits"
	"lockstep/edge/cgroup"
)

// openGroup makes the control group in which the command starts, so that no process of the command can leave it, and its end and its usage
// are known. Without it, the command runs as one in the group of the job process.
//
// A command with limits does not run without their group. refusal says what the node lacks, and what to do.
func (x *execution) openGroup() (refusal string) {
	if x.limits.NeedsGroup() {
		return x.openLimited()
	}
	if x.lease.cgroup == "" {
		return ""
	}
	var err error
	if x.group, err = cgroup.Make(x.lease.cgroup, x.livelock, x.op); err != nil {
		x.withoutGroup(err)
	}
	return ""
}

// refusal is why this node cannot enforce the limits of the command; "": it can.
func (x *execution) refusal() string {
	node := limits.Node{}
	if x.lease.cgroup != "" {
		var err error
		if node.Group, node.Controllers, err = cgroup.Controllers(x.lease.cgroup); err != nil {
			node.Unusable = err.Error()
		}
	}
	return node.Refusal(x.limits)
}

func (x *execution) openLimited() (refusal string) {
	if refusal := x.refusal(); refusal != "" {
		return refusal
	}
	group, err := cgroup.MakeLimited(x.lease.cgroup, x.livelock, x.op, x.limits.Controllers())
	if err != nil {
		return fmt.Sprintf("this node cannot enforce the limits of the command: %v", err)
	}
	x.group = group
	for _, s := range x.limits.Settings() {
		if err := group.Set(s.Files); errors.Is(err, fs.ErrNotExist) && s.Optional {
			continue
		} else if err != nil {
			refusal = fmt.Sprintf("this node cannot enforce the limits of the command: %s cannot be set: %v; it needs %s",
				s.Files[0][0], err, s.Needs)
			x.closeGroup()
			return refusal
		}
	}
	return ""
}

// startNice starts a process with the niceness of the command. It uses a thread that has the niceness, which the process inherits, and that
// ends then: without root's rights a thread cannot take a niceness back.
func (x *execution) startNice(cmd *exec.Cmd) error {
	if x.limits.Nice == 0 {
		return cmd.Start()
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // and not unlocked: the thread ends with the goroutine
		if err := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), x.limits.Nice); err != nil {
			started <- fmt.Errorf("set the niceness: %w", err)
			return
		}
		started <- cmd.Start()
	}()
	return <-started
}

// outOfMemory is the outcome of a command that a signal has ended because it had reached its limit of memory.
func (x *execution) outOfMemory(outcome jobproc.Outcome, state *os.ProcessState) jobproc.Outcome {
	status, _ := state.Sys().(syscall.WaitStatus)
	if x.limits.Memory.Bytes == 0 || x.group == nil || !status.Signaled() || !x.group.RanOutOfMemory() {
		return outcome
	}
	return failure("OpExecError", x.limits.OutOfMemoryText(), map[string]any{"signal": unix.SignalName(status.Signal())})
}

// withoutGroup says that the command has no control group.
func (x *execution) withoutGroup(err error) {
	fmt.Fprintf(os.Stderr, "lockstep-job %d: the command of opcode %d runs without a control group of its own: %v\n", x.id, x.op+1, err)
}

// closeGroup removes the group of an ended command. It stays while processes live in it that have left the command's process group, and
// were not killed with it. The daemon removes it later.
func (x *execution) closeGroup() {
	if x.group == nil {
		return
	}
	x.group.Close()
	cgroup.Remove(x.group.Path)
	x.group = nil
}

// usage is what an ended command has used. Without a control group it is that of its process, and of the descendants that were waited for.
func (x *execution) usage(state *os.ProcessState) job.Usage {
	u := job.Usage{CPUSeconds: (state.UserTime() + state.SystemTime()).Seconds()}
	if rusage, ok := state.SysUsage().(*syscall.Rusage); ok {
		u.MemoryPeakBytes, u.MemoryOf = rusage.Maxrss*1024, job.MemoryOfProcess //nolint:unconvert // 32 bits on some machines
	}
	if x.group == nil {
		return u
	}
	if used, known := cgroup.UsageOf(x.group.Path); known {
		u.CPUSeconds = used.CPU.Seconds()
		if used.MemoryPeak > 0 {
			u.MemoryPeakBytes, u.MemoryOf = used.MemoryPeak, job.MemoryOfGroup
		}
	}
	return u
}

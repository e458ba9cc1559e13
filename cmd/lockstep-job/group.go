package main

import (
	"fmt"
	"os"
	"syscall"

	"lockstep/core/job"
	"lockstep/edge/cgroup"
)

// openGroup makes the control group in which the command starts, so that no process of the command can leave it, and its end and its usage
// are known. Without it, the command runs as one in the group of the job process.
func (x *execution) openGroup() {
	if x.lease.cgroup == "" {
		return
	}
	var err error
	if x.group, err = cgroup.Make(x.lease.cgroup, x.livelock, x.op); err != nil {
		x.withoutGroup(err)
	}
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

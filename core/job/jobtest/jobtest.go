// Package jobtest makes jobs for tests. Each has the id given, was received by a daemon
// with [DaemonLivelock] at second 1, and has the opcodes given, or one [Delay].
package jobtest

import (
	"encoding/json"
	"fmt"
	"strings"

	"lockstep/core/job"
)

// DaemonLivelock is the livelock in the file of a job without a process.
const DaemonLivelock = "/run/livelocks/daemon_1"

// Livelock is the livelock of a job's process.
func Livelock(id int64) string { return fmt.Sprintf("/run/livelocks/job_%06d_100", id) }

// Delay is the input of an OP_TEST_DELAY. params are further members, `"name": value`.
func Delay(params ...string) string {
	return "{" + strings.Join(append([]string{`"OP_ID": "OP_TEST_DELAY"`, `"duration": 1.0`}, params...), ", ") + "}"
}

// Queued is a job as it is after its submission; without ops it has one OP_TEST_DELAY.
func Queued(id int64, ops ...string) *job.Job {
	if len(ops) == 0 {
		ops = []string{Delay(`"reason": []`)}
	}
	inputs := make([]json.RawMessage, len(ops))
	for i, op := range ops {
		inputs[i] = json.RawMessage(op)
	}
	return job.New(job.ID(id), inputs, make([]int, len(ops)), job.Timestamp{Sec: 1}, DaemonLivelock)
}

// Named is a queued job whose file names its process, pid 100.
func Named(id int64, ops ...string) *job.Job {
	j := Queued(id, ops...)
	j.Livelock, j.ProcessID = Livelock(id), 100
	return j
}

// Running is a job whose process executes the first opcode.
func Running(id int64, ops ...string) *job.Job {
	j := Named(id, ops...)
	j.Ops[0].Status = job.Running
	return j
}

// Succeeded is a job that has succeeded at second 9.
func Succeeded(id int64, ops ...string) *job.Job {
	j := Named(id, ops...)
	for i := range j.Ops {
		j.Ops[i].Status = job.Success
	}
	j.End = job.Timestamp{Sec: 9}
	return j
}

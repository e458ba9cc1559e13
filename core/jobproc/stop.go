package jobproc

import (
	"fmt"
	"time"

	"lockstep/core/job"
)

// KillGrace is how long a command may take to end after SIGTERM, before SIGKILL.
const KillGrace = 10 * time.Second

// CommandStop decides when a running command is ended by force: at its time limit or at the request of a client. The
// command's process group gets SIGTERM, and SIGKILL after KillGrace.
type CommandStop struct {
	limit  float64   // in seconds; 0: none
	due    time.Time // of the next signal; zero: none
	reason StopReason
}

// StopReason is why a command was ended by force.
type StopReason uint8

const (
	// NotStopped: the command has ended by itself.
	NotStopped StopReason = iota
	// TimedOut: the command reached its time limit.
	TimedOut
	// StoppedOnRequest: a client has ended the job.
	StoppedOnRequest
)

// StopSignal is what the process group of a command is sent.
type StopSignal uint8

const (
	// NoSignal: nothing.
	NoSignal StopSignal = iota
	// Terminate is SIGTERM.
	Terminate
	// ForceKill is SIGKILL.
	ForceKill
)

// NewCommandStop returns the CommandStop of a command that starts now. limit bounds its running time, in seconds; 0: no limit.
func NewCommandStop(now time.Time, limit float64) CommandStop {
	s := CommandStop{limit: limit}
	if limit > 0 {
		s.due = now.Add(time.Duration(min(limit, SecondsMax) * float64(time.Second)))
	}
	return s
}

// SecondsMax is the longest duration that an opcode can wait, in seconds: 285 years.
const SecondsMax = 9e9

// Deadline is when Tick is due; the zero time: never.
func (s *CommandStop) Deadline() time.Time { return s.due }

// Request: a client ends the job.
func (s *CommandStop) Request(now time.Time) StopSignal { return s.stop(now, StoppedOnRequest) }

// Tick: the Deadline has come. A command that was not told to end gets Terminate for its time-out, and one that was told gets ForceKill.
// An early Tick does nothing.
func (s *CommandStop) Tick(now time.Time) StopSignal {
	switch {
	case s.due.IsZero() || now.Before(s.due):
		return NoSignal
	case s.reason == NotStopped:
		return s.stop(now, TimedOut)
	}
	s.due = time.Time{}
	return ForceKill
}

func (s *CommandStop) stop(now time.Time, reason StopReason) StopSignal {
	if s.reason != NotStopped {
		return NoSignal
	}
	s.reason, s.due = reason, now.Add(KillGrace)
	return Terminate
}

// Reason is why the command was ended by force.
func (s *CommandStop) Reason() StopReason { return s.reason }

// Outcome is the outcome of an opcode whose command was ended by force. The second argument of the error is for
// programs: {"signal": "SIGTERM"} or {"timeout": seconds}.
func (s *CommandStop) Outcome() Outcome {
	if s.reason == TimedOut {
		return failure(fmt.Sprintf("command timed out after %g s", s.limit), map[string]any{"timeout": s.limit})
	}
	return failure(EndedOnRequest, map[string]any{"signal": "SIGTERM"})
}

// EndedOnRequest is the result of an opcode that a client has ended.
const EndedOnRequest = "Ended on request"

func failure(args ...any) Outcome {
	return Outcome{Failed: true, Result: job.ErrorResult("OpExecError", args...)}
}

// Results of opcodes that may never begin because of a dependency begin with these texts. The cause follows.
const (
	DependencyFailed     = "Dependency error: "
	CanceledByDependency = "Job canceled: "
)

// CanceledByRequest is the result of the opcodes of a job that a client has canceled while it waited.
const CanceledByRequest = "Job canceled by request"

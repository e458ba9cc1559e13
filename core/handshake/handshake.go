// Package handshake decides the daemon's side of starting a job's process (designs.md "Job execution"; design.md 4,
// step 4). An Attempt is given the events of one start: the process has named its livelock, the name is saved, the
// process has its permission, or is gone. It returns the next Action. FinalizeJob makes the file of a job final whose
// process is gone. It is pure; the job actors act on what it returns.
package handshake

import (
	"fmt"

	"lockstep/core/job"
)

// Action is what the caller must do after an event.
type Action uint8

const (
	// NoAction: wait for the next event.
	NoAction Action = iota
	// Save the job file, durably: it names the livelock and the pid now.
	Save
	// Confirm: permit the process to act.
	Confirm
	// Abandon the process: close its pipe, make sure that it is gone.
	Abandon
	// Finalize: nothing of the process is left; FinalizeJob says what the job
	// file must become.
	Finalize
)

// CleanExit is how a process ends that has made the job's end durable. After any other end that is unknown: the
// process may have died just before.
const CleanExit = "exit status 0"

// Phase is how far a start has come.
type Phase uint8

const (
	// Spawning: the process may exist; it has not named its livelock.
	Spawning Phase = iota
	// Saving: the livelock's name is on its way to the disk.
	Saving
	// Confirming: the name is durable and permission is on its way. From here
	// on the job may act, so it is not started again, unless it is known that the
	// process has not acted (NeverActed).
	Confirming
	// Running: the process has its permission.
	Running
	// Abandoning: the start has failed before the process could act; the process
	// is being made away with.
	Abandoning
	// Gone: nothing of the process is left.
	Gone
)

// Attempt is one start of a job's process.
//
// Invariant: the action Confirm is returned at most once, and only by NameSaved.
type Attempt struct {
	phase        Phase
	startFailure string
}

// Adopted is the attempt of a process that an earlier daemon started and confirmed.
func Adopted() Attempt { return Attempt{phase: Running} }

// Phase is how far the attempt has come.
func (s *Attempt) Phase() Phase { return s.phase }

// MayAct reports whether the process has, or may have, permission to act.
func (s *Attempt) MayAct() bool { return s.phase == Confirming || s.phase == Running }

// LivelockNamed: the process has made and locked its livelock.
func (s *Attempt) LivelockNamed() Action {
	if s.phase != Spawning {
		return NoAction
	}
	s.phase = Saving
	return Save
}

// NameSaved: the job file that names the livelock is durable.
func (s *Attempt) NameSaved() Action {
	if s.phase != Saving {
		return NoAction
	}
	s.phase = Confirming
	return Confirm
}

// Confirmed: the process has taken its permission.
func (s *Attempt) Confirmed() {
	if s.phase == Confirming {
		s.phase = Running
	}
}

// Failed: the handshake broke, or the file could not be written. Once the permission has been sent the process may
// act, and its own end decides.
func (s *Attempt) Failed(reason string) Action {
	switch s.phase {
	case Spawning, Saving:
		s.phase, s.startFailure = Abandoning, reason
		return Abandon
	default:
		return NoAction
	}
}

// NeverActed: the handshake broke before the process had all that it needs to act. It does not matter then that the
// permission had been sent.
func (s *Attempt) NeverActed(reason string) {
	if s.phase == Confirming {
		s.phase, s.startFailure = Abandoning, reason
	}
}

// Gone: nothing of the process is left.
func (s *Attempt) Gone(exit string) Action {
	switch s.phase {
	case Gone:
		return NoAction
	case Spawning, Saving:
		s.startFailure = exit
	case Confirming, Running:
		s.startFailure = ""
	}
	s.phase = Gone
	return Finalize
}

// StartFailure is why the process could never act, or "".
func (s *Attempt) StartFailure() string { return s.startFailure }

// FinalizeJob makes the job file that a process left behind final, and reports whether that was necessary.
// startFailure is why the process was never permitted to act ("" if it was); exit says how it ended. Opcodes that had
// succeeded keep their success (design.md 8).
func FinalizeJob(j *job.Job, startFailure, exit string, now job.Timestamp) bool {
	if j.Status().Final() {
		return false
	}
	source, text := "gnt:daemon:luxid:deathdetection", fmt.Sprintf("detected death of job %d", j.ID)
	switch {
	case startFailure != "":
		source, text = "gnt:daemon:luxid:startjobs", fmt.Sprintf("job %d failed to start: %s", j.ID, startFailure)
	case exit != "":
		text += ": " + exit
	}
	j.AppendReason(func(int) string { return source }, func(int) string { return text }, now)
	j.FailUnfinished(job.Quote(text), now)
	return true
}

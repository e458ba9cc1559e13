// Package handshake decides the daemon's side of the start handshake (designs.md "Job execution"; design.md "Start").
//
// An Attempt is one start of a job process. It takes the events of the start: the process has named its livelock, the
// name is durable, the process has taken its permission, the start has failed, the process has ended. It returns what
// the job actor does next. Its rule: a process gets its permission only after the job file durably names the process, so
// that a restarted daemon finds every process that may act.
//
// FinalizeJob makes the job file final that an ended process has left unfinished. The package is pure and keeps nothing;
// after a restart of the daemon, the attempt is Adopted.
package handshake

import (
	"encoding/json"
	"fmt"
	"slices"

	"lockstep/core/job"
	"lockstep/core/opcode"
	"lockstep/core/rawjson"
)

// Action is what the caller must do after an event.
type Action uint8

const (
	// NoAction: wait for the next event.
	NoAction Action = iota
	// Save the job file, durably. It names the livelock and the pid of the process.
	Save
	// Confirm: permit the process to act.
	Confirm
	// Abandon the process: close its pipe, and end it.
	Abandon
	// Finalize the job file: the process and its orphans have ended.
	Finalize
)

// CleanExit is how a process ends that has made the final status of its job durable. A process that has ended in any
// other way may have died before that.
const CleanExit = "exit status 0"

// Phase says how far the start of a process has come.
type Phase uint8

const (
	// Spawning: the process may exist. It has not named its livelock.
	Spawning Phase = iota
	// Saving: the name of the livelock is being written.
	Saving
	// Confirming: the name is durable, and the permission is being sent. From now on the process may act, so the job is
	// not started again, unless the process certainly has not begun it (NeverActed).
	Confirming
	// Running: the process has its permission.
	Running
	// Abandoning: the start has failed before the process could act. The process is being ended.
	Abandoning
	// Gone: the process and its orphans have ended.
	Gone
)

// Attempt is one start of a job's process, from its spawn to its end: it decides what follows from each event.
//
// Invariant: the action Confirm is returned at most once, and only by NameSaved.
type Attempt struct {
	phase        Phase
	startFailure string // why the process could not act; "": it may have acted
	calledOff    bool   // the attempt was abandoned by CallOff
}

// Adopted returns the attempt of a process that an earlier daemon has started and confirmed.
func Adopted() Attempt { return Attempt{phase: Running} }

// Phase returns how far the attempt has come.
func (s *Attempt) Phase() Phase { return s.phase }

// MayAct reports whether the process has, or may have, permission to act.
func (s *Attempt) MayAct() bool { return s.phase == Confirming || s.phase == Running }

// LivelockNamed: the process has locked its livelock and named it. The result is Save, or NoAction if this is not expected.
func (s *Attempt) LivelockNamed() Action {
	if s.phase != Spawning {
		return NoAction
	}
	s.phase = Saving
	return Save
}

// NameSaved: the job file that names the livelock is durable. The result is Confirm, or NoAction if this is not expected.
func (s *Attempt) NameSaved() Action {
	if s.phase != Saving {
		return NoAction
	}
	s.phase = Confirming
	return Confirm
}

// Confirmed: the process has taken its permission. Nothing happens if this is not expected.
func (s *Attempt) Confirmed() {
	if s.phase == Confirming {
		s.phase = Running
	}
}

// Failed: the handshake broke, or the job file could not be written. After the permission was sent, this changes nothing:
// the process may act, and its end decides.
func (s *Attempt) Failed(reason string) Action {
	switch s.phase {
	case Spawning, Saving:
		s.phase, s.startFailure = Abandoning, reason
		return Abandon
	default:
		return NoAction
	}
}

// CallOff: the job must not begin. An attempt that is not confirmed is abandoned.
func (s *Attempt) CallOff() Action {
	action := s.Failed("the start was called off")
	s.calledOff = s.calledOff || action == Abandon
	return action
}

// CalledOff reports whether CallOff has abandoned the attempt. Such a start has not failed.
func (s *Attempt) CalledOff() bool { return s.calledOff }

// NeverActed: the process has ended before it had all that it needs to act, or has left a proof that it did not begin the
// job. The start has failed, although the permission was sent, by this daemon or an earlier one.
func (s *Attempt) NeverActed(reason string) {
	if s.MayAct() {
		s.phase, s.startFailure = Abandoning, reason
	}
}

// Gone: the process and its orphans have ended. exit says how; it is the failure of a start that was not confirmed. The result is
// Finalize, or NoAction if this is known.
func (s *Attempt) Gone(exit string) Action {
	switch s.phase {
	case Gone:
		return NoAction
	case Spawning, Saving:
		s.startFailure = exit
	// The process may have acted: this is not a failed start, and the job is not started again.
	case Confirming, Running:
		s.startFailure = ""
	}
	s.phase = Gone
	return Finalize
}

// StartFailure is why the process could not act; "" if it may have acted.
func (s *Attempt) StartFailure() string { return s.startFailure }

// Death says how the process of a job has ended, for the result of the job.
type Death struct {
	StartFailure string // of the Attempt
	Exit         string // how the process has ended
	GanetiLog    bool   // entries of the log have types that Ganeti's daemon reads (job.AsMessage)
	Used         Used
}

// Used is what the command of an opcode has used whose process has ended without a result. The zero value: it is not known.
type Used struct {
	usage *job.Usage
	op    int
}

// UsedOf decodes a usage, as the control group of the command of an opcode has told it.
func UsedOf(usage []byte, op int32) (u Used) {
	if len(usage) > 0 && json.Unmarshal(usage, &u.usage) == nil {
		u.op = int(op)
	}
	return u
}

// result is the result of an opcode that was not final when its process ended.
func (u Used) result(op int, text string) json.RawMessage {
	if u.usage == nil || op != u.op {
		return rawjson.Quote(text)
	}
	return job.ErrorResult("OpExecError", text, map[string]any{"usage": u.usage})
}

// FinalizeJob fails the unfinished opcodes of a job whose process has ended, and reports whether there were any. Opcodes
// that have succeeded keep their success (design.md "Differences"). If a command may have run, its log says that output may be missing.
func FinalizeJob(j *job.Job, d Death, now job.Timestamp) bool {
	if j.Status().Final() {
		return false
	}
	source, text := d.describe(j)
	if d.StartFailure == "" {
		// The note is added before FailUnfinished ends all opcodes: it belongs to the one that was running.
		d.cutOutput(j, now)
	}
	j.AppendReason(func(int) string { return source }, func(int) string { return text }, now)
	op := j.FirstUnfinished()
	j.FailUnfinished(rawjson.Quote(text), now)
	j.Ops[op].Result = d.Used.result(op, text)
	return true
}

// EndTry ends the try of a job whose process has ended and which is tried again. The result says that the process has ended.
func EndTry(j *job.Job, d Death, now job.Timestamp) {
	source, text := d.describe(j)
	d.cutOutput(j, now)
	j.AppendReason(func(int) string { return source }, func(int) string { return text + "; it is tried again" }, now)
	op := j.FirstUnfinished()
	j.Ops[op].EndTry(d.Used.result(op, text), now)
}

// describe says how the process has ended, and which part of the daemon found it.
func (d Death) describe(j *job.Job) (source, text string) {
	source, text = "gnt:daemon:luxid:deathdetection", fmt.Sprintf("detected death of job %d", j.ID)
	switch {
	case d.StartFailure != "":
		return "gnt:daemon:luxid:startjobs", fmt.Sprintf("job %d failed to start: %s", j.ID, d.StartFailure)
	case d.Exit != "":
		text += ": " + d.Exit
	}
	if j.IsPending() {
		text += "; it may have begun"
	}
	return source, text
}

// cutOutput notes in the log of the first unfinished opcode that its output may be missing. The file may not say yet that the
// opcode has begun.
func (d Death) cutOutput(j *job.Job, now job.Timestamp) {
	op := slices.IndexFunc(j.Ops, func(op job.Op) bool { return !op.Status.Final() })
	if op < 0 || !opcode.RunsCommand(job.OpID(j.Ops[op].Input)) {
		return
	}
	kind, payload := job.LogCut, json.RawMessage("null")
	if d.GanetiLog {
		kind, payload = job.AsMessage(kind, payload)
	}
	j.AppendLog(op, now, kind, payload)
}

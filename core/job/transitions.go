package job

import "fmt"

// Event is something that happens to a job, or is asked of it.
type Event uint8

const (
	// Submit: the job's file is written for the first time.
	Submit Event = iota
	// Pick: the scheduler gives it a run slot; the jobs actor answers for it.
	Pick
	// LivelockNamed: its process has made and locked its livelock, whose name is made durable in the file.
	LivelockNamed
	// Confirm: the process is permitted to act.
	Confirm
	// Began: the process begins an opcode.
	Began
	// LockWait: the process asks for permission, or for locks.
	LockWait
	// Runs: the opcode executes.
	Runs
	// Logs: the opcode says something.
	Logs
	// Succeeds: the opcode ends well, and is not the last.
	Succeeds
	// SucceedsLast: the last opcode ends well.
	SucceedsLast
	// Fails: the opcode fails, and the job with it.
	Fails
	// Cancel is asked for by a client.
	Cancel
	// Kill is a cancel that ends what runs.
	Kill
	// Reprioritise is asked for by a client: opcodes that have not started take another priority.
	Reprioritise
	// Dies: nothing of the process is left, and the file is as it was.
	Dies
	// DaemonStart: a daemon finds the file.
	DaemonStart
	// Archive is asked for by a client.
	Archive

	events = iota
)

var eventNames = [events]string{
	Submit: "submit", Pick: "pick", LivelockNamed: "named", Confirm: "confirm", Began: "began", LockWait: "lock wait",
	Runs: "runs", Logs: "logs", Succeeds: "succeeds", SucceedsLast: "succeeds, last", Fails: "fails", Cancel: "cancel",
	Kill: "kill", Reprioritise: "priority", Dies: "dies", DaemonStart: "daemon start", Archive: "archive",
}

func (e Event) String() string { return eventNames[e] }

// Effect is what an event does to a job.
type Effect uint8

const (
	// Impossible: the event cannot come in this status; if it does, an invariant is broken.
	Impossible Effect = iota
	// Moves: the job takes the status in Answer.To.
	Moves
	// Stays: the event is taken, the status does not change.
	Stays
	// Refuses: who asked is told no.
	Refuses
)

// Transition is one cell of the table: what an event does in a status, and the reason for people.
type Transition struct {
	Effect Effect
	To     Status // if it moves
	Why    string
}

func moves(to Status, why string) Transition { return Transition{Effect: Moves, To: to, Why: why} }
func stays(why string) Transition            { return Transition{Effect: Stays, Why: why} }
func refuses(why string) Transition          { return Transition{Effect: Refuses, Why: why} }

// transitions has every event in every status (design.md 4 and 8; queue.md 4.6 to 4.10). What is not in it is
// Impossible.
var transitions = [...][events]Transition{
	Queued: {
		Submit:        stays("recorded, then told to the client"),
		Pick:          stays("it has a run slot; its process is started"),
		LivelockNamed: stays("livelock and pid go into the file, durably"),
		Confirm:       stays("its process may act: it is started again only if that process had not all that it needs to act"),
		Began:         moves(Waiting, "by the job process"),
		Cancel:        moves(Canceled, "before any process may act on it"),
		Kill:          moves(Canceled, "as a cancel: nothing runs yet"),
		Reprioritise:  stays("all opcodes take it; the scheduler hears of it"),
		Dies:          moves(Error, "its process has ended when it could act, or its starts alone fail, again and again"),
		DaemonStart:   stays("queued again, unless its file names a job's livelock: then that process is looked for"),
		Archive:       refuses("it has not ended"),
	},
	Waiting: {
		LockWait:     stays("until the permission, or the locks, come"),
		Runs:         moves(Running, "by the job process"),
		Fails:        moves(Error, "the opcode cannot begin"),
		Cancel:       moves(Canceling, "by the job process, which is told"),
		Kill:         moves(Canceling, "as a cancel: nothing runs"),
		Reprioritise: stays("opcodes that have not begun, and the waiting one, take it"),
		Dies:         moves(Error, "opcodes that had succeeded keep their success"),
		DaemonStart:  stays("adopted"),
		Archive:      refuses("it has not ended"),
	},
	Canceling: {
		LockWait:     stays("the wait is being given up"),
		Fails:        moves(Error, "the process failed on its way out"),
		Cancel:       moves(Canceled, "by the job process, as it had been told"),
		Kill:         stays("it is being canceled"),
		Reprioritise: stays("it is being canceled"),
		Dies:         moves(Error, "opcodes that had succeeded keep their success"),
		DaemonStart:  stays("adopted"),
		Archive:      refuses("it has not ended"),
	},
	Running: {
		Logs:         stays("the entry is written, and told to who waits"),
		Succeeds:     moves(Waiting, "the same write sets the next opcode waiting: it never shows queued again"),
		SucceedsLast: moves(Success, "the last write"),
		Fails:        moves(Error, "later opcodes fail with it"),
		Cancel:       refuses("Job no longer waiting, can't cancel"),
		Kill:         moves(Error, "SIGTERM to what runs, after a grace period SIGKILL"),
		Reprioritise: stays("opcodes that have not begun take it"),
		Dies:         moves(Error, "opcodes that had succeeded keep their success"),
		DaemonStart:  stays("adopted"),
		Archive:      refuses("it has not ended"),
	},
	Canceled: finalRow,
	Success:  finalRow,
	Error:    finalRow,
}

// finalRow is the row of every final status.
var finalRow = [events]Transition{
	Cancel:       refuses("not found in queue"),
	Kill:         refuses("not found in queue"),
	Reprioritise: refuses("not found in queue"),
	Dies:         stays("its process has ended, as it should"),
	DaemonStart:  stays("only its file is left"),
	Archive:      stays("its file moves to the archive, when its process is gone"),
}

// On is what an event does to a job in status s.
func (s Status) On(e Event) Transition { return transitions[s][e] }

// MustTake is On for an event that must be possible. It panics where the table says Impossible, because going on could
// run something twice.
func (s Status) MustTake(e Event) Transition {
	a := s.On(e)
	if a.Effect == Impossible {
		panic(fmt.Sprintf("a job that is %s cannot see: %s", s, e))
	}
	return a
}

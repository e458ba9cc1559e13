package job

import "fmt"

// Event is a change of one opcode. The status of the job follows from the statuses of its opcodes (Job.Status).
type Event uint8

const (
	// Begin: the job process takes the opcode up. It waits for its permission and its locks.
	Begin Event = iota
	// Execute: the opcode has its permission and its locks.
	Execute
	// Succeed: the opcode has ended well.
	Succeed
	// Fail: the opcode has failed or cannot begin, an earlier opcode has failed, or the job process has died or was never
	// started.
	Fail
	// Cancel: the job is canceled before the opcode executes.
	Cancel
	// Reprioritise: a client gives the opcode another priority.
	Reprioritise
	// Retry: a try of the opcode has ended, and another one follows.
	Retry

	events = iota
)

var eventNames = [events]string{
	Begin: "begin", Execute: "execute", Succeed: "succeed", Fail: "fail", Cancel: "cancel", Reprioritise: "reprioritise",
	Retry: "retry",
}

func (e Event) String() string { return eventNames[e] }

// Transition is one cell of the table: the status that an opcode takes, and the reason for people. The zero value says
// that the event cannot come.
type Transition struct {
	To  Status
	Why string
}

// transitions has every event in every status of an opcode (design.md "Life of a job" and "Differences"; queue.md 4.6 to
// 4.10). A final status is never left.
var transitions = [...][events]Transition{
	Queued: {
		Begin:        {Waiting, "the job process begins with this opcode, or goes on to it"},
		Fail:         {Error, "an earlier opcode has failed, the job process has died and may have begun, or the job cannot be started"},
		Cancel:       {Canceled, "a client, a filter rule or a dependency cancels the job"},
		Reprioritise: {Queued, "the opcode takes the priority"},
		Retry:        {Waiting, "the job process has died and may have begun, and another try follows"},
	},
	Waiting: {
		Begin:        {Waiting, "the job process takes up another try"},
		Execute:      {Running, "the job process has the permission and the locks"},
		Fail:         {Error, "the opcode cannot begin, or the job process has died"},
		Cancel:       {Canceled, "the job process gives the wait up; Ganeti's passes through canceling"},
		Reprioritise: {Waiting, "the opcode takes the priority, and so does its request for locks"},
		Retry:        {Waiting, "the job process has died before the try began, and another try follows"},
	},
	Canceling: {
		Fail:   {Error, "the job process has died"},
		Cancel: {Canceled, "the job process has given the wait up"},
	},
	Running: {
		Succeed: {Success, "the same write takes the next opcode up, so that the job never shows queued again"},
		Fail:    {Error, "the opcode fails, or the job process has died"},
		Retry:   {Waiting, "the try fails, or the job process has died, and another try follows"},
	},
	Canceled: {},
	Success:  {},
	Error:    {},
}

// On is what an event does to an opcode in status s, and whether the event can come.
func (s Status) On(e Event) (t Transition, possible bool) {
	t = transitions[s][e]
	return t, t.Why != ""
}

// Take changes the status of the opcode. It panics where the event cannot come, because going on could run something
// twice.
func (op *Op) Take(e Event) {
	t, possible := op.Status.On(e)
	if !possible {
		panic(fmt.Sprintf("an opcode that is %s cannot %s", op.Status, e))
	}
	op.Status = t.To
}

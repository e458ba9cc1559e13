package sim

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/sim/simdisk"
)

// Checker checks one invariant. See gets each event when it happens. An error is a violation
// and ends the run.
type Checker interface {
	Name() string
	See(w *World, event any) error
}

// AllCheckers makes one of each.
func AllCheckers() []Checker {
	return []Checker{
		&checkAcknowledged{}, &checkOnce{}, &checkEnds{}, &checkForward{}, &checkReported{},
		&checkSlots{}, &checkParse{}, &checkIDs{}, &checkLive{}, &checkLocks{}, &checkTable{}, checkReplay{}, &checkOwners{},
		&checkDepends{}, &checkRecords{}, &checkFilters{}, &checkLimits{}, &checkStartOrder{}, checkRest{}, &checkClientOrders{}, &checkStarts{},
	}
}

// The events that checkers get.
type (
	// timePassed: the step that is over has moved the time.
	timePassed struct{}
	// fileChanged: processes see another job file; job nil means that the name
	// is gone, or that what is there is not a job (then err says why).
	fileChanged struct {
		id      int64
		content []byte
		job     *job.Job
		tag     string // of job
		err     error
		op      string
	}
	// otherFileChanged: a file that is no job's has changed.
	otherFileChanged struct {
		disk *simdisk.Disk
		call simdisk.Call
		path string
	}
	// powerLost: the disk is as power loss has left it, all processes are gone.
	powerLost struct{}
	// daemonStarted: a daemon has begun; its disk is as its predecessor left it.
	daemonStarted struct{}
	// deciderStarted: the deciding actors of World.decider start, with the files of
	// their predecessors.
	deciderStarted struct{}
	// processPermitted: a process may act on its job from now on.
	processPermitted struct{ process *process }
	processEnded     struct{ process *process }
	// spawnRefused: no process could be made for a job.
	spawnRefused struct{ id int64 }
	// opcodeStarted: an opcode of a job is being executed.
	opcodeStarted struct {
		node  *node
		job   int64
		op    int
		tag   string
		input json.RawMessage
	}
	// opcodeEnded: the opcode of a process is over, nothing works with its locks.
	opcodeEnded struct{ process *process }
	// locksTaken: a process has all locks for its opcode; found: it may have had a
	// choice of them for a while, the answer to which was lost.
	locksTaken struct {
		process         *process
		op              int
		afterLostAnswer bool
	}
	// submissionSent: a client wants jobs recorded.
	submissionSent struct{ submission *submission }
	// submissionAnswered: a client has the answer to a submission, or knows that
	// there will be none.
	submissionAnswered struct{ submission *submission }
	// statusReported: a client has heard that a job has that status.
	statusReported struct {
		client *client
		id     int64
		status string
	}
	// cancelConfirmed: a client has heard that its cancel has succeeded.
	cancelConfirmed struct{ id int64 }
	// jobPicked: the queue hears that the scheduler has chosen a job to start.
	jobPicked struct{ id int64 }
	// jobReturned: the queue hears that a job could not be started, and waits.
	jobReturned struct{ id int64 }
	// opPermitted: the process of a job has permission to begin its next opcode.
	opPermitted struct {
		process *process
		op      int
	}
	// orderSent: a client wants something of a job.
	orderSent struct {
		client *client
		id     int64
	}
	// orderAnswered: it has the answer, or knows that there will be none.
	orderAnswered struct {
		client *client
		id     int64
		err    error
	}
	// processResting: no step is left, and a process does nothing about its job, since
	// then; shape is what its file says of opcodes.
	processResting struct {
		process *process
		summary string
		since   time.Time
	}
	// viewReported: the answer of the daemon about the job of a process that rests.
	viewReported struct {
		process           *process
		summary, reported string
		since             time.Time
	}
	// faultInjected: a node, or the network, was hit by a fault.
	faultInjected struct{}
	// changeSent: a client wants the rules or settings changed; changeTold: it has
	// the answer, or knows that there will be none.
	changeSent     struct{}
	changeAnswered struct{ err error }
	// panicked: an actor has.
	panicked struct{}
	// stalled: time has passed while something could have happened.
	stalled struct{}
	// diskFailed: a call to the disk has failed.
	diskFailed struct {
		node *node
		path string
	}
	// garbled: other content has replaced a job file.
	garbled struct{ id int64 }
	// finished: faults have stopped, and there was time enough for everything
	// to end.
	finished struct{}
)

func (w *World) notify(event any) {
	w.effective.observe(event)
	w.disturbance.observe(w, event)
	for _, c := range w.checkers {
		if err := c.See(w, event); err != nil && w.violation == nil {
			w.violation = &Violation{Checker: c.Name(), Step: w.stepCount, At: w.clock.Elapsed(), Err: err}
			w.trace.addf(TopicFault, "broken: %v", w.violation)
		}
	}
}

// diskChanged turns a change of a disk into events and lines of the trace.
func (n *node) diskChanged(call simdisk.Call, op, path string, content []byte) {
	if n.clustered() {
		n.sharedChanged(call, op, path)
		return
	}
	n.world.diskChanged(call, op, path, content)
}

func (w *World) diskChanged(call simdisk.Call, op, path string, content []byte) {
	id, isJob := jobOfPath(path)
	if !isJob || call == simdisk.CallSync {
		w.trace.addf(TopicDisk, "disk: %s %s (%s)", call, path, op)
		if call != simdisk.CallSync {
			w.effective.diskChanged(path, content)
			w.notify(otherFileChanged{disk: w.disk, call: call, path: path})
		}
		return
	}
	event := fileChanged{id: id, content: content, op: op}
	if content == nil {
		w.trace.addf(TopicFile, "job %d: file is gone (%s)", id, op)
	} else {
		r := jobIn(w.disk.Find(path))
		event.job, event.tag, event.err = r.job, r.tag, r.err
		w.trace.addf(TopicFile, "job %d: %s (%s)", id, jobText(event.job, event.err), op)
	}
	w.notify(event)
}

func jobOfPath(path string) (int64, bool) {
	base, inQueue := strings.CutPrefix(path, paths.QueueDir+"/")
	if !inQueue {
		return 0, false
	}
	return paths.ParseJobName(base)
}

// jobText is a job's status, and those of its opcodes where there are several.
func jobText(j *job.Job, err error) string {
	if err != nil {
		return "not a job: " + err.Error()
	}
	text := j.Status().String()
	if j.Status() == job.Queued && paths.IsJobLivelock(j.Livelock) {
		text += ", has a process"
	}
	if len(j.Ops) > 1 {
		statuses := make([]string, len(j.Ops))
		for i := range j.Ops {
			statuses[i] = j.Ops[i].Status.String()
		}
		text += " [" + strings.Join(statuses, " ") + "]"
	}
	return text
}

// Job reads a job from the disk as processes see it, archived or not, without a
// call that could fail; nil if it is not there or not a job. It is not to be changed.
func (w *World) Job(id int64) *job.Job {
	f := w.disk.Find(w.pathOf(id))
	if f == nil {
		return nil
	}
	return jobIn(f).job
}

// tagOf is the tag of a job on the disk, "" if it is not there or not a job.
func (w *World) tagOf(id int64) string {
	f := w.disk.Find(w.pathOf(id))
	if f == nil {
		return ""
	}
	return jobIn(f).tag
}

// pathOf is where a job's file is, or would be.
func (w *World) pathOf(id int64) string {
	if w.disk.Find(paths.JobPath(id)) == nil && w.disk.Find(paths.ArchivePath(id)) != nil {
		return paths.ArchivePath(id)
	}
	return paths.JobPath(id)
}

// garble replaces a job's file with other content, as an administrator may do.
func (w *World) garble(id int64, content []byte) {
	w.garbled = true
	w.disk.Overwrite(paths.JobPath(id), content)
	w.notify(garbled{id})
}

// jobIDs are the ids of all job files in the queue, ascending.
func (w *World) jobIDs() []int64 {
	var ids []int64
	for _, name := range w.disk.Names(paths.QueueDir) {
		if id, ok := paths.ParseJobName(name); ok {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// recordedIDs are those of them that are jobs: what is above the serial belongs
// to a submission that was cut off or taken back.
func (w *World) recordedIDs() []int64 {
	ids, serial := w.jobIDs(), w.serial()
	for len(ids) > 0 && ids[len(ids)-1] > serial {
		ids = ids[:len(ids)-1]
	}
	return ids
}

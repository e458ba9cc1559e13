package sim

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/paths"
	"lockstep/messages"
	"lockstep/sim/simdisk"
)

// Checker checks one invariant. See gets each event when it happens. An error is a violation and
// ends the run.
type Checker interface {
	Name() string
	See(w *World, event any) error
}

// allCheckers makes one of each checker.
func allCheckers() []Checker {
	return []Checker{
		&checkAcknowledged{}, &checkOnce{}, &checkEnds{}, &checkForward{}, &checkReported{},
		&checkSlots{}, &checkParse{}, &checkIDs{}, &checkLive{}, &checkLocks{}, &checkTable{}, checkReplay{}, &checkOwners{},
		&checkDepends{}, &checkRecords{}, &checkNames{}, &checkHolds{}, &checkWithheld{}, &checkRetention{}, &checkFilters{},
		&checkOwnRules{}, &checkLimits{}, &checkStartOrder{}, &checkExpected{}, checkRest{}, &checkClientOrders{},
		&checkStarts{}, &checkBegun{}, newCheckMarks(), &checkLogins{}, &checkFound{}, &checkEdited{}, &checkVanished{},
		&checkOutput{}, &checkFollowed{}, &checkProgress{}, &checkForgotten{}, &checkPrograms{}, checkConnections{}, checkRunDirs{},
		&checkConfig{}, &checkReservations{}, &checkSsconf{}, &checkConfd{}, &checkAudited{},
		&checkRoles{}, &checkSubmitters{},
		&checkTries{}, &checkTryRecords{}, &checkNoTryAfterCancel{}, &checkTriesUsed{}, &checkBetweenTries{},
		&checkFirings{}, checkNoted{}, &checkHistories{},
		&checkStartTimes{},
	}
}

// The events that checkers get.
type (
	// timePassed: the last step has moved the time.
	timePassed struct{}
	// fileChanged: processes see another content of a job file. job is nil if the file was
	// removed, or is no job; then err says why.
	fileChanged struct {
		id      int64
		content []byte
		job     *job.Job
		tag     string // of job
		err     error
		op      string
	}
	// otherFileChanged: a file that is no job file has changed.
	otherFileChanged struct {
		disk *simdisk.Disk
		call simdisk.Call
		path string
	}
	// powerLost: power was lost; the disk has what survived, and all processes are gone.
	powerLost struct{}
	// daemonStarted: a daemon has begun. Its disk is as its predecessor left it.
	daemonStarted struct{}
	// deciderStarted: the deciding actors of World.decider start, with the files of their
	// predecessors.
	deciderStarted struct{}
	// processPermitted: a process has its permission to act.
	processPermitted struct{ process *process }
	processEnded     struct{ process *process }
	// spawnRefused: the process of a job could not be spawned.
	spawnRefused struct{ id int64 }
	// opcodeStarted: an opcode of a job begins to execute.
	opcodeStarted struct {
		node    *node
		process *process
		job     int64
		op      int
		tag     string
		input   json.RawMessage
	}
	// opcodeEnded: the opcode of a process has ended, and no command works with its locks. outcome is missing for Ganeti's processes.
	opcodeEnded struct {
		process *process
		outcome jobproc.Outcome
	}
	// locksTaken: a process has all locks of its opcode. With found it may have had them before:
	// the answer to an earlier request was lost.
	locksTaken struct {
		process         *process
		op              int
		afterLostAnswer bool
	}
	// submissionSent: a client has sent a submission.
	submissionSent struct{ submission *submission }
	// submissionAnswered: a client has the answer to a submission, or knows that no answer will
	// come.
	submissionAnswered struct{ submission *submission }
	// statusReported: a client was told the status of a job.
	statusReported struct {
		client *client
		id     int64
		status string
		asked  uint64 // step of the world at which the client sent its question
	}
	// cancelConfirmed: a client was told that its cancel has succeeded.
	cancelConfirmed struct{ id int64 }
	// jobPicked: the queue was told that the scheduler has chosen a job to start.
	jobPicked struct{ id int64 }
	// waitShown: the queue was told what a job without a process waits for, as clients see it.
	waitShown struct {
		id   int64
		wait messages.StartWait
	}
	// queueStarted: an actor was told that the queue has started.
	queueStarted struct{}
	// jobReturned: the queue was told that a job could not be started and waits.
	jobReturned struct{ id int64 }
	// opPermitted: the process of a job has permission to begin its next opcode.
	opPermitted struct {
		process *process
		op      int
	}
	// timeSent: a client has ordered that a job starts no earlier, in microseconds since 1970; 0: that it may start now.
	timeSent struct{ id, us int64 }
	// timeAnswered: the client has the answer, or knows that no answer will come.
	timeAnswered struct {
		id, us int64
		done   bool
		err    error
	}
	// holdSent: a client has ordered a hold or a release.
	holdSent struct {
		id   int64
		hold bool
	}
	// holdAnswered: the client has the answer, or knows that no answer will come.
	holdAnswered struct {
		id   int64
		hold bool
		done bool
		text string
		err  error
	}
	// processSpawned: the process of a job exists.
	processSpawned struct{ job int64 }
	// archiveSent: a client has asked to archive a job.
	archiveSent struct{ id int64 }
	// orderSent: a client has sent a client order.
	orderSent struct {
		client *client
		id     int64
		cancel bool
	}
	// orderAnswered: the client has the answer, or knows that no answer will come.
	orderAnswered struct {
		client *client
		id     int64
		err    error
	}
	// processResting: no step is left, and since then a process does not write. shape is the
	// state of the opcodes in the job's file.
	processResting struct {
		process *process
		summary string
		since   time.Time
	}
	// viewReported: the daemon has answered a question about the job of a resting process.
	viewReported struct {
		process           *process
		summary, reported string
		since             time.Time
	}
	// filesSettled: the files of a node that has stopped do not need its log.
	filesSettled struct{ node *node }
	// faultInjected: a fault has hit a node or the network.
	faultInjected struct{}
	// changeSent: a client has sent a change of rules or settings. changeTold: it has the answer,
	// or knows that no answer will come.
	changeSent     struct{}
	changeAnswered struct{ err error }
	// panicked: an actor has panicked.
	panicked struct{}
	// stalled: time has passed although a step was possible.
	stalled struct{}
	// diskFailed: a call to the disk has failed.
	diskFailed struct {
		node *node
		path string
	}
	// daemonGoesOn: the daemon of a node runs again after it was stopped.
	daemonGoesOn struct{ node *node }
	// garbled: the content of a job file was replaced from outside.
	garbled struct{ id int64 }
	// configChangeSent: a session has sent a change of the configuration. configChangeAnswered: it has the answer, or knows that no
	// answer will come. sent is the step of the first sending.
	configChangeSent     struct{ change *configChange }
	configChangeAnswered struct {
		change  *configChange
		outcome outcome
		sent    uint64
	}
	// configSeen: a session has read the configuration. objectSeen: it has read one object.
	configSeen struct {
		sent uint64
		doc  *configDoc
	}
	objectSeen struct {
		sent   uint64
		key    docKey
		object *docObject
	}
	// portTaken: a session was given a port. portReturned: it sends a return.
	portTaken    struct{ port int64 }
	portReturned struct{ port int64 }
	// reservationMade: a session was told that it has a reservation. value is its JSON text in tempres.data.
	reservationMade struct {
		session     *configSession
		kind, value string
	}
	// reservationsDropping: a session sends the release of its reservations; minorsReleasing: of its DRBD minors.
	reservationsDropping struct{ session *configSession }
	minorsReleasing      struct{ session *configSession }
	// lockShared: a session has read the configuration twice while it had the shared configuration lock.
	lockShared struct{ first, second *configDoc }
	// ownSeen: a session has read the configuration after answered changes of its own instance.
	ownSeen struct {
		want *ownInstance
		doc  *configDoc
	}
	// addressWanted: a session asks for an address by name. addressSettled: it knows whether the address is reserved and committed,
	// or that no answer will come. addressFreed: it was told that the address is free.
	addressWanted  struct{ ip string }
	addressSettled struct {
		ip string
		is outcome
	}
	addressFreed struct{ ip string }
	// sessionEnded: the process of a session has ended.
	sessionEnded struct{ session *configSession }
	// finished: the faults have stopped, and there was time for everything to end.
	finished struct{}
)

func (w *World) notify(event any) {
	w.effective.observe(event)
	w.disturbance.observe(w, event)
	w.readers.observe(event)
	w.holders.observe(event)
	w.tryWork.observe(w, event)
	for _, c := range w.checkers {
		if err := c.See(w, event); err != nil && w.violation == nil {
			w.violation = &Violation{Checker: c.Name(), Step: w.stepCount, At: w.clock.Elapsed(), Err: err}
			w.trace.addf(topicFault, "broken: %v", w.violation)
		}
	}
}

// diskChanged makes events and lines of the trace from a change of a disk.
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
		w.trace.addf(topicDisk, "disk: %s %s (%s)", call, path, op)
		if call != simdisk.CallSync {
			w.effective.diskChanged(path)
			w.notify(otherFileChanged{disk: w.disk, call: call, path: path})
		}
		return
	}
	event := fileChanged{id: id, content: content, op: op}
	if content == nil {
		w.trace.addf(topicFile, "job %d: file is gone (%s)", id, op)
	} else {
		r := jobIn(w.disk.Find(path))
		event.job, event.tag, event.err = r.job, r.tag, r.err
		w.trace.addf(topicFile, "job %d: %s (%s)", id, jobText(event.job, event.err), op)
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

// jobText is a job's status, with those of its opcodes if there are several.
func jobText(j *job.Job, err error) string {
	if err != nil {
		return "not a job: " + err.Error()
	}
	text := j.Status().String()
	switch {
	case j.Status() == job.Queued && paths.IsJobLivelock(j.Livelock):
		text += ", has a process"
	case j.TryEnded():
		text += ", a try has ended"
	case j.IsPending() && j.Status() != job.Queued && paths.IsJobLivelock(j.Livelock):
		text += " for another try, has a process"
	case j.IsPending() && j.Status() != job.Queued:
		text += " for another try"
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

// Job returns the job on the disk as processes see it, archived or not; nil if there is no
// readable job. The read cannot fail. The job must not be changed.
func (w *World) Job(id int64) *job.Job {
	f := w.disk.Find(w.pathOf(id))
	if f == nil {
		return nil
	}
	return jobIn(f).job
}

// tagOf returns the tag of a job on the disk; "" if there is no readable job.
func (w *World) tagOf(id int64) string {
	f := w.disk.Find(w.pathOf(id))
	if f == nil {
		return ""
	}
	return jobIn(f).tag
}

// pathOf is the path of a job's file, present or not.
func (w *World) pathOf(id int64) string {
	if w.disk.Find(paths.JobPath(id)) == nil && w.disk.Find(paths.ArchivePath(id)) != nil {
		return paths.ArchivePath(id)
	}
	return paths.JobPath(id)
}

// jobIDs are the ids of all job files in the queue, ascending. Archived ones are left out.
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

// recordedIDs are the ids of recorded jobs. Files above the serial belong to a submission that
// was cut off or rolled back.
func (w *World) recordedIDs() []int64 {
	ids, serial := w.jobIDs(), w.serial()
	for len(ids) > 0 && ids[len(ids)-1] > serial {
		ids = ids[:len(ids)-1]
	}
	return ids
}

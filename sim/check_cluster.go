package sim

import (
	"fmt"

	"lockstep/core/job"
)

// clusterCheckers makes one of each checker for several nodes. Those that allCheckers has too
// judge what is committed instead of what is on a disk.
func clusterCheckers() []Checker {
	return []Checker{
		&checkAcknowledged{}, &checkOnce{}, &checkEnds{}, &checkForward{}, &checkReported{}, &checkParse{}, &checkIDs{},
		&checkDepends{}, &checkRecords{}, &checkLocks{}, &checkLive{}, checkReplicas{}, checkSettled{}, &checkFinal{},
		checkMasters{}, &checkSlots{}, newCheckMarks(), &checkFilters{}, &checkOwnRules{}, &checkHolds{}, &checkLimits{},
		&checkStartOrder{}, &checkTable{}, checkReplay{}, &checkOwners{}, checkRest{}, &checkClientOrders{}, &checkConfd{},
		&checkLogins{}, &checkFound{}, checkRunDirs{}, &checkVanished{}, &checkOutput{}, &checkFollowed{}, &checkPrograms{}, checkConnections{},
		&checkFence{}, &checkProgress{}, &checkAudited{}, &checkRoles{}, &checkSubmitters{},
		&checkTries{}, &checkTryRecords{}, &checkNoTryAfterCancel{}, &checkTriesUsed{}, &checkBetweenTries{},
		&checkStartTimes{}, &checkFirings{}, checkNoted{}, &checkHistories{},
	}
}

// checkFinal: when a client hears that a job has ended, a majority has the end. No failover
// can undo it.
type checkFinal struct{}

func (*checkFinal) Name() string { return "what was told is committed" }

func (*checkFinal) See(w *World, event any) error {
	e, is := event.(statusReported)
	if !is {
		return nil
	}
	status, known := job.ParseStatus(e.status)
	if !known || !status.Final() {
		return nil
	}
	if j := w.Job(e.id); j == nil || j.Status() != status {
		return fmt.Errorf("client %d was told that job %d is %s; what is committed says %s", e.client.number, e.id, e.status, committedText(j))
	}
	return nil
}

func committedText(j *job.Job) string {
	if j == nil {
		return "that there is no such job"
	}
	return jobText(j, nil)
}

// checkMasters: an opcode executes only on the node that the log names as the job's, and only
// before the log has the job's end.
type checkMasters struct{}

func (checkMasters) Name() string { return "who starts a job runs it" }

func (checkMasters) See(w *World, event any) error {
	e, is := event.(opcodeStarted)
	if !is {
		return nil
	}
	// In what is committed the job has ended, or there is no such job.
	if j := w.Job(e.job); j == nil || j.Status().Final() {
		return fmt.Errorf("opcode %d of job %d executes on %s; what is committed says %s", e.op, e.job, e.node.name, committedText(j))
	}
	if on := w.oracle.running[e.job].Node; on != e.node.uuid() {
		return fmt.Errorf("opcode %d of job %d executes on %s; what is committed says that it was started on %q", e.op, e.job, e.node.name, on)
	}
	return nil
}

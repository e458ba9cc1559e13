package queue

import (
	"iter"
	"slices"
	"time"

	"lockstep/core/heap"
	"lockstep/core/job"
	"lockstep/core/query"
	"lockstep/messages"
)

// entry is one job of the index.
type entry struct {
	// info is what clients are shown of the job. It is replaced, never changed: messages
	// that were sent refer to it.
	info  *messages.JobInfo
	stage stage

	counted  counted
	dueIndex int // in index.notDue, if counted.dueUs is not 0
}

func (e *entry) status() job.Status { return query.StatusOf(e.info) }

// stage says which actor may change a job's file.
type stage uint8

const (
	// pending: the scheduler may pick the job; the queue may change the file.
	pending stage = iota
	// changing: a change of the file is on its way to the disk. The scheduler does not
	// know the job; further changes are refused.
	changing
	// active: the jobs actor and the job's process own the file.
	active
	// final: the job has ended; the file does not change any longer and may be archived.
	final
)

// counted is what the counters of the index contain of one job. The zero value means
// that the job is not counted.
type counted struct {
	present      bool
	status       int32
	marked       bool
	betweenTries bool
	dueUs        int64 // of a pending job that is not between tries; 0: it was due already
	stage        stage
	withSecrets  bool
}

// index holds every job that is not archived. Its counters are updated with each
// change, so that a status request costs the same for any number of jobs.
type index struct {
	jobs map[int64]*entry
	// order has the ids of jobs in ascending order, and ids of removed jobs.
	// Invariant: len(order) < 2*len(jobs) + 64 after each removal.
	order []int64
	// secrets is read only, to count the pending jobs that have some.
	secrets Secrets

	byStatus     map[int32]int64 // number of jobs by the job.Status that clients see; no entry is 0
	marked       int64           // number of jobs that metrics count as queued, and clients see as waiting
	betweenTries int64           // number of pending jobs whose last try has failed
	notDue       heap.Heap[*entry, byDue]
	withSecrets  int64 // number of pending jobs with secrets
	active       map[int64]*entry
	finals       map[int64]*entry
}

func newIndex(secrets Secrets) *index {
	return &index{jobs: map[int64]*entry{}, secrets: secrets,
		byStatus: map[int32]int64{}, active: map[int64]*entry{}, finals: map[int64]*entry{}}
}

// get returns nil if the job is not in the index.
func (x *index) get(id int64) *entry { return x.jobs[id] }

// put adds a job, or replaces info and stage of a known one. The id of a new job must
// be higher than all ids before.
func (x *index) put(info *messages.JobInfo, stage stage) *entry {
	e := x.jobs[info.Id]
	if e == nil {
		e = &entry{}
		x.jobs[info.Id] = e
		x.order = append(x.order, info.Id)
	}
	e.info, e.stage = info, stage
	x.recount(e)
	return e
}

func (x *index) setStage(e *entry, stage stage) {
	e.stage = stage
	x.recount(e)
}

func (x *index) setInfo(e *entry, info *messages.JobInfo) {
	e.info = info
	x.recount(e)
}

// recount updates the counters for one job. It is also called when the secrets of the
// job have changed.
func (x *index) recount(e *entry) {
	x.uncount(e)
	id := e.info.Id
	e.counted = counted{
		present:      true,
		status:       int32(query.ClientStatus(e.info)),
		marked:       query.ClientStatus(e.info) != query.CountedStatus(e.info),
		betweenTries: e.stage == pending && e.info.GetTry().GetNumber() > 1,
		stage:        e.stage,
		withSecrets:  e.stage == pending && x.secrets[id] != nil,
	}
	if e.stage == pending && !e.counted.betweenTries && e.info.DueUs > 0 {
		e.counted.dueUs = e.info.DueUs
		x.notDue.Push(e)
	}
	x.byStatus[e.counted.status]++
	if e.counted.marked {
		x.marked++
	}
	if e.counted.betweenTries {
		x.betweenTries++
	}
	if e.counted.withSecrets {
		x.withSecrets++
	}
	switch e.stage {
	case active:
		x.active[id] = e
	case final:
		x.finals[id] = e
	}
}

func (x *index) uncount(e *entry) {
	was := e.counted
	if !was.present {
		return
	}
	if was.dueUs > 0 {
		x.notDue.Remove(e.dueIndex)
	}
	e.counted = counted{}
	if x.byStatus[was.status]--; x.byStatus[was.status] == 0 {
		delete(x.byStatus, was.status)
	}
	if was.marked {
		x.marked--
	}
	if was.betweenTries {
		x.betweenTries--
	}
	if was.withSecrets {
		x.withSecrets--
	}
	switch was.stage {
	case active:
		delete(x.active, e.info.Id)
	case final:
		delete(x.finals, e.info.Id)
	}
}

// byDue is the order of the jobs of index.notDue.
type byDue struct{}

func (byDue) Before(a, b *entry) bool {
	return a.counted.dueUs < b.counted.dueUs || a.counted.dueUs == b.counted.dueUs && a.info.Id < b.info.Id
}

func (byDue) Moved(e *entry, index int) { e.dueIndex = index }

// countNotDue is the number of pending jobs that are not due, without those between two tries.
func (x *index) countNotDue(now time.Time) int64 {
	for x.notDue.Len() > 0 && x.notDue.First().counted.dueUs <= now.UnixMicro() {
		x.notDue.Pop().counted.dueUs = 0
	}
	return int64(x.notDue.Len())
}

// remove drops a job. Its id stays in order until half of order are such ids, so that
// the cost of one removal does not grow with the queue.
func (x *index) remove(id int64) {
	x.uncount(x.jobs[id])
	delete(x.jobs, id)
	if len(x.order) < 2*len(x.jobs)+64 {
		return
	}
	kept := make([]int64, 0, len(x.jobs))
	for _, id := range x.order {
		if x.jobs[id] != nil {
			kept = append(kept, id)
		}
	}
	x.order = kept
}

// all yields the jobs by ascending id.
func (x *index) all() iter.Seq2[int64, *entry] {
	return func(yield func(int64, *entry) bool) {
		for _, id := range x.order {
			if e := x.jobs[id]; e != nil && !yield(id, e) {
				return
			}
		}
	}
}

// row is a job as a client is shown it. A job that the queue does not have is Unknown.
func (x *index) row(id int64) *messages.JobRow {
	if e := x.jobs[id]; e != nil {
		return &messages.JobRow{Id: id, Info: e.info}
	}
	return &messages.JobRow{Id: id, Unknown: true}
}

// rows returns the rows of all jobs by ascending id.
func (x *index) rows() []*messages.JobRow {
	rows := make([]*messages.JobRow, 0, len(x.jobs))
	for id := range x.all() {
		rows = append(rows, x.row(id))
	}
	return rows
}

// window returns the first rows after the id cursor, at most limit of them. With newest it
// returns those below cursor by descending id; 0 is above all ids. The cost does not grow
// with the queue.
func (x *index) window(cursor int64, limit int, newest bool) []*messages.JobRow {
	var rows []*messages.JobRow
	add := func(id int64) {
		if x.jobs[id] != nil {
			rows = append(rows, x.row(id))
		}
	}
	at, found := slices.BinarySearch(x.order, cursor)
	if newest {
		if cursor == 0 {
			at = len(x.order)
		}
		for at--; at >= 0 && len(rows) < limit; at-- {
			add(x.order[at])
		}
		return rows
	}
	if found {
		at++
	}
	for ; at < len(x.order) && len(rows) < limit; at++ {
		add(x.order[at])
	}
	return rows
}

// unfinished returns all jobs that are not final, by ascending id. It allocates them
// at once: a client that submits a job now waits for the answer to this list.
func (x *index) unfinished() []*messages.UnfinishedJob {
	jobs := make([]*messages.UnfinishedJob, 0, len(x.jobs))
	allocated := make([]messages.UnfinishedJob, len(x.jobs))
	for id, e := range x.all() {
		if e.stage != final {
			w := &allocated[len(jobs)]
			w.Id, w.Encoded, w.Name = id, e.info.Encoded, e.info.Name
			jobs = append(jobs, w)
		}
	}
	return jobs
}

// activeJobs returns the active jobs by ascending id. They are at most as many as
// there are run slots.
func (x *index) activeJobs() []*messages.JobInfo {
	var infos []*messages.JobInfo
	for _, e := range x.active {
		infos = append(infos, e.info)
	}
	slices.SortFunc(infos, func(a, b *messages.JobInfo) int { return int(a.Id - b.Id) })
	return infos
}

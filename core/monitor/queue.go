package monitor

import (
	"time"

	"lockstep/core/heap"
	"lockstep/core/job"
	"lockstep/core/query"
	"lockstep/messages"
)

// Role is what a node is in its cluster.
type Role string

// Roles. The queue runs on a leader, and on a node outside of a cluster.
const (
	Leader    Role = "leader"
	Candidate Role = "candidate" // it has a vote, and no leader is known
	Follower  Role = "follower"
	Alone     Role = "none" // outside of a cluster
)

// RunsQueue reports whether the queue runs on a node with this role.
func (r Role) RunsQueue() bool { return r == Leader || r == Alone }

// QueueReport is what the collector "queue" reports. On a node without the queue it has only status and role, and jobs is null.
type QueueReport struct {
	Status Status     `json:"status"`
	Role   Role       `json:"role"`
	Jobs   *JobCounts `json:"jobs"`
	*QueueDetails
}

// JobCounts are numbers of jobs by status; those of the final statuses count since the start of the daemon.
type JobCounts struct {
	Queued    int64 `json:"queued"`
	Waiting   int64 `json:"waiting"`
	Running   int64 `json:"running"`
	Canceling int64 `json:"canceling"`
	Success   int64 `json:"success"`
	Error     int64 `json:"error"`
	Canceled  int64 `json:"canceled"`
}

// of returns the place of the count of a status; nil for an unknown status.
func (c *JobCounts) of(s job.Status) *int64 {
	return map[job.Status]*int64{job.Queued: &c.Queued, job.Waiting: &c.Waiting, job.Running: &c.Running, job.Canceling: &c.Canceling,
		job.Success: &c.Success, job.Error: &c.Error, job.Canceled: &c.Canceled}[s]
}

// ByStatus returns the counts by the names of the statuses.
func (c *JobCounts) ByStatus() map[string]int64 {
	all := map[string]int64{}
	for s := job.Queued; s <= job.Error; s++ {
		all[s.String()] = *c.of(s)
	}
	return all
}

// QueueDetails are the part of a QueueReport that is known only where the queue runs. Totals count since the start of the daemon.
type QueueDetails struct {
	PendingMax    int64     `json:"pending_max"`            // greatest number of queued and waiting jobs at a time
	OldestQueued  *float64  `json:"oldest_queued_seconds"`  // since its submission, or its time; null: none is queued
	OldestWaiting *float64  `json:"oldest_waiting_seconds"` // since its submission; null: none waits
	Started       int64     `json:"started_total"`
	Finished      int64     `json:"finished_total"`
	SubmitToStart Quantiles `json:"submit_to_start_seconds"` // of jobs started in the last ten minutes
	Drained       bool      `json:"drained"`
	Rejected      int64     `json:"rejected_by_filter_total"`
	Archived      int64     `json:"archived_total"`
	// StartTimes are all times from a submission to a start. The report has them as SubmitToStart.
	StartTimes Histogram `json:"-"`
}

// Quantiles are the median, the 90th and the 99th percentile of times in seconds; null if there were no times.
type Quantiles struct {
	P50 *float64 `json:"p50"`
	P90 *float64 `json:"p90"`
	P99 *float64 `json:"p99"`
}

// QueueState is what the queue says of itself beside its jobs.
type QueueState struct {
	Drained  bool
	RunSlots int // 0: unknown
	Disk     DiskState
}

// DiskState is the state of the disk of the queue.
type DiskState struct {
	Unwritable bool    // the directory of the queue cannot be written
	Free       float64 // part that is free; 0 while it is not Known
	Known      bool
}

// Limits beyond which a report is not fine.
const (
	queuedLimit = 5 * time.Minute // of the oldest queued job while run slots are free
	freeLimit   = 0.01            // of the disk
)

// Queue makes reports about the queue from the changes of jobs that the queue publishes.
type Queue struct {
	known   bool // the jobs of the queue are known
	jobs    map[int64]*trackedJob
	byAge   [2]heap.Heap[*trackedJob, byAge] // of queued and of waiting jobs
	last    int64                            // highest id seen
	counts  JobCounts
	details QueueDetails
	recent  recent
}

// trackedJob is a job that has not ended, as far as the reports of the queue need it.
type trackedJob struct {
	id       int64
	received int64 // microseconds since 1970
	status   job.Status
	started  bool
	index    int // in its heap
}

// byAge orders jobs by their submission.
type byAge struct{}

func (byAge) Before(a, b *trackedJob) bool {
	return a.received < b.received || a.received == b.received && a.id < b.id
}
func (byAge) Moved(j *trackedJob, index int) { j.index = index }

// NewQueue returns what makes reports about the queue. It knows no jobs until Listed.
func NewQueue() *Queue {
	return &Queue{jobs: map[int64]*trackedJob{}, details: QueueDetails{StartTimes: NewWaits()}}
}

// Forget drops all jobs, because another node runs the queue, or the queue starts again. Totals stay.
func (q *Queue) Forget() {
	q.known = false
	clear(q.jobs)
	q.byAge = [2]heap.Heap[*trackedJob, byAge]{}
	q.counts.Queued, q.counts.Waiting, q.counts.Running, q.counts.Canceling = 0, 0, 0, 0
}

// Listed takes the list of all jobs, which a queue that starts sends before changes.
func (q *Queue) Listed(jobs []*messages.JobInfo) {
	q.Forget()
	q.known = true
	for _, info := range jobs {
		q.last = max(q.last, info.Id)
		if !query.StatusOf(info).Final() {
			q.set(info)
		}
	}
	q.countPending()
}

// Changed takes the jobs that have changed, and the number of jobs that were archived meanwhile.
func (q *Queue) Changed(now time.Time, jobs []*messages.JobInfo, archived int) {
	if !q.known {
		return // the list of all jobs comes
	}
	q.details.Archived += int64(archived)
	for _, info := range jobs {
		q.change(now, info)
	}
	q.countPending()
}

func (q *Queue) change(now time.Time, info *messages.JobInfo) {
	before, tracked := q.jobs[info.Id]
	isNew := info.Id > q.last
	q.last = max(q.last, info.Id)
	if !tracked && !isNew {
		if query.StatusOf(info).Final() {
			return // its end was counted
		}
	}
	if info.StartUs != 0 && (tracked && !before.started || isNew) {
		q.details.Started++
		seconds := max(0, float64(info.StartUs-max(info.ReceivedUs, info.AtUs))/1e6)
		q.details.StartTimes.Observe(seconds)
		q.recent.add(now, seconds)
	}
	q.drop(info.Id)
	if status := query.StatusOf(info); status.Final() {
		q.details.Finished++
		*q.counts.of(status)++
		if info.Result == rejectedResult {
			q.details.Rejected++
		}
		return
	}
	q.set(info)
}

// rejectedResult is the result of a job that a filter rule has rejected (package record).
const rejectedResult = "rejected by a filter rule"

func (q *Queue) set(info *messages.JobInfo) {
	j := &trackedJob{id: info.Id, received: max(info.ReceivedUs, info.AtUs), status: query.CountedStatus(info), started: info.StartUs != 0}
	q.jobs[j.id] = j
	if count := q.counts.of(j.status); count != nil {
		*count++
	}
	if j.status <= job.Waiting {
		q.byAge[j.status].Push(j)
	}
}

func (q *Queue) drop(id int64) {
	j, tracked := q.jobs[id]
	if !tracked {
		return
	}
	delete(q.jobs, id)
	if count := q.counts.of(j.status); count != nil {
		*count--
	}
	if j.status <= job.Waiting {
		q.byAge[j.status].Remove(j.index)
	}
}

func (q *Queue) countPending() {
	q.details.PendingMax = max(q.details.PendingMax, q.counts.Queued+q.counts.Waiting)
}

// Unfinished reports whether a job is known and not final.
func (q *Queue) Unfinished(id int64) bool { return q.jobs[id] != nil }

// IsKnown reports whether the jobs of the queue are known.
func (q *Queue) IsKnown() bool { return q.known }

// oldest returns the age of the oldest job with a status; nil: there is none.
func (q *Queue) oldest(now time.Time, status job.Status) *float64 {
	h := &q.byAge[status]
	if h.Len() == 0 {
		return nil
	}
	age := max(0, now.Sub(time.UnixMicro(h.First().received)).Seconds())
	return &age
}

// Report returns the report about the queue at a time, for a node with this role. A node that does not run the queue reports only its
// role, and a queue that has not started only its status.
func (q *Queue) Report(now time.Time, role Role, state QueueState) QueueReport {
	r := QueueReport{Role: role}
	if !role.RunsQueue() {
		r.Role = Follower
		return r
	}
	if state.Disk.Unwritable {
		r.Status.worsen(NeedsYou, "the directory of the queue cannot be written")
	}
	if state.Disk.Known && state.Disk.Free < freeLimit {
		r.Status.worsen(NeedsYou, "less than %g %% of the disk of the queue is free", freeLimit*100)
	}
	if !q.known {
		r.Status.worsen(Unknown, "the queue has not started yet")
		return r
	}
	counts, details := q.counts, q.details
	details.StartTimes = q.details.StartTimes.Clone()
	details.OldestQueued, details.OldestWaiting = q.oldest(now, job.Queued), q.oldest(now, job.Waiting)
	quantiles := q.recent.quantiles(now, 0.5, 0.9, 0.99)
	details.SubmitToStart = Quantiles{quantiles[0], quantiles[1], quantiles[2]}
	details.Drained = state.Drained
	if state.Drained {
		r.Status.worsen(Repairs, "the queue is drained and takes no jobs")
	}
	free := state.RunSlots > 0 && counts.Running+counts.Waiting < int64(state.RunSlots)
	if free && details.OldestQueued != nil && *details.OldestQueued > queuedLimit.Seconds() {
		r.Status.worsen(Repairs, "a job has been queued for more than %v while run slots are free; lockstep why tells the reason", queuedLimit)
	}
	r.Jobs, r.QueueDetails = &counts, &details
	return r
}

// Data encodes the report for clients. It has neither ids nor names of jobs, so all clients get the whole.
func (r QueueReport) Data() Data { return Data{Full: r, Code: r.Status.Code} }

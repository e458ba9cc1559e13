package queue

import (
	"slices"

	"lockstep/messages"
)

// tally is how the queue stands, in numbers. It is kept up to date with each change of a job: whoever asks for it must not
// wait the longer the more jobs there are.
type tally struct {
	jobs        map[int32]int64 // by status
	withSecrets int64           // pending jobs whose secrets are kept
	active      map[int64]*entry
	finals      map[int64]*entry // that are only a file
}

func newTally() tally {
	return tally{jobs: map[int32]int64{}, active: map[int64]*entry{}, finals: map[int64]*entry{}}
}

// tallied is what the tally has of one job.
type tallied struct {
	present     bool
	status      int32
	stage       stage
	withSecrets bool
}

// updateTally takes what has changed of a job into the tally. It is called after each change of its place, its status or its secrets.
func (q *queue) updateTally(id int64, e *entry) {
	q.tally.remove(id, e)
	e.tallied = tallied{present: true, status: e.info.Status, stage: e.stage, withSecrets: e.stage == pending && q.secrets[id] != nil}
	t := &q.tally
	t.jobs[e.tallied.status]++
	if e.tallied.withSecrets {
		t.withSecrets++
	}
	switch e.stage {
	case active:
		t.active[id] = e
	case final:
		t.finals[id] = e
	}
}

// remove takes a job out of the tally.
func (t *tally) remove(id int64, e *entry) {
	was := e.tallied
	if !was.present {
		return
	}
	e.tallied = tallied{}
	if t.jobs[was.status]--; t.jobs[was.status] == 0 {
		delete(t.jobs, was.status)
	}
	if was.withSecrets {
		t.withSecrets--
	}
	switch was.stage {
	case active:
		delete(t.active, id)
	case final:
		delete(t.finals, id)
	}
}

// activeJobs are the jobs that the jobs actor has, in the order of their ids: no more than there are slots.
func (t *tally) activeJobs() []*messages.JobInfo {
	var infos []*messages.JobInfo
	for _, e := range t.active {
		infos = append(infos, e.info)
	}
	slices.SortFunc(infos, func(a, b *messages.JobInfo) int { return int(a.Id - b.Id) })
	return infos
}

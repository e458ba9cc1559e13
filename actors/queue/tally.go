package queue

import (
	"slices"

	"lockstep/messages"
)

// tally is how the queue stands, in numbers. It is kept up to date with each change of a job: whoever asks for it must not
// wait the longer the more jobs there are.
type tally struct {
	jobs    map[int32]int64 // by status
	secrets int64           // pending jobs whose secrets are in the vault
	out     map[int64]*entry
	finals  map[int64]*entry // that are only a file
}

func newTally() tally {
	return tally{jobs: map[int32]int64{}, out: map[int64]*entry{}, finals: map[int64]*entry{}}
}

// counted is what the tally has of one job.
type counted struct {
	known   bool
	status  int32
	place   place
	secrets bool
}

// count takes what has changed of a job into the tally. It is called after each change of its place, its status or its secrets.
func (q *queue) count(id int64, e *entry) {
	q.tally.remove(id, e)
	e.counted = counted{known: true, status: e.info.Status, place: e.place, secrets: e.place == pending && q.vault[id] != nil}
	t := &q.tally
	t.jobs[e.counted.status]++
	if e.counted.secrets {
		t.secrets++
	}
	switch e.place {
	case out:
		t.out[id] = e
	case final:
		t.finals[id] = e
	}
}

// remove takes a job out of the tally.
func (t *tally) remove(id int64, e *entry) {
	was := e.counted
	if !was.known {
		return
	}
	e.counted = counted{}
	if t.jobs[was.status]--; t.jobs[was.status] == 0 {
		delete(t.jobs, was.status)
	}
	if was.secrets {
		t.secrets--
	}
	switch was.place {
	case out:
		delete(t.out, id)
	case final:
		delete(t.finals, id)
	}
}

// running are the jobs that the jobs actor has, in the order of their ids: no more than there are slots.
func (t *tally) running() []*messages.JobInfo {
	var infos []*messages.JobInfo
	for _, e := range t.out {
		infos = append(infos, e.info)
	}
	slices.SortFunc(infos, func(a, b *messages.JobInfo) int { return int(a.Id - b.Id) })
	return infos
}

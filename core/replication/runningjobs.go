package replication

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"

	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/messages"
)

// RunningJobs are the jobs that have begun and not ended, according to the log. All nodes agree on it at each index of
// the log.
type RunningJobs map[int64]RunningJob

// RunningJob is a job that has begun: its node, and its progress, see Progress.
type RunningJob struct {
	Node     string `json:"on"`
	Progress int    `json:"progress"`
}

// Apply applies a committed entry.
func (r RunningJobs) Apply(e *messages.LogEntry) {
	for _, c := range e.Changes {
		switch what := c.What.(type) {
		case *messages.FileChange_Update:
			r.applyUpdate(e.Origin, what.Update)
		case *messages.FileChange_Rename:
			r.forget(what.Rename.From)
		case *messages.FileChange_Remove:
			r.forget(what.Remove.Path)
		}
	}
}

func (r RunningJobs) applyUpdate(origin string, u *messages.FileUpdate) {
	id, ok := JobIDOf(u.Path)
	if !ok {
		return
	}
	j, err := job.Decode(u.Content)
	if err != nil || j.Status().Final() || !paths.IsJobLivelock(j.Livelock) {
		delete(r, id)
		return
	}
	running, known := r[id]
	if !known {
		running.Node = origin
	}
	running.Progress = Progress(j)
	r[id] = running
}

func (r RunningJobs) forget(file string) {
	if id, ok := JobIDOf(file); ok {
		delete(r, id)
	}
}

// StartedOn are the jobs that a node has started, by id.
func (r RunningJobs) StartedOn(node string) []int64 {
	var ids []int64
	for id, running := range r {
		if running.Node == node {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// StartedElsewhere reports whether another node has started jobs that have not ended.
func (r RunningJobs) StartedElsewhere(node string) bool { return len(r.StartedOn(node)) < len(r) }

// Encode is the list as JSON. Equal RunningJobs have the same encoding.
func (r RunningJobs) Encode() []byte {
	data, err := json.Marshal(map[int64]RunningJob(r))
	if err != nil {
		panic(fmt.Errorf("encode the list of running jobs: %w", err)) // numbers and strings
	}
	return data
}

// DecodeRunningJobs is the inverse of Encode. Empty data means no jobs.
func DecodeRunningJobs(data []byte) (RunningJobs, error) {
	r := RunningJobs{}
	if len(data) == 0 {
		return r, nil
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("the list of running jobs cannot be read: %w", err)
	}
	return r, nil
}

// JobIDOf is the id of the live job with this file; false for a file of another kind.
func JobIDOf(file string) (int64, bool) {
	if path.Dir(file) != paths.QueueDir {
		return 0, false
	}
	return paths.ParseJobName(path.Base(file))
}

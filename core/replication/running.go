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

// Running are the jobs that have begun and not ended, as the log has them. All nodes
// agree on it at each index of the log.
type Running map[int64]Begun

// Begun is a job that has begun: on which node, and how far it has come, see Progress.
type Begun struct {
	On       string `json:"on"`
	Progress int    `json:"progress"`
}

// Note takes an entry that was committed.
func (r Running) Note(e *messages.LogEntry) {
	for _, c := range e.Changes {
		switch what := c.What.(type) {
		case *messages.FileChange_Update:
			r.noteUpdate(e.Origin, what.Update)
		case *messages.FileChange_Rename:
			r.forget(what.Rename.From)
		case *messages.FileChange_Remove:
			r.forget(what.Remove.Path)
		}
	}
}

func (r Running) noteUpdate(origin string, u *messages.FileUpdate) {
	id, ok := JobOf(u.Path)
	if !ok {
		return
	}
	j, err := job.Decode(u.Content)
	if err != nil || j.Status().Final() || !paths.IsJobLivelock(j.Livelock) {
		delete(r, id)
		return
	}
	begun, known := r[id]
	if !known {
		begun.On = origin
	}
	begun.Progress = Progress(j)
	r[id] = begun
}

func (r Running) forget(file string) {
	if id, ok := JobOf(file); ok {
		delete(r, id)
	}
}

// On are the jobs, by id, that a node has started; Elsewhere says whether another has
// started any.
func (r Running) On(node string) []int64 {
	var ids []int64
	for id, begun := range r {
		if begun.On == node {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Elsewhere: a node other than this one has started jobs that have not ended.
func (r Running) Elsewhere(node string) bool { return len(r.On(node)) < len(r) }

// Encode is the same for two that are equal.
func (r Running) Encode() []byte {
	data, err := json.Marshal(map[int64]Begun(r))
	if err != nil {
		panic(fmt.Errorf("repl: %w", err)) // numbers and strings
	}
	return data
}

// DecodeRunning is the inverse of Encode; nothing at all is no job.
func DecodeRunning(data []byte) (Running, error) {
	r := Running{}
	if len(data) == 0 {
		return r, nil
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("the list of running jobs cannot be read: %w", err)
	}
	return r, nil
}

// JobOf is the live job whose file that is.
func JobOf(file string) (int64, bool) {
	if path.Dir(file) != paths.QueueDir {
		return 0, false
	}
	return paths.ParseJobName(path.Base(file))
}

package replication_test

import (
	"encoding/json"
	"maps"

	"lockstep/core/config/journal"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/core/replication"
	"lockstep/messages"
)

// files are the files of one node.
type files map[string]string

// perform applies requests as the store does.
func (f files) perform(requests []*messages.AccessStore) {
	for _, r := range requests {
		switch what := r.What.(type) {
		case *messages.AccessStore_Write:
			for _, w := range what.Write.Files {
				f[w.Path] = string(w.Content)
			}
		case *messages.AccessStore_Move:
			for _, m := range what.Move.Files {
				if content, there := f[m.From]; there {
					f[m.To] = content
					delete(f, m.From)
				}
			}
		case *messages.AccessStore_Remove:
			for _, path := range what.Remove.Paths {
				delete(f, path)
			}
		}
	}
}

// apply applies a batch as the replicator does. A whole configuration is a file.
func (f files) apply(by replication.Applier, entries []*messages.LogEntry) {
	changes, err := replication.ConfigChanges(entries, noneDecoded)
	if err != nil {
		panic(err)
	}
	for _, c := range changes {
		if c.Whole != nil {
			f[paths.ConfigPath] = string(c.Whole.Config)
		}
	}
	local := map[string][]byte{}
	for _, file := range by.PathsToRead(entries) {
		local[file] = nil
		if content, there := f[file]; there {
			local[file] = []byte(content)
		}
	}
	f.perform(by.Apply(entries, local))
}

func noneDecoded(*messages.LogEntry) []*journal.Record { return nil }

func (f files) clone() files { return maps.Clone(f) }

const daemonLock = "/run/livelocks/daemon_1"

// jobAs is a job with one opcode. note distinguishes two states of the job.
func jobAs(id int64, livelock string, status job.Status, note int) []byte {
	j := job.New(job.ID(id), []json.RawMessage{json.RawMessage(`{"OP_ID": "OP_TEST_DELAY", "duration": 1.0}`)}, []int{0}, job.Timestamp{Sec: 1}, livelock)
	j.Ops[0].Status = status
	j.Start = job.Timestamp{Sec: int64(note)}
	return job.Encode(j)
}

func updateChange(by replication.Applier, file string, content []byte) *messages.LogEntry {
	return entry(by, replication.WriteChanges(&messages.WriteFiles{Files: []*messages.FileWrite{{Path: file, Content: content}}}))
}

func observed(by replication.Applier, id int64, content []byte) *messages.LogEntry {
	return entry(by, []*messages.FileChange{replication.ObservedChange(paths.JobPath(id), content)})
}

func archived(by replication.Applier, id int64) *messages.LogEntry {
	return entry(by, replication.RenameChanges(&messages.MoveFiles{Files: []*messages.MoveFile{{From: paths.JobPath(id), To: paths.ArchivePath(id)}}}))
}

func removed(by replication.Applier, file string) *messages.LogEntry {
	return entry(by, replication.RemoveChanges(&messages.RemoveFiles{Paths: []string{file}}))
}

func entry(by replication.Applier, changes []*messages.FileChange) *messages.LogEntry {
	return &messages.LogEntry{Origin: by.Node, Incarnation: by.Incarnation, Changes: changes}
}

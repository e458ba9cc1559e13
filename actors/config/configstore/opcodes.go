package configstore

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/config/model"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/messages"
)

// jobFilesMax bounds the job files that one fold reads.
const jobFilesMax = 100

// jobFiles are the contents of the files of jobs that have made changes, by id. They tell the history which opcode a job executed.
type jobFiles map[int64][]byte

// readJobFiles reads the files of the jobs that have made the changes of records. A file that cannot be read is left out: the entry
// then names the job alone.
func (k *configstore) readJobFiles(ctx actor.Context, records []entry, then func(actor.Context, jobFiles)) {
	var ids []int64
	for _, e := range records {
		if id := e.record.Job; id > 0 && e.record.Delta != nil && !slices.Contains(ids, id) && len(ids) < jobFilesMax {
			ids = append(ids, id)
		}
	}
	k.readNextJob(ctx, ids, jobFiles{}, then)
}

func (k *configstore) readNextJob(ctx actor.Context, ids []int64, files jobFiles, then func(actor.Context, jobFiles)) {
	if len(ids) == 0 {
		then(ctx, files)
		return
	}
	id := ids[0]
	read := func(ctx actor.Context, path string, absent func(actor.Context)) {
		k.store.Read(ctx, "config-history", path, func(ctx actor.Context, r *messages.ReadFileResult) {
			if r.Missing || r.Failure != nil {
				absent(ctx)
				return
			}
			files[id] = r.Content
			k.readNextJob(ctx, ids[1:], files, then)
		})
	}
	read(ctx, paths.JobPath(id), func(ctx actor.Context) {
		read(ctx, paths.ArchivePath(id), func(ctx actor.Context) { k.readNextJob(ctx, ids[1:], files, then) })
	})
}

// opcodeAt returns the OP_ID of the opcode that a job executed at a time, "" if that is unknown.
func (f jobFiles) opcodeAt(id int64, at model.Time) string {
	content, found := f[id]
	if !found {
		return ""
	}
	j, err := job.Decode(content)
	if err != nil {
		return ""
	}
	seconds := func(t job.Timestamp) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	for _, op := range slices.Backward(j.Ops) {
		if began := seconds(op.Start); began > 0 && began <= float64(at) {
			return job.OpID(op.Input)
		}
	}
	return ""
}

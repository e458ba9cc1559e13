package store

import (
	"errors"
	"io/fs"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/core/paths"
	"lockstep/messages"
)

// writer makes one blocking disk call at a time. Writers are the only actors that block.
// The store never waits for them, except that a restarted store waits until the former
// writers have ended, so that a late write cannot overtake a new one.
type writer struct {
	files Files
}

func (w *writer) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *messages.RunDiskTask:
		done := w.do(m)
		done.Incarnation, done.Task = m.Incarnation, m.Task
		ctx.Respond(done)
	default:
		kit.Unexpected(ctx)
	}
}

func (w *writer) do(m *messages.RunDiskTask) *messages.RunDiskTaskResult {
	var err error
	done := &messages.RunDiskTaskResult{}
	switch what := m.What.(type) {
	case *messages.RunDiskTask_Replace:
		content := what.Replace.Parts
		if content == nil {
			content = [][]byte{what.Replace.Content}
		}
		replace := w.files.Replace
		if what.Replace.Unsynced {
			replace = w.files.ReplaceUnsynced
		}
		err = replace(what.Replace.Op, what.Replace.Path, content...)
	case *messages.RunDiskTask_Append:
		appendTo := w.files.Append
		if what.Append.Durable {
			appendTo = w.files.AppendDurable
		}
		err = appendTo(what.Append.Op, what.Append.Path, what.Append.Content)
		var left interface{ Unchanged() bool }
		done.Unchanged = errors.As(err, &left) && left.Unchanged()
	case *messages.RunDiskTask_SyncDir:
		err = w.files.SyncDir(what.SyncDir.Op, what.SyncDir.Dir)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // the directory of a file that never existed has nothing to sync
		}
	case *messages.RunDiskTask_Remove:
		err = w.files.Remove(what.Remove.Op, what.Remove.Path)
	case *messages.RunDiskTask_Move:
		err = w.move(what.Move)
		done.Missing = errors.Is(err, fs.ErrNotExist)
	case *messages.RunDiskTask_List:
		done.Names, err = w.files.List(what.List.Op, what.List.Dir)
	case *messages.RunDiskTask_Read:
		done.Content, err = w.files.Read(what.Read.Op, what.Read.Path)
		if errors.Is(err, fs.ErrNotExist) {
			done.Missing, err = true, nil
		}
	case *messages.RunDiskTask_Identify:
		done.Identity, err = w.files.Identify(what.Identify.Op, what.Identify.Path)
		if errors.Is(err, fs.ErrNotExist) {
			done.Missing, err = true, nil
		}
	case *messages.RunDiskTask_ReadJobs:
		done.Jobs = w.readJobs(what.ReadJobs)
	default:
		panic("writer task without a content")
	}
	done.Failure = messages.Generic(err)
	return done
}

// move also succeeds if it was done before, because a restarted store may get a request
// again that it has carried out but not answered.
func (w *writer) move(m *messages.MoveFile) error {
	err := w.files.Rename(m.Op, m.From, m.To)
	if errors.Is(err, fs.ErrNotExist) {
		if _, there := w.files.Read(m.Op, m.To); there == nil {
			return nil
		}
	}
	return err
}

func (w *writer) readJobs(m *messages.ReadJobs) []*messages.ScannedJob {
	jobs := make([]*messages.ScannedJob, 0, len(m.Ids))
	left := m.WithRecord
	for _, id := range m.Ids {
		var record []byte
		var unread error
		// The record is read before its job, because an archiving moves the job first. In the other order the job could be read here and its
		// record be gone.
		if len(left) > 0 && left[0] == id {
			left = left[1:]
			if record, unread = w.files.Read("scan-record", paths.RecordPath(id)); errors.Is(unread, fs.ErrNotExist) {
				unread = nil
			}
		}
		content, err := w.files.Read("scan-job", paths.JobPath(id))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the job was archived after the listing
		}
		jobs = append(jobs, &messages.ScannedJob{Id: id, Content: content, Record: record, Failure: messages.Generic(errors.Join(err, unread))})
	}
	return jobs
}

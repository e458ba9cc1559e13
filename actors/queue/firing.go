package queue

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/core/paths"
	"lockstep/core/schedule"
	"lockstep/messages"
)

// firingFile is the schedule's file of a submission, with the ids of its jobs; nil: no schedule submits it.
func (s *submission) firingFile() *messages.FileWrite {
	if s.firing == nil {
		return nil
	}
	content, err := schedule.WithJobs(s.firing.File, s.firstID())
	if err != nil {
		panic(fmt.Errorf("the file of a firing: %w", err)) // the calendar has encoded it
	}
	return scheduleFile("fire-schedule", s.firing.Schedule, content)
}

// formerFile is the schedule's file as it was before the submission; nil: no schedule submits it.
func (s *submission) formerFile() *messages.FileWrite {
	if s.firing == nil {
		return nil
	}
	return scheduleFile("restore-schedule", s.firing.Schedule, s.firing.Before)
}

func scheduleFile(op, name string, content []byte) *messages.FileWrite {
	return &messages.FileWrite{Op: op, Path: paths.SchedulePath(name), Content: content}
}

// takeBackFirings restores the schedules whose last jobs are above the serial: those jobs were never recorded. It must be done before
// the serial rises, and is done before the queue takes a request.
func (q *queue) takeBackFirings(ctx actor.Context, serial int64, then func(actor.Context)) {
	q.store.List(ctx, "schedules", paths.ScheduleDir, func(ctx actor.Context, m *messages.ListDirResult) {
		if m.Failure != nil {
			panic(fmt.Errorf("list the schedules: %w", m.Failure))
		}
		var files []string
		for _, base := range m.Names {
			if _, is := paths.ParseSchedulePath(paths.ScheduleDir + "/" + base); is {
				files = append(files, paths.ScheduleDir+"/"+base)
			}
		}
		t := &takenBack{queue: q, serial: serial, then: then}
		t.read(ctx, files, 0)
	})
}

// takenBack are the schedules from which firings are taken back.
type takenBack struct {
	queue    *queue
	serial   int64
	restored []*messages.FileWrite
	then     func(actor.Context)
}

// read reads files of schedules in parallel. Files that cannot be read are read again after a pause, as those of jobs (rereadFailed). After
// that a firing in them counts as recorded.
func (t *takenBack) read(ctx actor.Context, files []string, tries int) {
	open, failed := len(files), []string(nil)
	if open == 0 {
		t.queue.restoreSchedules(ctx, t.restored, t.then)
	}
	for _, file := range files {
		t.queue.store.Read(ctx, "schedules", file, func(ctx actor.Context, m *messages.ReadFileResult) {
			if m.Failure != nil && !m.Missing {
				failed = append(failed, file)
			} else if f, err := schedule.Decode(m.Content); err == nil {
				t.take(file, f)
			}
			if open--; open == 0 {
				t.readFailed(ctx, failed, tries)
			}
		})
	}
}

func (t *takenBack) take(file string, f *schedule.File) {
	if back := f.TakeBack(t.serial); back != f {
		t.queue.config.Env.Log().WithFields(logrus.Fields{"schedule": f.Name}).Info("a firing was not recorded, and is taken back")
		t.restored = append(t.restored, &messages.FileWrite{Op: "restore-schedule", Path: file, Content: back.Encode()})
	}
}

func (t *takenBack) readFailed(ctx actor.Context, files []string, tries int) {
	if len(files) == 0 || tries == rereadLimit {
		for _, file := range files {
			t.queue.config.Env.Log().WithField("path", file).Error("the file of a schedule cannot be read; its last due time may get no jobs")
		}
		t.read(ctx, nil, tries)
		return
	}
	t.queue.recovery.retry = func(ctx actor.Context) { t.read(ctx, files, tries+1) }
	kit.SendAfter(t.queue.config.Env.Clock(), ctx.ActorSystem(), rereadPause<<tries, ctx.Self(), &rereadDue{t.queue.incarnation})
}

func (q *queue) restoreSchedules(ctx actor.Context, files []*messages.FileWrite, then func(actor.Context)) {
	if len(files) == 0 {
		then(ctx)
		return
	}
	q.store.Write(ctx, &messages.WriteFiles{Files: files, Durable: true}, func(ctx actor.Context, m *messages.ChangeFilesResult) {
		if len(m.Failures) > 0 {
			panic(fmt.Errorf("restore a schedule: %w", m.Failures[0].Failure))
		}
		then(ctx)
	})
}

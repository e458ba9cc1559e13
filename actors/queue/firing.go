package queue

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/core/paths"
	"lockstep/core/schedule"
	"lockstep/messages"
)

// firings are the versions of the schedules' files with the last firings that this incarnation has begun, by the path. A firing that was
// decided on an older version of the file would submit the jobs of a due time twice.
type firings map[string]uint64

// begin notes a firing. It returns why the firing is refused; nil: it is not.
func (f firings) begin(m *messages.ScheduleFiring) *messages.Failure {
	if m == nil {
		return nil
	}
	if known := f[m.Schedule]; m.Version <= known {
		return messages.PrereqFailure(messages.Stale, fmt.Sprintf("the file of schedule %s has changed since", m.Schedule))
	}
	f[m.Schedule] = m.Version
	return nil
}

// failed forgets a firing that was taken back.
func (f firings) failed(m *messages.ScheduleFiring) {
	if m != nil && f[m.Schedule] == m.Version {
		delete(f, m.Schedule)
	}
}

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
		open := 1
		var restored []*messages.FileWrite
		done := func(ctx actor.Context) {
			if open--; open == 0 {
				q.restoreSchedules(ctx, restored, then)
			}
		}
		for _, base := range m.Names {
			file := paths.ScheduleDir + "/" + base
			if _, is := paths.ParseSchedulePath(file); !is {
				continue
			}
			open++
			q.store.Read(ctx, "schedules", file, func(ctx actor.Context, r *messages.ReadFileResult) {
				if f, err := schedule.Decode(r.Content); err == nil && r.Failure == nil {
					if back := f.TakeBack(serial); back != f {
						q.config.Env.Log().WithFields(logrus.Fields{"schedule": f.Name}).Info("a firing was not recorded, and is taken back")
						restored = append(restored, &messages.FileWrite{Op: "restore-schedule", Path: file, Content: back.Encode()})
					}
				}
				done(ctx)
			})
		}
		done(ctx)
	})
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

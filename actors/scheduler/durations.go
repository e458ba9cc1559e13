package scheduler

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/actors/store"
	"lockstep/core/durations"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/messages"
)

// learned is the table of durations and its file. The file is written writePause after a change, and when the daemon
// stops. A crash loses what is younger; the order of jobs is then worse, and nothing else is.
type learned struct {
	store   *store.Client
	table   *durations.Table // nil until the file is read
	changed bool             // the table is not in the file, and no write of it is on its way
	timed   bool             // a timer will write it
	writing bool
	// draining is the sender of Drain, which has no answer yet.
	draining *actor.PID
}

const writePause = time.Minute

// writeDurations is the timer.
type writeDurations struct{}

// readDurations reads the table before the jobs are asked for. A table that cannot be used costs only order.
func (s *scheduler) readDurations(ctx actor.Context) {
	s.learned.store.Connect(ctx)
	s.learned.store.Read(ctx, "durations", paths.DurationsPath, func(ctx actor.Context, m *messages.ReadFileResult) {
		log := s.config.Env.Log().WithField("path", paths.DurationsPath)
		s.learned.table = &durations.Table{}
		if m.Failure != nil {
			log.WithField("err", m.Failure.Text).Warn("the durations of finished jobs cannot be read; the scheduler learns them again")
		} else if table, err := durations.Decode(m.Content); err == nil {
			s.learned.table = table
		} else {
			log.WithFields(logrus.Fields{"err": err}).Error("the file of durations is damaged; the scheduler learns them again")
			s.learned.store.Quarantine(ctx, paths.DurationsPath, func(actor.Context, *messages.QuarantineFileResult) {})
		}
		s.requestJobs(ctx)
	})
}

// recordDurations learns the durations of a job that has ended, and plans a write of the table.
func (s *scheduler) recordDurations(ctx actor.Context, name string, encoded []byte) {
	j, err := job.Decode(encoded)
	if err != nil || s.learned.table == nil || len(encoded) == 0 {
		return
	}
	s.learned.table.RecordJob(j, name)
	s.learnedChanged(ctx)
}

// learnedChanged has the table written after the pause.
func (s *scheduler) learnedChanged(ctx actor.Context) {
	s.learned.changed = true
	if !s.learned.timed {
		s.learned.timed = true
		kit.SendAfter(s.config.Env.Clock(), ctx.ActorSystem(), writePause, ctx.Self(), &writeDurations{})
	}
}

// writeLearned writes the table if it has changed. A failed write is repeated after the pause. A drain waits for it.
func (s *scheduler) writeLearned(ctx actor.Context) {
	l := &s.learned
	if !l.changed || l.writing {
		return
	}
	l.changed, l.writing = false, true
	file := &messages.FileWrite{Op: "durations", Path: paths.DurationsPath, Content: l.table.Encode()}
	l.store.Write(ctx, &messages.WriteFiles{Files: []*messages.FileWrite{file}}, func(ctx actor.Context, written *messages.ChangeFilesResult) {
		l.writing = false
		for _, f := range written.Failures {
			s.config.Env.Log().WithFields(logrus.Fields{"path": paths.DurationsPath, "err": f.Failure.Text}).
				Warn("the durations of finished jobs cannot be written")
			s.learnedChanged(ctx)
		}
		if l.draining != nil && len(written.Failures) == 0 {
			s.writeLearned(ctx) // what has changed meanwhile
		}
		s.drained(ctx)
	})
}

// drain writes the table before the daemon stops, and is answered when that is done.
func (s *scheduler) drain(ctx actor.Context) {
	s.learned.draining = ctx.Sender()
	s.writeLearned(ctx)
	s.drained(ctx)
}

func (s *scheduler) drained(ctx actor.Context) {
	if s.learned.draining != nil && !s.learned.writing {
		ctx.Request(s.learned.draining, &messages.DrainResult{})
		s.learned.draining = nil
	}
}

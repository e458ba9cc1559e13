package jobs

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/messages"
)

// writesFail keeps that the file of an active job cannot be written, and logs the beginning
// and the end of it: the retries in between say nothing new.
func (j *jobs) writesFail(m *writesFail) {
	h := j.active[m.id]
	if h == nil {
		return
	}
	before := h.failing
	h.failing = m.write
	log := j.config.Env.Log().WithField("job", m.id)
	switch {
	case m.write == nil && before != nil:
		since := time.UnixMicro(before.SinceUs)
		log.WithField("after", j.config.Env.Clock().Now().Sub(since).Round(time.Millisecond)).Info("job file can be written again")
	case m.write == nil, before != nil && before.Text == m.write.Text && before.ByProcess == m.write.ByProcess:
	case m.write.ByProcess:
		log.WithField("err", m.write.Text).Error("job process cannot write its job file; it tries again until it can")
	default:
		log.WithField("err", m.write.Text).Error("job file cannot be read or written; the daemon tries again until it can")
	}
}

// failingWrites are the files that cannot be written now, by id of their jobs.
func (j *jobs) failingWrites() []*messages.FailingWrite {
	var all []*messages.FailingWrite
	for _, h := range j.active {
		if h.failing != nil {
			all = append(all, h.failing)
		}
	}
	slices.SortFunc(all, func(a, b *messages.FailingWrite) int { return int(a.Id - b.Id) })
	return all
}

// readerWaits are the jobs whose output waits for its reader, by id.
func (j *jobs) readerWaits() []*messages.ReaderWait {
	var all []*messages.ReaderWait
	for id, h := range j.active {
		if h.readerSince != 0 {
			all = append(all, &messages.ReaderWait{Id: id, SinceUs: h.readerSince})
		}
	}
	slices.SortFunc(all, func(a, b *messages.ReaderWait) int { return int(a.Id - b.Id) })
	return all
}

// reportFailing tells the jobs actor that the file cannot be written or read, since the first
// failure; "" is the end of that.
func (a *jobActor) reportFailing(ctx actor.Context, text string, since time.Time, byProcess bool) {
	var write *messages.FailingWrite
	if text != "" {
		write = &messages.FailingWrite{Id: a.id, Text: text, SinceUs: since.UnixMicro(), ByProcess: byProcess}
	}
	if write != nil || a.failing {
		ctx.Send(ctx.Parent(), &writesFail{a.id, write})
	}
	a.failing = write != nil
}

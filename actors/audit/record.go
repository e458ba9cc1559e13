package audit

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	coreaudit "lockstep/core/audit"
	"lockstep/core/paths"
	"lockstep/messages"
)

const (
	// waitingMax bounds the entries that are not on the disk.
	waitingMax = 10_000
	// writePause is the time between two writes of entries that are kept.
	writePause = 5 * time.Second
)

// record takes an entry, and writes it with the next write.
func (a *audit) record(ctx actor.Context, m *Record, sender *actor.PID) {
	if m.Entry.Refused != "" && !a.refusals.Take(m.Entry, a.now()) {
		ctx.Send(sender, &Recorded{Request: m.Request})
		return
	}
	a.startPause(ctx)
	if len(a.waiting) >= waitingMax {
		full := messages.GenericFailure("too many entries of the audit log are not written")
		ctx.Send(sender, &Recorded{Request: m.Request, Failure: full})
		return
	}
	a.add(entry{Entry: m.Entry, required: m.Required, request: m.Request, sender: sender})
	a.write(ctx)
}

// add appends an entry to those that are not on the disk, with the present time.
func (a *audit) add(e entry) {
	e.Time = a.now().UTC().Truncate(time.Microsecond)
	a.waiting = append(a.waiting, e)
}

// startPause starts the timer of refusals, if entries about refusals may be due later.
func (a *audit) startPause(ctx actor.Context) {
	if !a.pausing && a.refusals.Pending() {
		a.pausing = true
		a.after(ctx, coreaudit.RefusalPause, &pauseOver{a.incarnation})
	}
}

// pauseOver writes entries about the refusals that were left out.
func (a *audit) pauseOver(ctx actor.Context) {
	a.pausing = false
	for _, e := range a.refusals.Due(a.now()) {
		if len(a.waiting) < waitingMax {
			a.add(entry{Entry: e})
		}
	}
	a.startPause(ctx)
	a.write(ctx)
}

// write replaces the newest file by one that also has the entries that wait, as many as it has room for. If it has none, they begin the
// next file. One write is on its way at a time.
func (a *audit) write(ctx actor.Context) {
	if len(a.writing) > 0 || len(a.waiting) == 0 || !a.ask(ctx) {
		return
	}
	file, fits := a.newest.Add(a.waiting[0].Entry)
	if !fits {
		file, _ = coreaudit.NewFile(a.newest.Next).Add(a.waiting[0].Entry)
	}
	count := 1
	for ; count < len(a.waiting) && fits; count++ {
		if file, fits = file.Add(a.waiting[count].Entry); !fits {
			break
		}
	}
	a.writing, a.waiting = a.waiting[:count:count], slices.Clone(a.waiting[count:])
	write := &messages.WriteFiles{Durable: true, Logged: true, Files: []*messages.FileWrite{
		{Op: "audit", Path: paths.AuditPath(file.First), Content: file.Content}}}
	a.store.Write(ctx, write, func(ctx actor.Context, m *messages.ChangeFilesResult) {
		if len(m.Failures) > 0 {
			a.failed(ctx, m.Failures[0].Failure)
		} else {
			a.written(ctx, file)
		}
	})
}

// written answers for the entries that are on the disk now, and writes those that have come meanwhile.
func (a *audit) written(ctx actor.Context, file coreaudit.File) {
	if a.failure != nil {
		a.config.Env.Log().Info("audit log can be written again")
		a.failure, a.since = nil, time.Time{}
	}
	isNew := !slices.Contains(a.files, file.First)
	a.newest = file
	if isNew {
		a.files = append(slices.Clone(a.files), file.First)
	}
	a.answer(ctx, nil)
	a.answerLooks(ctx)
	if isNew {
		a.removeOldest(ctx)
	}
	a.write(ctx)
}

// failed answers that entries are not written. The file counts as unchanged: if the disk has the entries nevertheless, the next write takes
// them away. Those that are not required are kept for it, because what they say is done.
func (a *audit) failed(ctx actor.Context, f *messages.Failure) {
	if a.failure == nil {
		a.since = a.now()
		a.config.Env.Log().WithField("err", f.Text).
			Error("audit log cannot be written; until it can, changes are refused, but for the cancelling of jobs")
	}
	a.failure = f
	var kept []entry
	for _, e := range a.writing {
		if !e.required {
			kept = append(kept, entry{Entry: e.Entry})
		}
	}
	a.answer(ctx, f)
	isNew := len(a.waiting) > 0 // has not been tried
	a.waiting = append(kept, a.waiting...)
	if isNew {
		a.write(ctx)
	} else if len(a.waiting) > 0 {
		a.after(ctx, writePause, &writeAgain{a.incarnation})
	}
}

// answer answers for the entries of the write that has ended.
func (a *audit) answer(ctx actor.Context, f *messages.Failure) {
	for _, e := range a.writing {
		if e.sender != nil {
			ctx.Send(e.sender, &Recorded{Request: e.request, Failure: f})
		}
	}
	a.writing = nil
}

// removeOldest removes the oldest files, if there are more than the log keeps. Files that cannot be removed are tried again with the next
// file.
func (a *audit) removeOldest(ctx actor.Context) {
	var excess []string
	for _, first := range coreaudit.Excess(a.files) {
		excess = append(excess, paths.AuditPath(first))
	}
	if excess == nil {
		return
	}
	a.store.Remove(ctx, &messages.RemoveFiles{Op: "audit", Paths: excess}, func(_ actor.Context, m *messages.ChangeFilesResult) {
		if len(m.Failures) > 0 {
			a.config.Env.Log().WithField("err", m.Failures[0].Failure.Text).Warn("old files of the audit log cannot be removed")
			return
		}
		a.files = slices.DeleteFunc(slices.Clone(a.files), func(first uint64) bool { return slices.Contains(excess, paths.AuditPath(first)) })
	})
}

package audit

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	coreaudit "lockstep/core/audit"
	"lockstep/core/paths"
	"lockstep/messages"
)

// readPause is the time between two tries to read the log.
const readPause = time.Second

// load finds the files of the log, and reads the newest.
func (a *audit) load(ctx actor.Context) {
	a.store.List(ctx, "audit", paths.AuditDir, func(ctx actor.Context, m *messages.ListDirResult) {
		if m.Failure != nil {
			a.loadAgain(ctx, m.Failure)
			return
		}
		var files []uint64
		for _, name := range m.Names {
			if first, ok := paths.ParseAuditPath(paths.AuditDir + "/" + name); ok {
				files = append(files, first)
			}
		}
		slices.Sort(files)
		if len(files) == 0 {
			a.begin(ctx, nil, coreaudit.NewFile(1))
			return
		}
		a.readNewest(ctx, files)
	})
}

func (a *audit) readNewest(ctx actor.Context, files []uint64) {
	first := files[len(files)-1]
	a.store.Read(ctx, "audit", paths.AuditPath(first), func(ctx actor.Context, m *messages.ReadFileResult) {
		if m.Failure != nil {
			a.loadAgain(ctx, m.Failure)
			return
		}
		file, err := coreaudit.Open(first, m.Content)
		if err != nil {
			a.setAside(ctx, files, file, err)
			return
		}
		a.begin(ctx, files, file)
	})
}

// setAside moves a damaged file to the quarantine. The next file begins with an entry that says so.
func (a *audit) setAside(ctx actor.Context, files []uint64, file coreaudit.File, damage error) {
	name := paths.AuditPath(file.First)
	a.store.Quarantine(ctx, name, func(ctx actor.Context, m *messages.QuarantineFileResult) {
		if m.Failure != nil {
			a.loadAgain(ctx, m.Failure)
			return
		}
		a.config.Env.Log().WithFields(logrus.Fields{"err": damage, "file": m.Path}).Error("file of the audit log is damaged; it is set aside")
		a.add(entry{Entry: coreaudit.Entry{User: "the daemon", What: "set aside the damaged file " + name + " of this log, as " + m.Path}})
		a.begin(ctx, files[:len(files)-1], coreaudit.NewFile(file.Next))
	})
}

func (a *audit) loadAgain(ctx actor.Context, f *messages.Failure) {
	a.config.Env.Log().WithField("err", f.Text).Error("audit log cannot be read; reading it again")
	a.after(ctx, readPause, &readAgain{a.incarnation})
}

// begin takes what has waited until the log was read.
func (a *audit) begin(ctx actor.Context, files []uint64, newest coreaudit.File) {
	a.files, a.newest, a.loaded = files, newest, true
	a.removeOldest(ctx)
	a.deferred.HandleAll(ctx, a.take)
	a.write(ctx)
}

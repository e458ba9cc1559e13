package jobs

import (
	"cmp"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/paths"
	"lockstep/messages"
)

// archiveListing adds a row for each archived job to the rows of the queue. A query for the field "archived" needs them
// (queue.md 2.5). It lists every directory of the archive; other queries list none.
type archiveListing struct {
	*request
	rows      []*messages.JobRow // a copy: the queue's message does not change
	remaining int                // directories without an answer
	then      func(ctx actor.Context, rows []*messages.JobRow)
}

// withArchive hands the rows, with those of the archive, to then, in the order of ids.
func withArchive(c *request, ctx actor.Context, rows []*messages.JobRow, then func(actor.Context, []*messages.JobRow)) {
	l := &archiveListing{request: c, rows: slices.Clone(rows), then: then}
	l.list(ctx, paths.ArchiveDir, func(ctx actor.Context, dirs []string) {
		l.remaining = len(dirs)
		if l.remaining == 0 {
			then(ctx, l.rows)
			return
		}
		for _, dir := range dirs {
			l.list(ctx, paths.ArchiveDir+"/"+dir, l.add)
		}
	})
}

// list lists a directory, unless the call ends first. A directory that cannot be listed counts as empty.
func (l *archiveListing) list(ctx actor.Context, dir string, then func(actor.Context, []string)) {
	l.Store.List(ctx, "query-archive", dir, func(ctx actor.Context, m *messages.ListDirResult) {
		if !l.Ended() {
			then(ctx, m.Names)
		}
	})
}

// add takes the names of one directory. After the last directory the rows are passed on, each job once.
func (l *archiveListing) add(ctx actor.Context, names []string) {
	for _, name := range names {
		if id, ok := paths.ParseJobName(name); ok {
			l.rows = append(l.rows, &messages.JobRow{Id: id})
		}
	}
	if l.remaining--; l.remaining == 0 {
		l.then(ctx, uniqueRows(l.rows))
	}
}

// uniqueRows sorts rows by id and keeps the first row of each. A job that was archived after the queue had answered is
// in both sources; the queue's row comes first.
func uniqueRows(rows []*messages.JobRow) []*messages.JobRow {
	slices.SortStableFunc(rows, func(a, b *messages.JobRow) int { return cmp.Compare(a.Id, b.Id) })
	return slices.CompactFunc(rows, func(a, b *messages.JobRow) bool { return a.Id == b.Id })
}

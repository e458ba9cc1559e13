package luxi

import (
	"cmp"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/paths"
	"lockstep/messages"
)

// addArchive adds a row for each archived job, then reads: who asks whether jobs
// are archived asks for those too (queue.md 2.5). It is as slow as the archive is
// large, and for nobody but who asks.
func (l *listing) addArchive(ctx actor.Context) {
	l.rows = slices.Clone(l.rows) // the queue's message is not ours to change
	l.list(ctx, paths.ArchiveDir, func(ctx actor.Context, dirs []string) {
		remaining := len(dirs)
		if remaining == 0 {
			l.read(ctx)
			return
		}
		for _, dir := range dirs {
			l.list(ctx, paths.ArchiveDir+"/"+dir, func(ctx actor.Context, names []string) {
				for _, name := range names {
					if id, ok := paths.ParseJobName(name); ok {
						l.rows = append(l.rows, &messages.JobRow{Id: id})
					}
				}
				if remaining--; remaining == 0 {
					l.sortRows()
					l.read(ctx)
				}
			})
		}
	})
}

// list lists a directory for this listing, unless it has been answered or given
// up meanwhile. A directory that cannot be listed has nothing to show.
func (l *listing) list(ctx actor.Context, dir string, done func(actor.Context, []string)) {
	l.c.store.List(ctx, "query-archive", dir, func(ctx actor.Context, m *messages.ListDirResult) {
		if l.number == l.c.request {
			done(ctx, m.Names)
		}
	})
}

// sortRows puts rows in the order of ids. A job that was archived between the
// two looks is there twice; the row that the queue gave comes first and stays.
func (l *listing) sortRows() {
	slices.SortStableFunc(l.rows, func(a, b *messages.JobRow) int { return cmp.Compare(a.Id, b.Id) })
	l.rows = slices.CompactFunc(l.rows, func(a, b *messages.JobRow) bool { return a.Id == b.Id })
}

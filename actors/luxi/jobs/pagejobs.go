package jobs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/luxi/call"
	"lockstep/core/answer"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/core/query"
	"lockstep/core/wire"
	"lockstep/messages"
)

// pageWindow is the number of jobs in one question to the queue.
const pageWindow = 2000

// lockstepPageJobs takes [request], an answer.JobPageRequest. The answer is an answer.JobPage. The walk goes over ids:
// a window of the queue's jobs, with the archived jobs of the same range of ids between them. The archive is listed
// after the queue has answered, so that a job that is archived meanwhile is in one of both.
func lockstepPageJobs(c *request, ctx actor.Context, args []json.RawMessage) error {
	var wanted answer.JobPageRequest
	if err := wire.Arguments(args, &wanted); err != nil {
		return fmt.Errorf("LockstepPageJobs: %w", err)
	}
	page, err := query.NewPage(wanted)
	if err != nil {
		return fmt.Errorf("LockstepPageJobs: %w", err)
	}
	(&paging{request: c, page: page}).ask(ctx)
	return nil
}

// paging is a LockstepPageJobs on its way.
type paging struct {
	*request
	page *query.Page
}

// ask asks the queue for the next window of jobs, and takes it together with the archived jobs in between.
func (p *paging) ask(ctx actor.Context) {
	q := p.ToQueue(func(number uint64) any {
		return &messages.ListJobs{Request: number, Limit: pageWindow, Cursor: p.page.Cursor(), Newest: !p.page.OldestFirst()}
	})
	call.Ask(p.Call, ctx, q, func(ctx actor.Context, a *messages.ListJobsResult) {
		last := int64(0) // of the window; 0: the window ends with the queue
		if len(a.Rows) == pageWindow {
			last = a.Rows[len(a.Rows)-1].Id
		}
		if !p.page.WantsArchive() {
			p.take(ctx, a.Rows, nil, last)
			return
		}
		l := &archiveListing{request: p.request}
		l.list(ctx, paths.ArchiveDir, func(ctx actor.Context, names []string) {
			p.listDirs(ctx, l, p.page.ArchiveDirs(numbers(names), last), a.Rows, last)
		})
	})
}

// numbers are the directories of the archive among these names.
func numbers(names []string) []int64 {
	var dirs []int64
	for _, name := range names {
		if n, err := strconv.ParseInt(name, 10, 64); err == nil {
			dirs = append(dirs, n)
		}
	}
	return dirs
}

// listDirs lists the first of the archive's directories, and takes its jobs with the rows of the queue up to the end of the directory.
// Then it goes on with the next directory, and after the last one with the next window.
func (p *paging) listDirs(ctx actor.Context, l *archiveListing, dirs []int64, rows []*messages.JobRow, last int64) {
	if len(dirs) == 0 {
		p.take(ctx, rows, nil, last)
		return
	}
	dir := dirs[0]
	l.list(ctx, paths.ArchiveDir+"/"+strconv.FormatInt(dir, 10), func(ctx actor.Context, names []string) {
		records, jobs := map[int64]bool{}, []archivedJob{}
		for _, name := range names {
			if id, is := paths.ParseRecordName(name); is {
				records[id] = true
			}
		}
		for _, name := range names {
			if id, is := paths.ParseJobName(name); is && p.page.Ahead(id, last) {
				jobs = append(jobs, archivedJob{id, records[id]})
			}
		}
		// Rows of ids beyond this directory wait for the next one.
		var now, later []*messages.JobRow
		for _, row := range rows {
			if len(dirs) == 1 || p.page.Compare(paths.ArchiveDirOf(row.Id), dir) <= 0 {
				now = append(now, row)
			} else {
				later = append(later, row)
			}
		}
		p.takeWith(ctx, now, jobs, func(ctx actor.Context) {
			if len(dirs) == 1 {
				p.windowDone(ctx, last)
			} else {
				p.listDirs(ctx, l, dirs[1:], later, last)
			}
		})
	})
}

func (p *paging) take(ctx actor.Context, rows []*messages.JobRow, archived []archivedJob, last int64) {
	p.takeWith(ctx, rows, archived, func(ctx actor.Context) { p.windowDone(ctx, last) })
}

// windowDone asks for the next window after the job last of this one. 0 means that there is none: the page is complete.
func (p *paging) windowDone(ctx actor.Context, last int64) {
	if last == 0 {
		p.page.Finish()
		p.finish(ctx)
		return
	}
	p.ask(ctx)
}

// pageItem is a job of the queue or of the archive. info is nil for an archived job that was not read yet, or that
// cannot be read.
type pageItem struct {
	archivedJob
	info     *messages.JobInfo
	archived bool
}

// takeWith merges jobs of the queue and of the archive, and examines them in the order of the page.
func (p *paging) takeWith(ctx actor.Context, rows []*messages.JobRow, archived []archivedJob, then func(actor.Context)) {
	items := make([]*pageItem, 0, len(rows)+len(archived))
	inQueue := make(map[int64]bool, len(rows))
	for _, row := range rows {
		inQueue[row.Id] = true
		items = append(items, &pageItem{archivedJob: archivedJob{id: row.Id}, info: row.Info})
	}
	for _, a := range archived {
		if !inQueue[a.id] {
			items = append(items, &pageItem{archivedJob: a, archived: true})
		}
	}
	slices.SortFunc(items, func(a, b *pageItem) int { return p.page.Compare(a.id, b.id) })
	p.examine(ctx, items, then)
}

// examine reads the next archived jobs, up to readsInFlight in parallel, and adds the jobs in order. It calls then after the last of
// items.
func (p *paging) examine(ctx actor.Context, items []*pageItem, then func(actor.Context)) {
	var reading []*pageItem
	end := 0
	for ; end < len(items) && len(reading) < readsInFlight; end++ {
		if items[end].archived {
			reading = append(reading, items[end])
		}
	}
	remaining := len(reading)
	proceed := func(ctx actor.Context) {
		p.SetTimer(ctx, call.Timeout)
		p.add(ctx, items[:end], func(ctx actor.Context) {
			if end == len(items) {
				then(ctx)
				return
			}
			p.examine(ctx, items[end:], then)
		})
	}
	if remaining == 0 {
		proceed(ctx)
		return
	}
	for _, item := range reading {
		p.readArchived(ctx, item, func(ctx actor.Context) {
			if remaining--; remaining == 0 {
				proceed(ctx)
			}
		})
	}
}

// add adds jobs to the page, in slices, and then calls then. A full page is answered, and then is not called.
func (p *paging) add(ctx actor.Context, items []*pageItem, then func(actor.Context)) {
	work := p.Slice()
	for i, item := range items {
		if work -= p.page.Work(item.info); work <= 0 && i > 0 {
			p.Later(ctx, func(ctx actor.Context) { p.add(ctx, items[i:], then) })
			return
		}
		if !p.page.Add(item.id, item.info, item.archived) {
			p.finish(ctx)
			return
		}
	}
	then(ctx)
}

// readArchived reads the files of an archived job into item.info, which stays nil if the job cannot be read. Without a readable record
// the job has none.
func (p *paging) readArchived(ctx actor.Context, item *pageItem, then func(actor.Context)) {
	p.Read(ctx, "list-job", paths.ArchivePath(item.id), func(ctx actor.Context, m *messages.ReadFileResult) {
		j, err := job.Decode(m.Content)
		switch {
		case m.Missing || m.Failure != nil || err != nil:
			then(ctx)
		case !item.hasRecord:
			item.info = archivedInfo(j, nil)
			then(ctx)
		default:
			p.Read(ctx, "list-record", paths.ArchivedRecordPath(item.id), func(ctx actor.Context, m *messages.ReadFileResult) {
				item.info = archivedInfo(j, m.Content)
				then(ctx)
			})
		}
	})
}

func (p *paging) finish(ctx actor.Context) {
	if frame := p.page.Append(wire.AppendResult(nil)); p.Admit(ctx, len(frame)) {
		p.Answer(ctx, wire.CloseResult(frame))
	}
}

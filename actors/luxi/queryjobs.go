package luxi

import (
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/core/query"
	"lockstep/messages"
)

// queryJobs takes [[id, ...] or null, [field, ...]].
func (c *connection) queryJobs(ctx actor.Context, args []json.RawMessage) error {
	var ids []jobID
	var names texts
	if err := arguments(args, &ids, &names); err != nil {
		return fmt.Errorf("QueryJobs: %w", err)
	}
	q, err := query.Jobs.NewClassicQuery(names)
	if err != nil {
		c.fail(ctx, queryFailure(err))
		return nil
	}
	m := &messages.ListJobs{All: ids == nil, Ids: uniqueIDs(ids)}
	c.listJobs(ctx, q, true, m)
	return nil
}

// uniqueIDs are the ids asked for, each once, as Ganeti answers (queue.md 2.3).
func uniqueIDs(asked []jobID) []int64 {
	ids, seen := make([]int64, 0, len(asked)), make(map[jobID]bool, len(asked))
	for _, id := range asked {
		if !seen[id] {
			seen[id] = true
			ids = append(ids, int64(id))
		}
	}
	return ids
}

// queryJobItems answers a Query for jobs. A filter on nothing but ids asks for
// these jobs, wherever they are, each once (queue.md 2.3).
func (c *connection) queryJobItems(ctx actor.Context, fields []string, filter json.RawMessage) error {
	q, err := query.Jobs.NewQuery(fields, filter)
	if err != nil {
		return err
	}
	m := &messages.ListJobs{All: true}
	if ids, only := query.JobIDs(q); only {
		q.DropFilter() // it holds of these; to try each id on each job would take long
		m = &messages.ListJobs{Ids: ids}
	}
	c.listJobs(ctx, q, false, m)
	return nil
}

// listJobs answers from what the queue knows, and reads a file only for what is
// nowhere else, or for a job that is not in the live queue.
func (c *connection) listJobs(ctx actor.Context, q *query.Query[query.JobItem], plain bool, m *messages.ListJobs) {
	c.ask(ctx, repeatable,
		func(ctx actor.Context, request uint64) {
			ctx.Request(c.config.Queue, &messages.ListJobs{Request: request, All: m.All, Ids: m.Ids})
		},
		func(ctx actor.Context, answer any) {
			a, ok := answer.(*messages.ListJobsResult)
			if !ok || a.Request != c.request {
				return
			}
			c.resend = func(actor.Context) {} // the rest is between us and the store
			l := &listing{c: c, number: c.request, table: newResultTable(q, plain), needs: q.Level(), rows: a.Rows, ready: map[int][]byte{}}
			if m.All && q.HasField("archived") {
				l.addArchive(ctx)
			} else {
				l.read(ctx)
			}
		})
}

const (
	// readsInFlight bounds the files being read for one listing.
	readsInFlight = 64
	// readsPerTimeout is so many files that the listing has time for the next ones again:
	// an archive may be large, and the client has as much patience as it likes.
	readsPerTimeout = 4096
)

// listing turns rows of the queue into rows of the answer.
type listing struct {
	c      *connection
	number uint64
	table  *resultTable[query.JobItem]
	needs  query.DataLevel
	// rows are the jobs looked at. One that has no info and is not unknown lies in
	// the archive.
	rows     []*messages.JobRow
	next     int            // of rows: not looked at yet
	reading  int            // files being read
	files    int            // that have been read
	complete int            // rows that are in the table, or will not be
	ready    map[int][]byte // rows that wait for one before them; nil will not be in the table
	ended    bool
}

// read goes on until the end, or until enough files are being read.
func (l *listing) read(ctx actor.Context) {
	for l.next < len(l.rows) && l.reading < readsInFlight && !l.ended {
		i, row := l.next, l.rows[l.next]
		l.next++
		switch {
		case row.Unknown:
			l.readFile(ctx, i, paths.ArchivePath(row.Id), true)
		case row.Info == nil:
			l.matchRow(ctx, i, &query.JobItem{ID: job.ID(row.Id), Archived: true}, query.LevelListing)
		default:
			l.matchRow(ctx, i, &query.JobItem{ID: job.ID(row.Id), Info: row.Info}, query.LevelInfo)
		}
	}
	if !l.ended && l.next == len(l.rows) && l.reading == 0 {
		l.ended = true
		l.c.answer(ctx, l.table.close())
	}
}

// matchRow decides on a row by what is known of the job, or gets the rest of it.
func (l *listing) matchRow(ctx actor.Context, i int, item *query.JobItem, have query.DataLevel) {
	matches, undecided, err := l.table.question.Match(item, have)
	switch {
	case err != nil:
		l.ended = true
		l.c.fail(ctx, queryFailure(err))
	case !matches && !undecided:
		l.skipRow(i)
	case !undecided && l.needs <= have:
		l.addRow(ctx, i, item)
	case item.Archived:
		l.readFile(ctx, i, paths.ArchivePath(int64(item.ID)), true)
	case len(item.Info.Encoded) > 0:
		l.decode(ctx, i, item.Info, item.Info.Encoded, false)
	default:
		l.readFile(ctx, i, paths.JobPath(int64(item.ID)), false)
	}
}

func (l *listing) readFile(ctx actor.Context, i int, path string, archived bool) {
	l.reading++
	l.c.store.Read(ctx, "query-job", path, func(ctx actor.Context, m *messages.ReadFileResult) {
		if l.number != l.c.request {
			return // answered, or given up, meanwhile
		}
		l.reading--
		if l.files++; l.files%readsPerTimeout == 0 {
			l.c.setTimer(ctx, answerTimeout)
		}
		if m.Missing || m.Failure != nil {
			l.rowUnreadable(ctx, i)
		} else {
			l.decode(ctx, i, l.rows[i].Info, m.Content, archived)
		}
		l.read(ctx)
	})
}

// rowUnreadable: the job was not found, or cannot be read.
func (l *listing) rowUnreadable(ctx actor.Context, i int) {
	l.matchRow(ctx, i, &query.JobItem{ID: job.ID(l.rows[i].Id), Unknown: true}, query.LevelFile)
}

func (l *listing) decode(ctx actor.Context, i int, info *messages.JobInfo, content []byte, archived bool) {
	j, err := job.Decode(content)
	if err != nil {
		l.rowUnreadable(ctx, i)
		return
	}
	if info == nil {
		info = query.NewJobInfo(j, summaryOf, nil)
	}
	l.matchRow(ctx, i, &query.JobItem{ID: job.ID(l.rows[i].Id), Archived: archived, Info: info, Job: j}, query.LevelFile)
}

// addRow puts a row into the table, as soon as those before it are.
func (l *listing) addRow(ctx actor.Context, i int, item *query.JobItem) {
	if i > l.complete {
		l.ready[i] = l.table.keep(item)
	} else {
		l.table.add(item)
		l.advance()
	}
	if l.table.full() {
		l.ended = true
		l.c.fail(ctx, messages.Generic(errTooLarge))
	}
}

// skipRow leaves a row out.
func (l *listing) skipRow(i int) {
	if i > l.complete {
		l.ready[i] = nil
		return
	}
	l.advance()
}

// advance goes past the current row and those behind it that are ready.
func (l *listing) advance() {
	for l.complete++; len(l.ready) > 0; l.complete++ {
		row, ready := l.ready[l.complete]
		if !ready {
			return
		}
		delete(l.ready, l.complete)
		if row != nil {
			l.table.addKept(row)
		}
	}
}

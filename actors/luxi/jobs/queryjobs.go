package jobs

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/luxi/call"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/core/query"
	"lockstep/core/wire"
	"lockstep/messages"
)

// queryJobs takes [[id, ...] or null, [field, ...]]. null means all jobs of the queue. The answer is a row of values for each job.
func queryJobs(c *request, ctx actor.Context, args []json.RawMessage) error {
	var ids []jobID
	var names call.Texts
	if err := wire.Arguments(args, &ids, &names); err != nil {
		return fmt.Errorf("QueryJobs: %w", err)
	}
	q, err := query.Jobs.NewClassicQuery(names)
	if err != nil {
		c.FailQuery(ctx, err)
		return nil
	}
	var asked []int64
	if ids != nil {
		asked = uniqueIDs(ids)
	}
	listJobs(c, ctx, query.NewAnswer(q, true), asked)
	return nil
}

// uniqueIDs are the ids of a query, each once, in the order of the query, as Ganeti answers (queue.md 2.3).
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

// Query answers a Query for jobs. A filter on ids alone selects these jobs, also archived ones, each once
// (queue.md 2.3).
func Query(call *call.Call, ctx actor.Context, fields []string, filter json.RawMessage) error {
	q, err := query.Jobs.NewQuery(fields, filter)
	if err != nil {
		return err
	}
	ids, only := query.JobIDs(q)
	if only {
		q.DropFilter() // all these jobs match, and a match of each job against each id takes quadratic time
		ids = append([]int64{}, ids...)
	}
	listJobs(&request{Call: call}, ctx, query.NewAnswer(q, false), ids)
	return nil
}

// listJobs answers a query for the jobs with these ids, nil for all jobs, from the rows of the queue and, where these
// lack a field, from the job files.
func listJobs(c *request, ctx actor.Context, table *query.Answer[query.JobItem], ids []int64) {
	l := &listing{request: c, table: table, needs: table.Query.Level()}
	switch {
	case ids != nil:
		c.takeRowsOf(ctx, ids, l.start)
	case table.Query.HasField("archived"):
		c.takeRows(ctx, func(ctx actor.Context, rows []*messages.JobRow) { withArchive(c, ctx, rows, l.start) })
	default:
		c.takeRows(ctx, l.start)
	}
}

const (
	// readsInFlight bounds the files that one listing reads at the same time.
	readsInFlight = 64
	// readsPerTimeout is the number of files after which the listing gets another call.Timeout. An archive may be
	// large, and the client decides how long it waits.
	readsPerTimeout = 4096
)

// listing turns rows of the queue into rows of the answer. It reads a job file only if the row has too little for the
// query's filter and fields.
type listing struct {
	*request
	table *query.Answer[query.JobItem]
	needs query.DataLevel // of the query's fields
	// rows are the jobs to look at. A row without info that is not unknown is that of an archived job.
	rows    []*messages.JobRow
	next    int  // index of the first row that was not looked at, 0 <= next <= len(rows)
	waits   bool // for its next slice
	reading int  // files being read, 0 <= reading <= readsInFlight
	files   int  // files that were read
	// missed are the indexes of jobs of the queue without a file in the queue or in the archive. The queue is asked for
	// them once more; askedAgain says that it was.
	missed     []int
	askedAgain bool
}

func (l *listing) start(ctx actor.Context, rows []*messages.JobRow) {
	l.rows = rows
	l.advance(ctx)
}

// advance looks at rows until readsInFlight files are being read, in slices. It answers when all rows are done.
func (l *listing) advance(ctx actor.Context) {
	for work := l.Slice(); l.next < len(l.rows) && l.reading < readsInFlight && !l.Ended() && !l.waits; {
		if work <= 0 {
			l.waits = true
			l.Later(ctx, func(ctx actor.Context) {
				l.waits = false
				l.advance(ctx)
			})
			return
		}
		work -= l.table.Query.Work() + rowWork
		l.next++
		l.look(ctx, l.next-1)
	}
	switch {
	case l.Ended() || l.next < len(l.rows) || l.reading > 0:
	case len(l.missed) > 0:
		l.askAgain(ctx)
	default:
		l.Answer(ctx, l.table.Close()...)
	}
}

// look decides about row i with what the row has. A job that the queue does not know is read from the archive.
func (l *listing) look(ctx actor.Context, i int) {
	switch row := l.rows[i]; {
	case row.Unknown:
		l.readFile(ctx, i, true)
	case row.Info == nil:
		l.match(ctx, i, &query.JobItem{ID: job.ID(row.Id), Archived: true}, query.LevelListing, 0)
	default:
		l.match(ctx, i, &query.JobItem{ID: job.ID(row.Id), Info: row.Info}, query.LevelInfo, 0)
	}
}

// askAgain asks the queue once more for the jobs without a file: what it said of them is older than the reads.
func (l *listing) askAgain(ctx actor.Context) {
	missed := l.missed
	l.missed, l.askedAgain = nil, true
	ids := make([]int64, len(missed))
	for k, i := range missed {
		ids[k] = l.rows[i].Id
	}
	l.AskRows(ctx, ids, func(ctx actor.Context, rows []*messages.JobRow) {
		l.Session.StopResending()
		l.rows = slices.Clone(l.rows) // the queue's message does not change
		for k, i := range missed {
			l.rows[i] = rows[k]
			l.look(ctx, i)
		}
		l.advance(ctx)
	})
}

// match decides whether row i is part of the answer, if what is known of the job suffices for that. Otherwise it reads
// the job's file. The item has about this size in the answer.
func (l *listing) match(ctx actor.Context, i int, item *query.JobItem, have query.DataLevel, size int) {
	matches, undecided, err := l.table.Query.Match(item, have)
	switch {
	case err != nil:
		l.FailQuery(ctx, err)
	case !matches && !undecided:
		l.table.Skip(i)
	case !undecided && l.needs <= have:
		l.table.Add(i, item, size)
		l.Admit(ctx, l.table.Size())
	case item.Archived:
		l.readFile(ctx, i, true)
	case len(item.Info.Encoded) > 0:
		l.decode(ctx, i, item.Info, item.Info.Encoded, false)
	default:
		l.readFile(ctx, i, false)
	}
}

// readFile reads the file of a job, in the archive or in the queue and then in the archive: a job moves to the archive
// while the queue still has it.
func (l *listing) readFile(ctx actor.Context, i int, archived bool) {
	path := paths.JobPath(l.rows[i].Id)
	if archived {
		path = paths.ArchivePath(l.rows[i].Id)
	}
	l.reading++
	l.Read(ctx, "query-job", path, func(ctx actor.Context, m *messages.ReadFileResult) {
		l.reading--
		if l.files++; l.files%readsPerTimeout == 0 {
			l.SetTimer(ctx, call.Timeout)
		}
		switch {
		case m.Missing && !archived:
			l.readFile(ctx, i, true)
		case m.Missing && l.rows[i].Info != nil && !l.askedAgain:
			l.missed = append(l.missed, i)
		case m.Missing:
			if l.rows[i].Info != nil {
				ctx.Send(l.Config.Queue, &messages.JobFileMissed{Id: l.rows[i].Id})
			}
			l.matchUnreadable(ctx, i)
		case m.Failure != nil:
			l.matchUnreadable(ctx, i)
		default:
			l.decode(ctx, i, l.rows[i].Info, m.Content, archived)
		}
		l.advance(ctx)
	})
}

// matchUnreadable decides about a job whose file is missing or cannot be read.
func (l *listing) matchUnreadable(ctx actor.Context, i int) {
	l.match(ctx, i, &query.JobItem{ID: job.ID(l.rows[i].Id), Unknown: true}, query.LevelFile, 0)
}

func (l *listing) decode(ctx actor.Context, i int, info *messages.JobInfo, content []byte, archived bool) {
	j, err := job.Decode(content)
	if err != nil {
		l.matchUnreadable(ctx, i)
		return
	}
	size := len(content) * l.table.Query.Copies() // the row is hardly longer
	if !l.Admit(ctx, l.table.Size()+size) {
		return
	}
	if info == nil {
		info = query.NewJobInfo(j, summaryOf, nil)
	}
	l.match(ctx, i, &query.JobItem{ID: job.ID(l.rows[i].Id), Archived: archived, Info: info, Job: j}, query.LevelFile, size)
}

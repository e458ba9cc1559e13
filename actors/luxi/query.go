package luxi

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/core/job"
	"lockstep/actors/core/layout"
	"lockstep/actors/core/query"
	"lockstep/messages"
)

// queryJobs answers from what the queue knows, and reads a file only for
// fields that are nowhere else, or for a job that is not in the live queue.
func (c *connection) queryJobs(ctx actor.Context, args []json.RawMessage) error {
	var ids []jobID
	var names []string
	if err := arguments(args, &ids, &names); err != nil {
		return fmt.Errorf("QueryJobs: %w", err)
	}
	fields, err := query.JobFields(names)
	if err != nil {
		c.fail(ctx, unknownFields(err))
		return nil
	}
	m := &messages.ListJobs{All: ids == nil, Ids: make([]int64, len(ids))}
	for i, id := range ids {
		m.Ids[i] = int64(id)
	}
	c.ask(ctx, repeatable,
		func(ctx actor.Context, request uint64) {
			ctx.Request(c.config.Queue, &messages.ListJobs{Request: request, All: m.All, Ids: m.Ids})
		},
		func(ctx actor.Context, answer any) {
			a, mine := answer.(*messages.JobsListed)
			if !mine || a.Request != c.request {
				return
			}
			c.again = func(actor.Context) {} // the rest is between us and the store
			l := newListing(c, fields, a.Rows)
			if m.All && slices.Contains(names, "archived") {
				l.addArchive(ctx)
			} else {
				l.read(ctx)
			}
		})
	return nil
}

func unknownFields(err error) *messages.Failure {
	var unknown *query.UnknownFields
	if errors.As(err, &unknown) {
		return &messages.Failure{Class: "OpPrereqError", Text: err.Error(), Code: "wrong_input"}
	}
	return messages.Generic(err)
}

// readAhead bounds the files being read for one listing.
const readAhead = 64

// listing turns rows of the queue into rows of the answer.
type listing struct {
	c      *connection
	number uint64
	fields []*query.JobField
	files  bool
	rows   []*messages.JobRow
	result [][]any
	next   int
	out    int
}

func newListing(c *connection, fields []*query.JobField, rows []*messages.JobRow) *listing {
	return &listing{c: c, number: c.request, fields: fields, files: query.NeedFile(fields),
		rows: rows, result: make([][]any, len(rows))}
}

// read goes on until the end, or until enough files are being read.
func (l *listing) read(ctx actor.Context) {
	for l.next < len(l.rows) && l.out < readAhead {
		i, row := l.next, l.rows[l.next]
		l.next++
		switch {
		case row.Unknown:
			l.readFile(ctx, i, layout.ArchivePath(row.Id), true)
		case !l.files:
			l.put(i, &query.JobItem{ID: job.ID(row.Id), Info: row.Info})
		case len(row.Info.Encoded) > 0:
			l.decode(i, row.Info, row.Info.Encoded, false)
		default:
			l.readFile(ctx, i, layout.JobPath(row.Id), false)
		}
	}
	if l.next == len(l.rows) && l.out == 0 {
		l.c.succeed(ctx, l.result)
	}
}

func (l *listing) readFile(ctx actor.Context, i int, path string, archived bool) {
	l.out++
	l.c.store.Read(ctx, "query-job", path, func(ctx actor.Context, m *messages.FileRead) {
		if l.number != l.c.request {
			return // answered, or given up, meanwhile
		}
		l.out--
		if m.Missing || m.Failure != nil {
			l.put(i, &query.JobItem{ID: job.ID(l.rows[i].Id), Unknown: true})
		} else {
			l.decode(i, l.rows[i].Info, m.Content, archived)
		}
		l.read(ctx)
	})
}

func (l *listing) decode(i int, info *messages.JobInfo, content []byte, archived bool) {
	id := job.ID(l.rows[i].Id)
	j, err := job.Decode(content)
	if err != nil {
		l.put(i, &query.JobItem{ID: id, Unknown: true})
		return
	}
	if info == nil {
		info = query.Info(j, summaryOf, nil)
	}
	l.put(i, &query.JobItem{ID: id, Archived: archived, Info: info, Job: j})
}

func (l *listing) put(i int, item *query.JobItem) { l.result[i] = query.Row(l.fields, item) }

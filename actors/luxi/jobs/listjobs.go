package jobs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/luxi/call"
	"lockstep/core/answer"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/core/query"
	"lockstep/core/record"
	"lockstep/core/wire"
	"lockstep/messages"
)

// lockstepListJobs takes [selection]. The answer is an answer.JobList. Jobs of the queue are selected by what the queue
// has in memory, so that no file is read; archived jobs are read, from the highest id downwards, until the limits are
// reached.
func lockstepListJobs(c *request, ctx actor.Context, args []json.RawMessage) error {
	var wanted answer.JobSelection
	if err := wire.Arguments(args, &wanted); err != nil {
		return fmt.Errorf("LockstepListJobs: %w", err)
	}
	selection, err := query.NewSelection(wanted)
	if err != nil {
		return fmt.Errorf("LockstepListJobs: %w", err)
	}
	s := &selecting{request: c, selection: selection, archived: map[int64]bool{}}
	if wanted.IDs == nil {
		c.takeRows(ctx, s.examine)
	} else {
		c.takeRowsOf(ctx, wanted.IDs, s.examine)
	}
	return nil
}

// archivedJob is a job file in the archive that may have to be read.
type archivedJob struct {
	id        int64
	hasRecord bool // there is a record, or may be
}

// selecting is the state of one LockstepListJobs: it examines the jobs of the queue first, and then the archive if the selection wants it.
type selecting struct {
	*request
	selection *query.Selection
	rows      []*messages.JobRow // of the queue
	row       int                // index in rows of the first one that was not examined
	selected  []*messages.JobInfo
	archived  map[int64]bool // of the selected jobs, those of the archive
	readers   []answer.ReaderWait
	result    *wire.Result // the answer

	candidates []archivedJob // by descending id; the first next of them were read or are being read
	next       int
	reading    int
	found      int // selected jobs of the archive
	files      int // files that were read
}

// examine takes the rows of the queue and selects jobs among them, in slices.
func (s *selecting) examine(ctx actor.Context, rows []*messages.JobRow) {
	s.rows = rows
	s.examineMore(ctx)
}

func (s *selecting) examineMore(ctx actor.Context) {
	for work := s.Slice(); s.row < len(s.rows); s.row++ {
		if work <= 0 {
			s.Later(ctx, s.examineMore)
			return
		}
		switch row := s.rows[s.row]; {
		case row.Unknown:
			s.candidates = append(s.candidates, archivedJob{id: row.Id, hasRecord: true})
		default:
			work -= s.selection.Work(row.Info)
			if s.selection.Matches(row.Info) {
				s.selected = append(s.selected, row.Info)
			}
		}
	}
	switch {
	case s.selection.IDs != nil:
		s.readArchive(ctx, s.candidates)
	case s.selection.Archived:
		s.listArchive(ctx, s.rows)
	default:
		s.finish(ctx)
	}
}

// listArchive lists the directories of the archive, and reads the jobs that can be selected and are not in the queue. A directory that
// cannot be listed counts as empty.
func (s *selecting) listArchive(ctx actor.Context, rows []*messages.JobRow) {
	inQueue := make(map[int64]bool, len(rows))
	for _, row := range rows {
		inQueue[row.Id] = true
	}
	jobs, records := []int64{}, map[int64]bool{}
	listed := func(ctx actor.Context) {
		candidates := make([]archivedJob, 0, len(jobs))
		for _, id := range jobs {
			// Only a job with a record has a name.
			if !inQueue[id] && (len(s.selection.Names) == 0 || records[id]) {
				candidates = append(candidates, archivedJob{id, records[id]})
			}
		}
		s.readArchive(ctx, candidates)
	}
	l := &archiveListing{request: s.request}
	l.list(ctx, paths.ArchiveDir, func(ctx actor.Context, dirs []string) {
		remaining := len(dirs)
		if remaining == 0 {
			listed(ctx)
		}
		for _, dir := range dirs {
			l.list(ctx, paths.ArchiveDir+"/"+dir, func(ctx actor.Context, names []string) {
				for _, name := range names {
					if id, is := paths.ParseJobName(name); is {
						jobs = append(jobs, id)
					} else if id, is := paths.ParseRecordName(name); is {
						records[id] = true
					}
				}
				if remaining--; remaining == 0 {
					listed(ctx)
				}
			})
		}
	})
}

// readArchive reads archived jobs, from the highest id downwards. Below the ids of enough selected jobs of the queue no
// job is needed.
func (s *selecting) readArchive(ctx actor.Context, candidates []archivedJob) {
	slices.SortFunc(candidates, func(a, b archivedJob) int { return cmp.Compare(b.id, a.id) })
	if limit := s.selection.Limit; limit > 0 && len(s.selected) >= limit {
		ids := make([]int64, len(s.selected))
		for i, info := range s.selected {
			ids[i] = info.Id
		}
		slices.Sort(ids)
		lowest := ids[len(ids)-limit]
		candidates = slices.DeleteFunc(candidates, func(a archivedJob) bool { return a.id < lowest })
	}
	s.candidates = candidates
	s.advance(ctx)
}

// advance reads further archived jobs, at most readsInFlight at once. It answers when no further one is needed and none is being read.
func (s *selecting) advance(ctx actor.Context) {
	need := s.selection.ArchiveNeed()
	for s.next < len(s.candidates) && s.reading < readsInFlight && !s.Ended() && (need == 0 || s.found < need) {
		candidate := s.candidates[s.next]
		s.next++
		s.reading++
		s.Read(ctx, "list-job", paths.ArchivePath(candidate.id), func(ctx actor.Context, m *messages.ReadFileResult) {
			j, err := job.Decode(m.Content)
			switch {
			case m.Missing || m.Failure != nil || err != nil:
				s.wasRead(ctx)
			case !candidate.hasRecord:
				s.add(ctx, j, nil)
			default:
				path := paths.ArchivedRecordPath(candidate.id)
				s.Read(ctx, "list-record", path, func(ctx actor.Context, m *messages.ReadFileResult) { s.add(ctx, j, m.Content) })
			}
		})
	}
	if s.reading == 0 && !s.Ended() {
		s.finish(ctx)
	}
}

// add adds an archived job if it is selected. Without a readable record the job has none.
func (s *selecting) add(ctx actor.Context, j *job.Job, content []byte) {
	if info := archivedInfo(j, content); s.selection.Matches(info) {
		s.selected = append(s.selected, info)
		s.archived[info.Id] = true
		s.found++
	}
	s.wasRead(ctx)
}

// archivedInfo is the info of a job that the queue does not have, from its file and the content of its record.
func archivedInfo(j *job.Job, content []byte) *messages.JobInfo {
	info := query.NewJobInfo(j, summaryOf, nil)
	query.AddOrigin(info, j)
	r, err := record.Decode(content)
	if err != nil {
		r = record.Record{}
	}
	query.AddRecord(info, j, r)
	return info
}

func (s *selecting) wasRead(ctx actor.Context) {
	s.reading--
	if s.files++; s.files%readsPerTimeout == 0 {
		s.SetTimer(ctx, call.Timeout)
	}
	s.advance(ctx)
}

// finish answers with the selected jobs. If some run, it asks which of them cannot go on until their output is read.
func (s *selecting) finish(ctx actor.Context) {
	kept, more := s.selection.Arrange(s.selected)
	s.result = wire.NewResult()
	s.result.Tail = append(s.result.Tail, `{"jobs":[`...)
	if !slices.ContainsFunc(kept, func(i *messages.JobInfo) bool { return job.Status(i.Status) == job.Running }) {
		s.append(ctx, kept, more)
		return
	}
	s.askReaders(ctx, func(ctx actor.Context, all []*messages.ReaderWait) {
		listed := make(map[int64]bool, len(kept))
		for _, info := range kept {
			listed[info.Id] = true
		}
		for _, r := range all {
			if listed[r.Id] {
				s.readers = append(s.readers, answer.ReaderWait{Job: r.Id, Since: answer.TimeOf(r.SinceUs)})
			}
		}
		s.append(ctx, kept, more)
	})
}

// append appends jobs to the answer, in slices, and sends it. more is how many selected jobs the answer lacks. A too large answer ends
// the call.
func (s *selecting) append(ctx actor.Context, kept []*messages.JobInfo, more int) {
	for work := s.Slice(); len(kept) > 0; kept = kept[1:] {
		if work <= 0 {
			s.Later(ctx, func(ctx actor.Context) { s.append(ctx, kept, more) })
			return
		}
		work -= rowWork
		s.result.Tail = query.AppendListed(s.result.Tail, kept[0], s.archived[kept[0].Id])
		if len(kept) > 1 {
			s.result.Tail = append(s.result.Tail, ',')
		}
		s.result.Next(0)
		if !s.Admit(ctx, s.result.Len()) {
			return
		}
	}
	s.result.Tail = fmt.Appendf(s.result.Tail, `],"more":%d,"unread":%d`, more, len(s.candidates)-s.next)
	if len(s.readers) > 0 {
		readers, err := json.Marshal(s.readers)
		if err != nil { // numbers
			panic(err)
		}
		s.result.Tail = append(append(s.result.Tail, `,"readers":`...), readers...)
	}
	s.result.Tail = append(s.result.Tail, '}')
	s.Answer(ctx, s.result.Close()...)
}

package store

import (
	"cmp"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/paths"
	"lockstep/messages"
)

// jobsPerRead is how many job files one writer reads in one step of a scan:
// enough to make messages cheap, few enough to keep all writers busy.
const jobsPerRead = 256

// scanning gathers one scan of the queue directory.
type scanning struct {
	store   *store
	sender  *actor.PID
	request uint64
	behind  map[*batch]struct{} // what the same sender wrote before it asked
	left    int
	result  *messages.QueueScanned
}

// scan waits for what its sender, or a former incarnation of it, has asked to
// write: a scan that ran beside it could see the serial but not the jobs, or
// the jobs but not the serial.
func (s *store) scan(ctx actor.Context, request uint64) {
	sc := &scanning{store: s, sender: ctx.Sender(), request: request,
		behind: map[*batch]struct{}{}, result: &messages.QueueScanned{}}
	for b := range s.batches { // set union: the order does not matter
		if b.sender.Equal(sc.sender) {
			sc.behind[b] = struct{}{}
		}
	}
	s.scans = append(s.scans, sc)
	s.scanAfter(ctx, nil)
}

// scanAfter begins the scans that wait for nothing any more.
func (s *store) scanAfter(ctx actor.Context, answered *batch) {
	waiting := s.scans
	s.scans = nil
	for _, sc := range waiting {
		delete(sc.behind, answered)
		if len(sc.behind) > 0 {
			s.scans = append(s.scans, sc)
		} else {
			sc.begin(ctx)
		}
	}
}

func (sc *scanning) begin(ctx actor.Context) {
	list := &messages.WriterTask{What: &messages.WriterTask_List{List: &messages.ListDir{Op: "scan", Dir: paths.QueueDir}}}
	sc.store.do(ctx, paths.QueueDir+"/scan", list, sc.listed)
}

func (sc *scanning) listed(ctx actor.Context, d *messages.WriterDone) {
	if d.Failure != nil {
		sc.result.Failure = d.Failure
		sc.answer(ctx)
		return
	}
	var ids, records []int64
	for _, name := range d.Names {
		if id, ok := paths.ParseJobName(name); ok {
			ids = append(ids, id)
		}
		if id, ok := paths.ParseRecordName(name); ok {
			records = append(records, id)
		}
		sc.result.Drained = sc.result.Drained || name == paths.DrainName
	}
	slices.Sort(ids)
	slices.Sort(records)
	beside := records[:0]
	for _, id := range records {
		if _, found := slices.BinarySearch(ids, id); found {
			beside = append(beside, id)
		} else {
			sc.result.Orphans = append(sc.result.Orphans, id)
		}
	}
	sc.left = 1
	serial := &messages.WriterTask{What: &messages.WriterTask_Read{Read: &messages.ReadFile{Op: "scan-serial", Path: paths.SerialPath}}}
	sc.store.do(ctx, paths.SerialPath, serial, sc.serialRead)
	for chunk := range slices.Chunk(ids, jobsPerRead) {
		sc.left++
		here := upTo(beside, chunk[len(chunk)-1])
		task := &messages.WriterTask{What: &messages.WriterTask_ReadJobs{ReadJobs: &messages.ReadJobs{Ids: chunk, WithRecord: here}}}
		beside = beside[len(here):]
		sc.store.do(ctx, paths.JobPath(chunk[0])+"/scan", task, sc.jobsRead)
	}
}

// upTo are the first of ascending ids, up to last.
func upTo(ids []int64, last int64) []int64 {
	n, found := slices.BinarySearch(ids, last)
	if found {
		n++
	}
	return ids[:n]
}

func (sc *scanning) serialRead(ctx actor.Context, d *messages.WriterDone) {
	if d.Failure != nil {
		sc.result.Failure = d.Failure
	}
	sc.result.Serial = d.Content
	sc.stepDone(ctx)
}

func (sc *scanning) jobsRead(ctx actor.Context, d *messages.WriterDone) {
	sc.result.Jobs = append(sc.result.Jobs, d.Jobs...)
	sc.stepDone(ctx)
}

func (sc *scanning) stepDone(ctx actor.Context) {
	sc.left--
	if sc.left == 0 {
		slices.SortFunc(sc.result.Jobs, func(a, b *messages.ScannedJob) int { return cmp.Compare(a.Id, b.Id) })
		// What was read may be told; a process that wrote it may not have come
		// to the sync of its directory.
		sc.store.syncDir(ctx, paths.QueueDir, func(ctx actor.Context, f *messages.Failure) {
			if sc.result.Failure == nil {
				sc.result.Failure = f
			}
			sc.answer(ctx)
		})
	}
}

func (sc *scanning) answer(ctx actor.Context) {
	ctx.Send(sc.sender, &messages.StoreAnswer{Request: sc.request, What: &messages.StoreAnswer_Scanned{Scanned: sc.result}})
}

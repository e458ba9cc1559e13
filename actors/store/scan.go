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

// queueScan gathers one scan of the queue directory.
type queueScan struct {
	store      *store
	sender     *actor.PID
	request    uint64
	waitingFor map[*batch]struct{} // what the same sender wrote before it asked
	remaining  int
	result     *messages.ScanQueueResult
}

// scan waits for what its sender, or a former incarnation of it, has asked to
// write: a scan that ran beside it could see the serial but not the jobs, or
// the jobs but not the serial.
func (s *store) scan(ctx actor.Context, request uint64) {
	sc := &queueScan{store: s, sender: ctx.Sender(), request: request,
		waitingFor: map[*batch]struct{}{}, result: &messages.ScanQueueResult{}}
	for b := range s.batches { // set union: the order does not matter
		if b.sender.Equal(sc.sender) {
			sc.waitingFor[b] = struct{}{}
		}
	}
	s.scans = append(s.scans, sc)
	s.beginReadyScans(ctx, nil)
}

// beginReadyScans begins the scans that wait for nothing any more.
func (s *store) beginReadyScans(ctx actor.Context, answered *batch) {
	waiting := s.scans
	s.scans = nil
	for _, sc := range waiting {
		delete(sc.waitingFor, answered)
		if len(sc.waitingFor) > 0 {
			s.scans = append(s.scans, sc)
		} else {
			sc.begin(ctx)
		}
	}
}

func (sc *queueScan) begin(ctx actor.Context) {
	list := &messages.RunDiskTask{What: &messages.RunDiskTask_List{List: &messages.ListDir{Op: "scan", Dir: paths.QueueDir}}}
	sc.store.do(ctx, paths.QueueDir+"/scan", list, sc.listed)
}

func (sc *queueScan) listed(ctx actor.Context, d *messages.RunDiskTaskResult) {
	if d.Failure != nil {
		sc.result.Failure = d.Failure
		sc.answer(ctx)
		return
	}
	var ids, recordIDs []int64
	for _, name := range d.Names {
		if id, ok := paths.ParseJobName(name); ok {
			ids = append(ids, id)
		}
		if id, ok := paths.ParseRecordName(name); ok {
			recordIDs = append(recordIDs, id)
		}
		sc.result.Drained = sc.result.Drained || name == paths.DrainName
	}
	slices.Sort(ids)
	slices.Sort(recordIDs)
	withRecord := recordIDs[:0]
	for _, id := range recordIDs {
		if _, found := slices.BinarySearch(ids, id); found {
			withRecord = append(withRecord, id)
		} else {
			sc.result.Orphans = append(sc.result.Orphans, id)
		}
	}
	sc.remaining = 1
	serial := &messages.RunDiskTask{What: &messages.RunDiskTask_Read{Read: &messages.ReadFile{Op: "scan-serial", Path: paths.SerialPath}}}
	sc.store.do(ctx, paths.SerialPath, serial, sc.serialRead)
	for chunk := range slices.Chunk(ids, jobsPerRead) {
		sc.remaining++
		chunkRecords := upTo(withRecord, chunk[len(chunk)-1])
		task := &messages.RunDiskTask{What: &messages.RunDiskTask_ReadJobs{ReadJobs: &messages.ReadJobs{Ids: chunk, WithRecord: chunkRecords}}}
		withRecord = withRecord[len(chunkRecords):]
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

func (sc *queueScan) serialRead(ctx actor.Context, d *messages.RunDiskTaskResult) {
	if d.Failure != nil {
		sc.result.Failure = d.Failure
	}
	sc.result.Serial = d.Content
	sc.stepDone(ctx)
}

func (sc *queueScan) jobsRead(ctx actor.Context, d *messages.RunDiskTaskResult) {
	sc.result.Jobs = append(sc.result.Jobs, d.Jobs...)
	sc.stepDone(ctx)
}

func (sc *queueScan) stepDone(ctx actor.Context) {
	sc.remaining--
	if sc.remaining == 0 {
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

func (sc *queueScan) answer(ctx actor.Context) {
	ctx.Send(sc.sender, &messages.AccessStoreResult{Request: sc.request, What: &messages.AccessStoreResult_Scan{Scan: sc.result}})
}

package store

import (
	"cmp"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/paths"
	"lockstep/messages"
)

// jobsPerRead is the number of job files in one step of a scan: large enough to make few
// messages, small enough to keep all writers busy.
const jobsPerRead = 256

// queueScan is one scan of the queue directory.
type queueScan struct {
	store      *store
	sender     *actor.PID
	request    uint64
	waitingFor map[*batch]struct{} // writes of the same sender from before the scan
	remaining  int
	result     *messages.ScanQueueResult
}

// scan waits for the earlier writes of its sender and of the sender's former incarnations.
// A scan in parallel could see the serial without the jobs, or the jobs without the serial.
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

// beginReadyScans begins the scans whose batches are all answered.
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

// upTo returns the ids up to last; ids are ascending.
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
		// The content goes into answers; the process that wrote a file may not have synced
		// its directory.
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

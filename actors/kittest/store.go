package kittest

import (
	"fmt"

	"lockstep/core/job"
	"lockstep/messages"
)

// StoreResult is the answer of a store to a request. result is a *messages.ReadFileResult,
// ChangeFilesResult, ScanQueueResult, QuarantineFileResult or ListDirResult.
func StoreResult(r *messages.AccessStore, result any) *messages.AccessStoreResult {
	a := &messages.AccessStoreResult{Request: r.Request}
	switch result := result.(type) {
	case *messages.ReadFileResult:
		a.What = &messages.AccessStoreResult_Read{Read: result}
	case *messages.ChangeFilesResult:
		a.What = &messages.AccessStoreResult_Files{Files: result}
	case *messages.ScanQueueResult:
		a.What = &messages.AccessStoreResult_Scan{Scan: result}
	case *messages.QuarantineFileResult:
		a.What = &messages.AccessStoreResult_Quarantine{Quarantine: result}
	case *messages.ListDirResult:
		a.What = &messages.AccessStoreResult_List{List: result}
	default:
		panic(fmt.Sprintf("%T is no result of a store", result))
	}
	return a
}

// Unfinished is a job as the queue sends it.
func Unfinished(j *job.Job) *messages.UnfinishedJob {
	return &messages.UnfinishedJob{Id: int64(j.ID), Encoded: job.Encode(j)}
}

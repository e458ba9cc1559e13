package luxi

import (
	"bytes"
	"regexp"

	"lockstep/core/wire"
)

// Extent is how much of the queue a request examines, or that it only waits.
type Extent int

// The extents.
const (
	Part    Extent = iota // little
	Paged                 // a bounded number of jobs
	Whole                 // all jobs, or all items of another kind
	Preview               // all jobs, by a rule that is not in force
	Waits                 // nothing: it waits for something to happen
)

var extents = map[string]Extent{
	"Query": Whole, "QueryNodes": Whole, "QueryInstances": Whole, "QueryGroups": Whole, "QueryNetworks": Whole, "LockstepListJobs": Whole,
	"LockstepLocks": Whole, "LockstepOrder": Whole,
	"QueryJobs": Paged, "LockstepPageJobs": Paged, "LockstepNextJobs": Paged, "LockstepUsage": Paged,
	"LockstepTestFilter": Preview, "WaitForJobChange": Waits, "LockstepEvents": Waits, "LockstepAudit": Waits,
}

// beginning is how clients begin a request.
var beginning = regexp.MustCompile(`^\s*\{\s*"method"\s*:\s*"([A-Za-z]{1,40})"\s*,\s*"args"\s*:\s*\[\s*(\[\s*\]|null)?`)

// beginningOf returns the method of a request, and whether its first argument stands for all jobs. A request that begins in another way is
// decoded.
func beginningOf(frame []byte) (method string, all bool) {
	if found := beginning.FindSubmatch(frame); found != nil {
		return string(found[1]), len(found[2]) > 0
	}
	request, err := wire.DecodeRequest(frame)
	if err != nil {
		return "", false
	}
	return request.Method, len(request.Args) > 0 && isAll(request.Args[0])
}

// DependsOnJob reports whether it matters for a request of which job its client is a process.
func DependsOnJob(frame []byte) bool {
	method, _ := beginningOf(frame)
	switch method {
	case "SubmitJob", "SubmitJobToDrainedQueue", "SubmitManyJobs", "LockstepSubmitJobs", "WaitForJobChange", "LockstepAwaitJobs":
		return true
	}
	return false
}

// ExtentOf returns how much of the queue a request examines, from the beginning of its frame.
func ExtentOf(frame []byte) Extent {
	method, all := beginningOf(frame)
	if method == "QueryJobs" && all {
		return Whole
	}
	return extents[method]
}

// isAll reports whether a list of ids stands for all jobs.
func isAll(ids []byte) bool {
	ids = bytes.TrimSpace(ids)
	return string(ids) == "null" || len(ids) > 1 && ids[0] == '[' && len(bytes.TrimSpace(ids[1:len(ids)-1])) == 0
}

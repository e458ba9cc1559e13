package jobproc

import (
	"encoding/json"
	"time"
)

// ReportSizeMax is the usual Identity.ReportSizeMax.
const ReportSizeMax = 1 << 20

// WriteFailure says that the job file cannot be written at present. It is the last argument of a report.
type WriteFailure struct {
	Error   string `json:"error"`
	SinceUS int64  `json:"since_us"` // microseconds since 1970: the first failed attempt
}

// report is what the daemon is told. Without a failure, the file has the content.
type report struct {
	content json.RawMessage // nil: the daemon has been told
	failure *WriteFailure   // nil: the last write has succeeded
}

// reports delivers the content of the job file to the daemon, and that it cannot be written. A report is repeated until a
// daemon accepts it or a newer one replaces it.
type reports struct {
	line
	job      int64
	livelock string
	sizeMax  int
	sent     report  // of the latest call
	next     *report // newer than sent; nil: none
}

// add reports new content of the job's file to the daemon. Of long content it only says that it is new, and the daemon reads the file.
func (r *reports) add(out *Actions, content []byte) {
	if len(content) > r.sizeMax {
		content = []byte("null")
	}
	r.put(out, report{content: content})
}

// fail reports that the file cannot be written. Content that is not delivered yet goes with it.
func (r *reports) fail(out *Actions, failure WriteFailure) {
	next := report{failure: &failure}
	switch {
	case r.next != nil:
		next.content = r.next.content
	case r.busy():
		next.content = r.sent.content
	}
	r.put(out, next)
}

func (r *reports) put(out *Actions, next report) {
	r.next = &next
	if !r.busy() {
		r.send(out)
	}
}

// send makes the call that reports the newest state, in place of older ones that were not delivered.
func (r *reports) send(out *Actions) {
	if r.next != nil {
		r.sent, r.next = *r.next, nil
	}
	content := r.sent.content
	if content == nil {
		content = json.RawMessage("null") // the daemon reads the file, which is as it was
	}
	args := []any{r.job, r.livelock, content}
	if r.sent.failure != nil {
		args = append(args, r.sent.failure)
	}
	r.call(out, "LockstepReportJob", args, reportTimeout)
}

// answered handles the end of the latest call. It reports whether all content is delivered.
func (r *reports) answered(now time.Time, out *Actions, err error) (delivered bool) {
	if err != nil && !isFinal(err, reportFinal) {
		r.callAgain(now)
		return false
	}
	r.backoff.Reset()
	if r.next != nil {
		r.send(out)
	}
	return !r.busy()
}

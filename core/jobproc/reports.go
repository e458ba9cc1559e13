package jobproc

import (
	"encoding/json"
	"time"
)

// ReportSizeMax is the usual Identity.ReportSizeMax.
const ReportSizeMax = 1 << 20

// reports delivers the content of the job file to the daemon. A report is repeated until a daemon accepts it or newer
// content replaces it.
type reports struct {
	line
	job      int64
	livelock string
	sizeMax  int
	sent     json.RawMessage // of the latest call
	next     json.RawMessage // newer than sent; nil: none
}

// add reports new content.
func (r *reports) add(out *Actions, content []byte) {
	if len(content) > r.sizeMax {
		content = []byte("null")
	}
	r.next = content
	if !r.busy() {
		r.send(out)
	}
}

// send sends the newest content.
func (r *reports) send(out *Actions) {
	if r.next != nil {
		r.sent, r.next = r.next, nil
	}
	r.call(out, "LockstepReportJob", []any{r.job, r.livelock, r.sent}, reportTimeout)
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

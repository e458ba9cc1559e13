package jobproc

import (
	"encoding/json"
	"time"
)

// ReportSizeMax is the usual Identity.ReportSizeMax.
const ReportSizeMax = 1 << 20

// WriteFailure says that the job file cannot be written at present.
type WriteFailure struct {
	Error   string `json:"error"`
	SinceUS int64  `json:"since_us"` // microseconds since 1970: the first failed attempt
}

// Hindrance is what keeps the job from going on, as far as its process knows. It is the last argument of a report, without which nothing
// does.
type Hindrance struct {
	WriteFailure
	ReaderSinceUS int64 `json:"reader_since_us,omitempty"` // microseconds since 1970: since then output waits for its reader; 0: it does not
}

// readerReminder is how often the daemon is told again that output waits for its reader: another daemon has not heard of it.
const readerReminder = 20 * time.Second

// report is new content of the file; nil: the daemon knows it.
type report struct{ content json.RawMessage }

// reports delivers the content of the job file to the daemon, and what keeps the job from going on. A report is repeated until a
// daemon accepts it or a newer one replaces it.
type reports struct {
	line
	job       int64
	livelock  string
	sizeMax   int
	sent      report  // of the latest call
	next      *report // newer than sent; nil: none
	hindrance Hindrance
	reminder  time.Time // of a hindrance by the reader; zero: there is none
}

// add reports new content of the job's file to the daemon. Of long content it only says that it is new, and the daemon reads the file.
func (r *reports) add(out *Actions, content []byte) {
	if len(content) > r.sizeMax {
		content = []byte("null")
	}
	r.hindrance.WriteFailure = WriteFailure{}
	r.put(out, report{content})
}

// fail reports that the file cannot be written.
func (r *reports) fail(out *Actions, failure WriteFailure) {
	r.hindrance.WriteFailure = failure
	r.repeat(out)
}

// awaitReader reports since when output waits for its reader; the zero time: it does not.
func (r *reports) awaitReader(now time.Time, out *Actions, since time.Time) {
	r.hindrance.ReaderSinceUS, r.reminder = 0, time.Time{}
	if !since.IsZero() {
		r.hindrance.ReaderSinceUS, r.reminder = since.UnixMicro(), now.Add(readerReminder)
	}
	r.repeat(out)
}

// remind reports a hindrance by the reader again, if it is time.
func (r *reports) remind(now time.Time, out *Actions) {
	if !r.reminder.IsZero() && !now.Before(r.reminder) {
		r.reminder = now.Add(readerReminder)
		r.repeat(out)
	}
}

// repeat reports the hindrance. Content that is not delivered yet goes with it.
func (r *reports) repeat(out *Actions) {
	next := report{}
	switch {
	case r.next != nil:
		next = *r.next
	case r.busy():
		next = r.sent
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
	if r.hindrance != (Hindrance{}) {
		hindrance := r.hindrance
		args = append(args, &hindrance)
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

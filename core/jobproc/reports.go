package jobproc

import (
	"encoding/json"
	"time"

	"lockstep/core/progress"
)

// ReportSizeMax is the usual Identity.ReportSizeMax.
const ReportSizeMax = 1 << 20

// WriteFailure says that the job file cannot be written at present.
type WriteFailure struct {
	Error   string `json:"error"`
	SinceUS int64  `json:"since_us"` // microseconds since 1970: the first failed attempt
}

// Condition is what a report says beside the content of the file: what keeps the job from going on, as far as its process knows, and the
// progress of its command. It is the last argument of a report, without which there is nothing to say.
type Condition struct {
	WriteFailure
	// ReaderSinceUS is in microseconds since 1970: since then output waits for its reader; 0: it does not.
	ReaderSinceUS int64     `json:"reader_since_us,omitempty"`
	Progress      *Progress `json:"progress,omitempty"` // nil: the command has said nothing
	// Unchanged: the daemon knows the content of the file. Otherwise it reads the file if the report has none.
	Unchanged bool `json:"unchanged,omitempty"`
}

// Progress is what the command of an opcode says about its progress, see package progress. Times are in microseconds since 1970.
type Progress struct {
	progress.Line
	SinceUS   int64 `json:"since_us"`   // start of the command
	UpdatedUS int64 `json:"updated_us"` // when it said so
}

// reminderPause is how often the daemon is told again that output waits for its reader, and of the progress: another daemon has not heard
// of it.
const reminderPause = 20 * time.Second

// report is new content of the file; nil: the daemon knows it.
type report struct{ content json.RawMessage }

// reports delivers to the daemon the content of the job file and the condition of the job. A report is repeated until a daemon accepts it
// or a newer one replaces it.
type reports struct {
	line
	job       int64
	livelock  string
	sizeMax   int
	sent      report  // of the latest call
	next      *report // newer than sent; nil: none
	condition Condition
	reminder  time.Time // zero: there is nothing to repeat

	progress     *Progress // what comes into the condition at progressFrom
	progressNews bool      // it is not there yet
	progressFrom time.Time // the daemon hears of the progress at most once in progress.Pause
}

// add reports new content of the job's file to the daemon. Of long content it only says that it is new, and the daemon reads the file.
func (r *reports) add(out *Actions, content []byte) {
	if len(content) > r.sizeMax {
		content = []byte("null")
	}
	r.condition.WriteFailure = WriteFailure{}
	r.put(out, report{content})
}

// fail reports that the file cannot be written.
func (r *reports) fail(out *Actions, failure WriteFailure) {
	r.condition.WriteFailure = failure
	r.repeat(out)
}

// awaitReader reports since when output waits for its reader; the zero time: it does not.
func (r *reports) awaitReader(now time.Time, out *Actions, since time.Time) {
	r.condition.ReaderSinceUS = 0
	if !since.IsZero() {
		r.condition.ReaderSinceUS = since.UnixMicro()
	}
	r.tell(now, out)
}

// progressed reports what the command says about its progress; nil: nothing. What it says too often replaces what waits to be reported.
func (r *reports) progressed(now time.Time, out *Actions, p *Progress) {
	r.progress, r.progressNews = p, true
	r.tellProgress(now, out)
}

// progressDue is when progress is to be reported; the zero time: there is no news, or a report is under way.
func (r *reports) progressDue() time.Time {
	if !r.progressNews || r.busy() {
		return time.Time{}
	}
	return r.progressFrom
}

// tellProgress reports the progress, if there is news, it is time, and no report is under way.
func (r *reports) tellProgress(now time.Time, out *Actions) {
	if r.progressNews && !r.busy() && !now.Before(r.progressFrom) {
		r.condition.Progress, r.progressNews, r.progressFrom = r.progress, false, now.Add(progress.Pause)
		r.tell(now, out)
	}
}

// commandEnded drops the progress. The report of the opcode's end is without it.
func (r *reports) commandEnded() {
	r.condition.Progress, r.progressNews = nil, false
	if r.condition.ReaderSinceUS == 0 {
		r.reminder = time.Time{}
	}
}

// tell reports the condition, and again after a while.
func (r *reports) tell(now time.Time, out *Actions) {
	r.reminder = time.Time{}
	if r.condition.ReaderSinceUS != 0 || r.condition.Progress != nil {
		r.reminder = now.Add(reminderPause)
	}
	r.repeat(out)
}

// remind reports the condition again, if it is time.
func (r *reports) remind(now time.Time, out *Actions) {
	if !r.reminder.IsZero() && !now.Before(r.reminder) {
		r.tell(now, out)
	}
}

// repeat reports the condition. Content that is not delivered yet goes with it.
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
	content, condition := r.sent.content, r.condition
	if content == nil {
		content, condition.Unchanged = json.RawMessage("null"), true
	}
	args := []any{r.job, r.livelock, content}
	if condition != (Condition{}) {
		args = append(args, &condition)
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

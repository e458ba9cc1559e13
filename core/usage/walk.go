package usage

import (
	"fmt"

	"lockstep/core/job"
	"lockstep/core/record"
)

// Query is the argument of LockstepUsage.
type Query struct {
	SinceUS int64 `json:"since_us,omitempty"` // jobs submitted since, microseconds since 1970; 0: all
	Cursor  int64 `json:"cursor,omitempty"`   // jobs with lower ids; 0: all
}

// Check returns what is wrong with a query, for its client; nil: nothing is.
func (q Query) Check() error {
	if q.SinceUS < 0 || q.Cursor < 0 {
		return fmt.Errorf("since_us is a time, and cursor the id of a job")
	}
	return nil
}

// Page is the answer to LockstepUsage: jobs by descending id.
type Page struct {
	Jobs []Job `json:"jobs"`
	// Cursor is that of the query for the next page; 0: there is none.
	Cursor int64 `json:"cursor"`
	// OldestUS is when the last examined job was submitted; 0: none was examined.
	OldestUS   int64 `json:"oldest_us"`
	Examined   int   `json:"examined"`   // jobs whose files were read
	Unreadable int   `json:"unreadable"` // of them, those that could not be read or decoded
}

// Bounds of a page.
const (
	pageJobs  = 5_000    // that are examined
	pageBytes = 32 << 20 // of their files
	// olderRun is how many jobs in a row, submitted before the time of the query, end the walk. Ids ascend with the time of the submission,
	// apart from clocks that are set and the clocks of different masters.
	olderRun = 100
)

// Walk makes a page of the files of jobs.
type Walk struct {
	query Query
	page  Page
	bytes int
	older int // jobs in a row that were submitted before
	over  bool
}

// NewWalk begins a page.
func NewWalk(q Query) *Walk { return &Walk{query: q, page: Page{Jobs: []Job{}}} }

// Wants reports whether the job with an id is to be examined.
func (w *Walk) Wants(id int64) bool { return w.query.Cursor == 0 || id < w.query.Cursor }

// Take examines a job: the content of its file and of its record, which is empty if there is none. Jobs come by descending id. It reports
// whether the page takes further jobs.
func (w *Walk) Take(id int64, content, rec []byte) bool {
	w.bytes += len(content) + len(rec)
	j, err := job.Decode(content)
	if err != nil {
		return w.Miss(id)
	}
	received := j.Received.Micros()
	w.page.OldestUS = received
	if received < w.query.SinceUS {
		w.older++
	} else {
		w.older = 0
		r, err := record.Decode(rec)
		if err != nil {
			r = record.Record{}
		}
		w.page.Jobs = append(w.page.Jobs, jobOf(j, r))
	}
	return w.examined(id)
}

// Miss examines a job whose file cannot be read. It reports the same as Take.
func (w *Walk) Miss(id int64) bool {
	w.page.Unreadable++
	return w.examined(id)
}

func (w *Walk) examined(id int64) bool {
	w.page.Examined++
	full := w.page.Examined >= pageJobs || w.bytes >= pageBytes
	// A page of few large files may have less than olderRun jobs.
	if w.older >= olderRun || full && w.older > 0 && w.older == w.page.Examined-w.page.Unreadable {
		w.page.Cursor, w.over = 0, true
		return false
	}
	if full {
		w.page.Cursor, w.over = id, true
	}
	return !w.over
}

// Page is the page of the jobs that were taken.
func (w *Walk) Page() Page { return w.page }

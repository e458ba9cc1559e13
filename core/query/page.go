package query

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"lockstep/core/answer"
	"lockstep/core/paths"
	"lockstep/messages"
)

// Bounds of one page.
const (
	PageDefault = 200  // jobs of a page without a limit
	PageMax     = 1000 // jobs of a page
	// pageRowsMax and pageFilesMax are the most jobs of the queue and of the archive that one call examines.
	pageRowsMax  = 20_000
	pageFilesMax = 1_000
)

// Page collects the jobs of one page of a long list, over several messages. It walks over the ids in the order of the page, so that a job
// that comes, ends or moves to the archive meanwhile is neither skipped nor there twice.
type Page struct {
	selection *Selection
	request   answer.JobPageRequest
	limit     int

	cursor   int64 // the last examined id; 0: none
	rows     int
	files    int
	infos    []*messages.JobInfo
	archived map[int64]bool
	done     bool // no further job exists
}

// NewPage checks a request. Its errors are for the client.
func NewPage(r answer.JobPageRequest) (*Page, error) {
	if r.IDs != nil || r.MaxUnfinished != 0 || r.MaxEnded != 0 {
		return nil, fmt.Errorf("a page has no ids, max_unfinished or max_ended")
	}
	if r.Limit < 0 || r.Limit > PageMax || r.Cursor < 0 {
		return nil, fmt.Errorf("a page has 1 to %d jobs, and its cursor is a job id", PageMax)
	}
	selection, err := NewSelection(r.JobSelection)
	if err != nil {
		return nil, err
	}
	p := &Page{selection: selection, request: r, limit: r.Limit, cursor: r.Cursor, archived: map[int64]bool{}}
	if p.limit == 0 {
		p.limit = PageDefault
	}
	return p, nil
}

// Cursor is the last examined id, 0 at the beginning.
func (p *Page) Cursor() int64 { return p.cursor }

// OldestFirst reports whether the page is in ascending order of ids.
func (p *Page) OldestFirst() bool { return p.request.OldestFirst }

// WantsArchive reports whether archived jobs are part of the page.
func (p *Page) WantsArchive() bool { return p.request.Archived }

// Complete reports whether no further job is examined for this page.
func (p *Page) Complete() bool {
	return p.done || len(p.infos) >= p.limit || p.rows >= pageRowsMax || p.files >= pageFilesMax
}

// Finish records that there is no further job.
func (p *Page) Finish() { p.done = true }

// Compare orders ids as the page does.
func (p *Page) Compare(a, b int64) int {
	if p.request.OldestFirst {
		return cmp.Compare(a, b)
	}
	return cmp.Compare(b, a)
}

// Ahead reports whether an id is after the cursor, and not after last. last 0: there is no bound.
func (p *Page) Ahead(id, last int64) bool {
	return (p.cursor == 0 || p.Compare(id, p.cursor) > 0) && (last == 0 || p.Compare(id, last) <= 0)
}

// ArchiveDirs returns the numbers of the archive's directories that may have ids after the cursor and not after last, in
// the order of the page.
func (p *Page) ArchiveDirs(all []int64, last int64) []int64 {
	low, high := p.cursor, last
	if !p.request.OldestFirst {
		low, high = last, p.cursor
	}
	if high == 0 {
		high = math.MaxInt64
	}
	var dirs []int64
	for _, dir := range all {
		if dir >= paths.ArchiveDirOf(low) && dir <= paths.ArchiveDirOf(high) {
			dirs = append(dirs, dir)
		}
	}
	slices.SortFunc(dirs, p.Compare)
	return slices.Compact(dirs)
}

// Add examines the next job. Jobs come in the order of the page. It reports whether the page takes further jobs.
func (p *Page) Add(id int64, info *messages.JobInfo, archived bool) bool {
	p.cursor = id
	if archived {
		p.files++
	} else {
		p.rows++
	}
	if info != nil && p.selection.Matches(info) {
		p.infos = append(p.infos, info)
		p.archived[id] = archived
	}
	return !p.Complete()
}

// Work is about the cost of Add, in steps of about 20 ns.
func (p *Page) Work(info *messages.JobInfo) int {
	if info == nil {
		return 1
	}
	return p.selection.Work(info)
}

// Append appends the page as an answer.JobPage. Its cursor is 0 if there is no next page.
func (p *Page) Append(dst []byte) []byte {
	dst = append(dst, `{"jobs":[`...)
	for i, info := range p.infos {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendListed(dst, info, p.archived[info.Id])
	}
	cursor := p.cursor
	if p.done {
		cursor = 0
	}
	return fmt.Appendf(dst, `],"cursor":%d,"examined":%d}`, cursor, p.rows+p.files)
}

package audit

import (
	"slices"
	"time"
)

// LimitMax is the largest number of entries of one answer.
const LimitMax = 1000

// Query selects entries. Of those that match it takes the newest, or with After the oldest.
type Query struct {
	After  *uint64   `json:"after,omitempty"`  // only entries with a higher number
	Before uint64    `json:"before,omitempty"` // only entries with a lower number; 0: all
	Since  time.Time `json:"since,omitzero"`   // only entries from that time on
	User   string    `json:"user,omitempty"`   // only those of this user, see Entry.IsOf
	Limit  int       `json:"limit,omitempty"`  // of entries; 0 and more than LimitMax: LimitMax
}

// Page answers a Query.
type Page struct {
	Entries []Entry `json:"entries"` // in the order of their numbers
	// Last is the highest number that was looked at: the cursor After of the next query about newer entries.
	Last uint64 `json:"last"`
	// Older is the cursor Before of the next query about older entries; 0: there are none.
	Older uint64 `json:"older"`
	// Damaged is the number of files of which a part cannot be read.
	Damaged int `json:"damaged"`
}

// Search reads the files of the log for a query, one after the other, from the newest to the oldest, or with After the other way.
type Search struct {
	query Query
	files []uint64 // that are not read, in order, by their first numbers
	page  Page
	done  bool
}

// NewSearch begins a search of a log of these files, in order, whose highest number is last.
func NewSearch(q Query, files []uint64, last uint64) *Search {
	if q.Limit <= 0 || q.Limit > LimitMax {
		q.Limit = LimitMax
	}
	s := &Search{query: q, files: files, page: Page{Entries: []Entry{}, Last: last}}
	if q.After != nil {
		at, found := slices.BinarySearch(files, *q.After+1)
		if !found && at > 0 {
			at-- // the entry is in the file that begins before it
		}
		s.files = files[at:]
	} else if q.Before > 0 {
		at, _ := slices.BinarySearch(files, q.Before)
		s.files = files[:at]
	}
	return s
}

// Next is the file to read. ok is false when the search has ended.
func (s *Search) Next() (file uint64, ok bool) {
	if s.done || len(s.files) == 0 {
		return 0, false
	}
	if s.query.After != nil {
		file, s.files = s.files[0], s.files[1:]
	} else {
		file, s.files = s.files[len(s.files)-1], s.files[:len(s.files)-1]
	}
	return file, true
}

// Take takes the content of that file. Without content it was removed meanwhile.
func (s *Search) Take(file uint64, content []byte) {
	entries, err := Decode(file, content)
	if err != nil {
		s.page.Damaged++
	}
	if s.query.After != nil {
		s.takeForward(entries)
	} else {
		s.takeBackward(entries)
	}
}

func (s *Search) takeForward(entries []Entry) {
	for _, e := range entries {
		if e.Number <= *s.query.After || !s.matches(&e) {
			continue
		}
		if len(s.page.Entries) == s.query.Limit {
			s.page.Last, s.done = s.page.Entries[len(s.page.Entries)-1].Number, true
			return
		}
		s.page.Entries = append(s.page.Entries, e)
		s.page.Last = max(s.page.Last, e.Number) // written since the search began
	}
}

func (s *Search) takeBackward(entries []Entry) {
	var found []Entry
	for _, e := range slices.Backward(entries) {
		if e.Time.Before(s.query.Since) {
			s.done = true
			break
		}
		if !s.matches(&e) {
			continue
		}
		if s.done = len(found)+len(s.page.Entries) == s.query.Limit; s.done {
			break
		}
		found = append(found, e)
	}
	full := s.done && len(found)+len(s.page.Entries) == s.query.Limit
	slices.Reverse(found)
	s.page.Entries = append(found, s.page.Entries...)
	if full {
		s.page.Older = s.page.Entries[0].Number
	}
}

func (s *Search) matches(e *Entry) bool {
	return (s.query.User == "" || e.IsOf(s.query.User)) && !e.Time.Before(s.query.Since) &&
		(s.query.Before == 0 || e.Number < s.query.Before)
}

// Page is the answer, when the search has ended.
func (s *Search) Page() Page { return s.page }

package console

import (
	"net/url"
	"slices"
	"strconv"

	"lockstep/core/answer"
	coreaudit "lockstep/core/audit"
	"lockstep/edge/rapi"
)

// entriesOfPage is the number of entries of a page of the audit log.
const entriesOfPage = 100

// auditView is the data of the audit log.
type auditView struct {
	Entries  []auditRow // the newest first
	User     string     // of whom alone they are; empty: of all
	Damaged  int        // files of which a part cannot be read
	Next     string     // path of the page with older entries; empty: none
	First    string     // path of the page with the newest; empty: this is it
	Filtered bool
}

// auditRow is an entry.
type auditRow struct {
	coreaudit.Entry
	At answer.Time
}

func (x *Console) auditLog(q *request) error {
	wanted, err := rapi.AuditQuery(q.URL.Query())
	if err != nil {
		return err
	}
	if wanted.Limit == 0 {
		wanted.Limit = entriesOfPage
	}
	page, err := ask[coreaudit.Page](q, rapi.Short, "LockstepAudit", wanted)
	if err != nil {
		return err
	}
	v := auditView{User: wanted.User, Damaged: page.Damaged, Filtered: wanted.User != "" || !wanted.Since.IsZero()}
	for _, e := range slices.Backward(page.Entries) {
		v.Entries = append(v.Entries, auditRow{e, answer.Time{Time: e.Time}})
	}
	values := url.Values{}
	for _, name := range []string{"user", "since", "limit"} {
		if value := q.URL.Query().Get(name); value != "" {
			values.Set(name, value)
		}
	}
	if wanted.Before != 0 {
		v.First = auditPath(values)
	}
	if page.Older != 0 {
		values.Set("before", strconv.FormatUint(page.Older, 10))
		v.Next = auditPath(values)
	}
	return q.show("audit", "Audit", "audit", "", v)
}

func auditPath(values url.Values) string {
	if len(values) == 0 {
		return "/ui/audit"
	}
	return "/ui/audit?" + values.Encode()
}

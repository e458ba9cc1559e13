package console

import (
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	coreaudit "lockstep/core/audit"
)

// The page has the newest entries first, and links to the entries of a user and to older ones.
func TestTheAuditLogHasPages(t *testing.T) {
	var asked coreaudit.Query
	queue := fixedAnswers{"LockstepAudit": func(args ...any) any {
		asked = args[0].(coreaudit.Query)
		entry := coreaudit.Entry{Number: 8, Time: time.Unix(1, 0), User: "bob", Key: "uid=1001", By: "uid=1001(bob), pid=7", Method: "CancelJob",
			What: "kill job 12", Refused: "job 12 is root's", LeftOut: 2}
		older := entry
		older.Number, older.What, older.Refused, older.LeftOut = 7, "hold job 3", "", 0
		return coreaudit.Page{Entries: []coreaudit.Entry{older, entry}, Last: 20, Older: 7}
	}}
	a := newAudited(t)
	page := a.view(queue, "/ui/audit?user=bob&before=9")
	require.Equal(t, coreaudit.Query{User: "bob", Before: 9, Limit: entriesOfPage}, asked)
	require.Regexp(t, `(?s)id="entry-8".*kill job 12.*job 12 is root&#39;s \(2 further refusals\).*id="entry-7".*hold job 3`, page)
	require.Contains(t, page, `<a href="/ui/audit?user=uid%3d1001">bob</a>`)
	require.Contains(t, page, `<a href="/ui/audit?user=bob" rel="first">Newest</a>`)
	require.Contains(t, page, `<a href="/ui/audit?before=7&amp;user=bob" rel="next">Older</a>`)
}

// Only a user who may read the log has a link to it.
func TestReadersSeeNoAuditLog(t *testing.T) {
	a := newAudited(t)
	require.Contains(t, a.view(hostileQueue(), "/ui/help"), "/ui/audit")
	require.NoError(t, os.WriteFile(a.users, []byte("operator secret submit\n"), 0o600))
	require.NotContains(t, a.view(hostileQueue(), "/ui/help"), "/ui/audit")
	request := httptest.NewRequest(http.MethodGet, "/ui/audit", nil)
	request.AddCookie(a.session())
	w := httptest.NewRecorder()
	a.ServeHTTP(w, request)
	require.Equal(t, http.StatusForbidden, w.Code)
	require.Contains(t, w.Body.String(), "o read the audit log needs the role operate, operator (remote API) has submit")
}

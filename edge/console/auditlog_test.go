package console

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/access"
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

// A user with the role operate has a link to the log, and sees it. Others have none, and see the reason.
func TestWhoSeesTheAuditLog(t *testing.T) {
	a := newAudited(t)
	a.setQueue(hostileQueue())
	get := func(name, path string) *httptest.ResponseRecorder {
		request := httptest.NewRequest(http.MethodGet, path, nil)
		request.AddCookie(a.sessionOf(name))
		w := httptest.NewRecorder()
		a.ServeHTTP(w, request)
		return w
	}
	for role, name := range roleUsers {
		sees := role >= access.Operate
		require.Equal(t, sees, strings.Contains(get(name, "/ui/help").Body.String(), `href="/ui/audit"`), name)
		page := get(name, "/ui/audit")
		require.Equal(t, sees, page.Code == http.StatusOK, name)
		if !sees {
			require.Equal(t, http.StatusForbidden, page.Code, name)
			require.Contains(t, page.Body.String(), "o read the audit log needs the role operate, "+name+" (remote API) has "+role.String())
		}
	}
}

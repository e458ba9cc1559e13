package main

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A session of the console that was opened at one node holds at all nodes, outlives the master, and ends at all nodes with its log-out,
// also at a node that was down meanwhile.
func TestClusterSessionsOfTheConsole(t *testing.T) {
	t.Parallel()
	c := newClusterAt(t, loopback(t, 3), func(_ int, m *member) {
		host, _, err := net.SplitHostPort(m.address)
		require.NoError(t, err)
		m.flags = []string{"--rapi-address", host + ":5080"}
		require.NoError(t, os.MkdirAll(m.path("lib", "rapi"), 0o750))
		require.NoError(t, os.WriteFile(m.path("lib", "rapi", "users"), []byte("operator secret write\n"), 0o600))
	})
	client := &http.Client{Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(client.CloseIdleConnections)
	var session *http.Cookie
	request := func(at *member, method, path string, form url.Values) (code int, cookies []*http.Cookie, err error) {
		r, err := http.NewRequest(method, "http://"+at.flags[1]+path, strings.NewReader(form.Encode()))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if session != nil {
			r.AddCookie(session)
		}
		response, err := client.Do(r)
		if err != nil {
			return 0, nil, err
		}
		defer response.Body.Close()
		return response.StatusCode, response.Cookies(), nil
	}
	// answers waits until a page at a node has this code: 200 with the session, 303 to the login without.
	answers := func(at *member, code int) {
		t.Helper()
		c.eventually("the console of "+at.name, func() error {
			got, _, err := request(at, http.MethodGet, "/ui/jobs", nil)
			if err == nil && got != code {
				err = fmt.Errorf("it answers %d", got)
			}
			return err
		})
	}

	master := c.master()
	others := c.others(master)
	answers(others[0], http.StatusSeeOther)
	code, cookies, err := request(others[0], http.MethodPost, "/ui/login", url.Values{"name": {"operator"}, "password": {"secret"}})
	require.NoError(t, err)
	require.Equal(t, http.StatusSeeOther, code)
	require.Len(t, cookies, 1)
	session = cookies[0]
	require.Equal(t, "__Host-lockstep-5080", session.Name)
	answers(master, http.StatusOK)

	master.crash()
	answers(others[1], http.StatusOK) // it has not seen the session before
	answers(others[0], http.StatusOK)
	code, _, err = request(others[1], http.MethodPost, "/ui/logout", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSeeOther, code)
	answers(others[1], http.StatusSeeOther)
	answers(others[0], http.StatusSeeOther)
	master.start()
	answers(master, http.StatusSeeOther)
}

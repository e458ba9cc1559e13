package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// Under the name ganeti-rapi the objects of the cluster can be read without a login, as with Ganeti's, unless the operator requires one.
// Changes always need one.
func TestReadsOfRapiFaceWithoutLogin(t *testing.T) {
	b := newRapiBench(t)
	b.start(wconfdName)
	b.start(luxidName)
	code, output := b.command(rapiName, "-b", b.host, "-p", b.port)
	require.Zero(t, code, output)
	for _, path := range []string{"/2/nodes?bulk=1", "/2/instances", "/2/groups", "/2/networks?bulk=1", "/2/tags", "/2/info", "/2/jobs"} {
		status, body := b.request(http.MethodGet, path, "", "")
		require.Equal(t, http.StatusOK, status, "%s: %s", path, body)
	}
	for _, path := range []string{"/2/query/node?fields=name", "/2/instances/web/console"} {
		status, body := b.request(http.MethodGet, path, "", "")
		require.Equal(t, http.StatusUnauthorized, status, body)
	}
	status, _ := b.request(http.MethodPut, "/2/tags?tag=a", "", "")
	require.Equal(t, http.StatusUnauthorized, status)
	status, body := b.request(http.MethodPut, "/2/tags?tag=a&dry-run=1", "deploy:secret", "")
	require.Equal(t, http.StatusOK, status, body)
	require.Regexp(t, `^\d+\n$`, body)
	status, _ = b.request(http.MethodPut, "/2/tags?tag=a", "deploy:wrong", "")
	require.Equal(t, http.StatusUnauthorized, status)
}

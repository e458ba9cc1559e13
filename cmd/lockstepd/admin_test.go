package main

import (
	"context"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// get requests a path from the admin socket.
func (d *daemon) get(path string) (code int, body string) {
	d.t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", d.path("run", "socket", "admin"))
	}}
	answer, err := (&http.Client{Transport: transport}).Get("http://localhost" + path)
	require.NoError(d.t, err)
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	require.NoError(d.t, err)
	return answer.StatusCode, string(content)
}

func TestProfilesOnTheAdminSocket(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	info, err := os.Stat(d.path("run", "socket", "admin"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), "a profile shows what is in memory")
	for path, part := range map[string]string{
		"/debug/pprof/":                  "goroutine",
		"/debug/pprof/heap?gc=1&debug=1": "# HeapAlloc = ",
		"/debug/pprof/goroutine?debug=1": "goroutine profile",
		"/debug/pprof/cmdline":           "lockstepd",
	} {
		code, body := d.get(path)
		require.Equal(t, http.StatusOK, code, path)
		require.Contains(t, body, part, path)
	}
	for _, profile := range []string{"block", "mutex"} { // sampled only during a request for them
		code, body := d.get("/debug/pprof/" + profile)
		require.Equal(t, http.StatusBadRequest, code)
		require.Contains(t, body, "ask for seconds")
		code, body = d.get("/debug/pprof/" + profile + "?seconds=1")
		require.Equal(t, http.StatusOK, code)
		require.NotEmpty(t, body)
	}
	code, _ := d.get("/2/jobs")
	require.Equal(t, http.StatusNotFound, code, "there is nothing else")

	d.kill()
	d.start() // the socket that was left is replaced
	code, _ = d.get("/debug/pprof/")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, 0, d.stop())
	_, err = os.Stat(d.path("run", "socket", "admin"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

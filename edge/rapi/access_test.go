package rapi_test

import (
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhoMayDoWhat(t *testing.T) {
	t.Parallel()
	b := newTestServer(t)
	for _, test := range []struct {
		method, path, who string
		code              int
	}{
		{"GET", "/2/jobs", "", 200}, {"GET", "/2/jobs", "ro:secret", 200}, {"GET", "/2/jobs", "ro:wrong", 401}, {"GET", "/2/jobs", "nobody:secret", 401},
		{"GET", "/2/jobs", "hashed:secret", 200}, {"GET", "/2/jobs", "hashed:" + hashedSecret, 401}, {"GET", "/2/jobs", "hashed:", 401},
		{"GET", "/2/query/job?fields=id", "", 401}, {"GET", "/2/query/job?fields=id", "ro:secret", 403},
		{"GET", "/2/query/job?fields=id", "reader:secret", 200}, {"GET", "/2/query/job?fields=id", "peer:secret", 200},
		{"GET", "/2/query/job/fields", "", 200},
		{"PUT", "/2/redistribute-config", "", 401}, {"PUT", "/2/redistribute-config", "reader:secret", 403}, {"PUT", "/2/redistribute-config", "peer:secret", 200},
		{"GET", "/3/locks", "", 401}, {"GET", "/3/locks", "reader:secret", 200}, {"GET", "/3/jobs/1/why", "ro:secret", 403},
		{"GET", "/2/nothing", "ro:wrong", 404}, {"PUT", "/2/jobs", "", 405}, {"GET", "/metrics", "", 200}, {"GET", "/healthz", "", 200},
	} {
		a := b.do(test.method, test.path, test.who, "")
		require.Equal(t, test.code, a.code, "%+v: %s", test, a.body)
	}
}

func TestWhereEverybodyMustLogIn(t *testing.T) {
	b := newTestServer(t, authenticate)
	for path, code := range map[string]int{"/version": 401, "/": 401, "/2/jobs": 401, "/metrics": 200, "/3/openapi.json": 401, "/healthz": 200, "/readyz": 200, "/nothing": 404} {
		require.Equal(t, code, b.do("GET", path, "", "").code, path)
	}
	require.Equal(t, http.StatusOK, b.do("GET", "/2", "ro:secret", "").code)
	require.Equal(t, http.StatusUnauthorized, b.do("GET", "/2", "", "", "Authorization: Bearer x").code)
	require.Equal(t, http.StatusUnauthorized, b.do("GET", "/2", "", "", "Authorization: Basic !!!").code)
}

// The daemon detects changes of the file.
func TestTheUsersFileIsReadAgain(t *testing.T) {
	t.Parallel()
	b := newTestServer(t)
	status := func(who string) int { return b.do("GET", "/3/locks", who, "").code }
	require.Equal(t, 401, status("new:sesame"))
	require.NoError(t, os.WriteFile(b.users, []byte("new sesame read\nbad {x}sesame\n"), 0o644))
	require.NoError(t, os.Chmod(b.users, 0o644))
	require.Eventually(t, func() bool { return status("new:sesame") == 200 }, 10*time.Second, 200*time.Millisecond)
	require.Equal(t, 401, status("peer:secret"))
	var texts []string
	for _, e := range b.logs.AllEntries() {
		text, err := e.String()
		require.NoError(t, err)
		require.NotContains(t, text, "sesame")
		texts = append(texts, e.Message)
	}
	require.Contains(t, texts, "users file: invalid line ignored")
	require.Contains(t, texts, "users file is readable by all users of this machine; set its mode to 0640 or less")
	require.Contains(t, texts, "remote API: login failed")
	require.NoError(t, os.Remove(b.users))
	require.Eventually(t, func() bool { return status("new:sesame") == 401 }, 10*time.Second, 200*time.Millisecond)
}

// A right password waits for the pause after wrong ones of the same name and client, and is then accepted. Meanwhile a further one is
// refused without a check, whether or not it is right.
func TestARightPasswordWaitsForThePause(t *testing.T) {
	t.Parallel()
	b := newTestServer(t, authenticate)
	var guesses sync.WaitGroup
	codes := make(chan int, 100)
	for thread := range 4 {
		guesses.Go(func() {
			for i := range 3 {
				a := b.do("GET", "/2/jobs", fmt.Sprintf("peer:guess-%d-%d", thread, i), "")
				if a.code == 429 && a.header.Get("Retry-After") == "" {
					a.code = 0
				}
				codes <- a.code
			}
		})
	}
	require.Equal(t, 200, b.do("GET", "/2/jobs", "reader:secret", "").code, "of another name")
	guesses.Wait()
	close(codes)
	number := map[int]int{}
	for code := range codes {
		number[code]++
	}
	require.Equal(t, 12, number[401]+number[429], "%v", number)
	require.LessOrEqual(t, number[401], 10)
	require.Equal(t, 200, b.do("GET", "/2/jobs", "peer:secret", "").code)
	lines := 0
	for _, e := range b.logs.AllEntries() {
		if e.Message == "remote API: login failed" {
			lines++
		}
	}
	require.LessOrEqual(t, lines, 40)
}

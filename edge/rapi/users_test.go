package rapi_test

import (
	"crypto/md5"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	logrustest "github.com/sirupsen/logrus/hooks/test"
	"github.com/stretchr/testify/require"

	"lockstep/edge/rapi"
)

func ha1(name, password string) string {
	sum := md5.Sum([]byte(name + ":Ganeti Remote API:" + password))
	return hex.EncodeToString(sum[:])
}

func TestUsersFile(t *testing.T) {
	users, mistakes := rapi.ParseUsers([]byte("# comment\n\n  \nplain secret read,write\ncleared {ClearText}secret read\n" +
		"hashed {HA1}" + ha1("hashed", "secret") + " write\nnothing secret\n\tindented\tsecret\tread,\r\n"))
	require.Empty(t, mistakes)
	require.Len(t, users, 5)
}

func TestMistakesInTheUsersFileLetNobodyIn(t *testing.T) {
	for line, want := range map[string]string{
		"alone":                               "not a name, a password and options",
		"a b c d":                             "not a name, a password and options",
		"u {ha1}12":                           "32 hexadecimal digits",
		"u {md5}secret":                       "neither {cleartext} nor {ha1}",
		"u {cleartext} read":                  "the password is empty",
		"u {open read":                        "no end",
		"u secret admin":                      `there is no option "admin"`,
		"u secret read\nu other write":        "twice",
		"u secret read\nu {ha1}nonsense read": "32 hexadecimal digits",
	} {
		_, mistakes := rapi.ParseUsers([]byte(line))
		require.NotEmpty(t, mistakes, line)
		text := mistakes[0].String()
		require.Contains(t, text, want)
		require.NotContains(t, text, "secret", "passwords are for no log")
	}
	_, mistakes := rapi.ParseUsers([]byte("fine secret\nhalf:sesame\n"))
	require.Equal(t, "line 2: not a name, a password and options, with spaces between them", mistakes[0].String())
}

func TestWhoMayDoWhat(t *testing.T) {
	t.Parallel()
	b := newTestServer(t)
	for _, test := range []struct {
		method, path, who string
		code              int
	}{
		{"GET", "/2/jobs", "", 200}, {"GET", "/2/jobs", "ro:secret", 200}, {"GET", "/2/jobs", "ro:wrong", 401}, {"GET", "/2/jobs", "nobody:secret", 401},
		{"GET", "/2/jobs", "hashed:secret", 200}, {"GET", "/2/jobs", "hashed:" + ha1("hashed", "secret"), 401}, {"GET", "/2/jobs", "hashed:", 401},
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

// A file whose read fails once, for example for lack of descriptors, is read again at the
// next check. Only until then a removed user can still log in.
func TestAUsersFileThatCannotBeReadForOnce(t *testing.T) {
	log, _ := logrustest.NewNullLogger()
	path := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(path, []byte("old secret\nnew sesame\n"), 0o600))
	file := rapi.NewUsersFile(path, log)
	require.True(t, file.Knows("old", "secret"))
	require.NoError(t, os.WriteFile(path, []byte("new sesame\n"), 0o600))
	file.FailOnce(syscall.EMFILE)
	require.True(t, file.Knows("old", "secret"), "nothing better is known")
	require.False(t, file.Knows("old", "secret"))
	require.True(t, file.Knows("new", "sesame"))
}

func FuzzUsersFile(f *testing.F) {
	f.Add("peer secret write\n# x\nhashed {HA1}0123456789abcdef0123456789abcdef read,write\nu {cleartext}x\n", "peer", "secret")
	f.Add("a {\n\x00 b c,d\r\n{ {} {", "a", "{")
	f.Fuzz(func(t *testing.T, file, name, password string) {
		users, mistakes := rapi.ParseUsers([]byte(file))
		lines := strings.Count(file, "\n") + 1
		for _, m := range mistakes {
			if m.Line < 1 || m.Line > lines {
				t.Fatalf("line %d of %d", m.Line, lines)
			}
		}
		if len(users) > lines {
			t.Fatalf("%d users in %d lines", len(users), lines)
		}
		again, _ := rapi.ParseUsers([]byte(file))
		if len(again) != len(users) {
			t.Fatal("not the same users twice")
		}
		_, in := users.Check(name, password)
		if in && !strings.Contains(file, name) {
			t.Fatalf("%q is let in, who is not there", name)
		}
	})
}

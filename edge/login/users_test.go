package login_test

import (
	"crypto/md5"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	logrustest "github.com/sirupsen/logrus/hooks/test"
	"github.com/stretchr/testify/require"

	"lockstep/edge/login"
)

func ha1(name, password string) string {
	sum := md5.Sum([]byte(name + ":Ganeti Remote API:" + password))
	return hex.EncodeToString(sum[:])
}

func TestUsersFile(t *testing.T) {
	users, mistakes := login.ParseUsers([]byte("# comment\n\n  \nplain secret read,write\ncleared {ClearText}secret read\n" +
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
		_, mistakes := login.ParseUsers([]byte(line))
		require.NotEmpty(t, mistakes, line)
		text := mistakes[0].String()
		require.Contains(t, text, want)
		require.NotContains(t, text, "secret", "passwords are for no log")
	}
	_, mistakes := login.ParseUsers([]byte("fine secret\nhalf:sesame\n"))
	require.Equal(t, "line 2: not a name, a password and options, with spaces between them", mistakes[0].String())
}

// A file whose read fails once, for example for lack of descriptors, is read again at the
// next check. Only until then a removed user can still log in.
func TestAUsersFileThatCannotBeReadForOnce(t *testing.T) {
	log, _ := logrustest.NewNullLogger()
	path := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(path, []byte("old secret\nnew sesame\n"), 0o600))
	file := login.NewUsersFile(path, log)
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
		users, mistakes := login.ParseUsers([]byte(file))
		lines := strings.Count(file, "\n") + 1
		for _, m := range mistakes {
			if m.Line < 1 || m.Line > lines {
				t.Fatalf("line %d of %d", m.Line, lines)
			}
		}
		if len(users) > lines {
			t.Fatalf("%d users in %d lines", len(users), lines)
		}
		again, _ := login.ParseUsers([]byte(file))
		if len(again) != len(users) {
			t.Fatal("not the same users twice")
		}
		_, in := users.Check(name, password)
		if in && !strings.Contains(file, name) {
			t.Fatalf("%q is let in, who is not there", name)
		}
	})
}

package login_test

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	logrustest "github.com/sirupsen/logrus/hooks/test"
	"github.com/stretchr/testify/require"

	"lockstep/core/access"
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

// Each option gives its role, and the highest counts. as= names the account of the user's jobs.
func TestRolesOfTheUsersFile(t *testing.T) {
	for options, want := range map[string]access.Role{
		"": access.None, "read": access.Read, "submit": access.Submit, "operate": access.Operate, "write": access.Admin,
		"read,write": access.Admin, "operate,submit": access.Operate, ",read,": access.Read, "as=alice": access.None, "as=alice,submit": access.Submit,
	} {
		users, mistakes := login.ParseUsers([]byte("deploy secret " + options))
		require.Empty(t, mistakes, options)
		u, ok := users.Check("deploy", "secret")
		require.True(t, ok, options)
		require.Equal(t, want, u.Role(), options)
		require.Equal(t, access.Identity{UID: access.NoUID, Login: access.NoUID, Remote: "deploy", Role: want}, u.Identity(), options)
	}
}

// Jobs of a user with as= run as that account, looked up at each submission. Without the account nothing is submitted.
func TestTheAccountOfAUser(t *testing.T) {
	log, _ := logrustest.NewNullLogger()
	path := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(path, []byte("deploy secret submit,as=alice\nold secret write\n"), 0o600))
	logins := login.New(path, log)
	account := struct {
		uid   int
		known bool
		err   error
	}{1000, true, nil}
	logins.UseAccounts(func(_ context.Context, name string) (int, bool, error) {
		require.Equal(t, "alice", name)
		return account.uid, account.known, account.err
	})
	deploy, _ := logins.Find("deploy")
	old, _ := logins.Find("old")
	i, err := logins.Submitter(t.Context(), deploy)
	require.NoError(t, err)
	require.Equal(t, access.Identity{UID: 1000, Name: "alice", Login: access.NoUID, Remote: "deploy", Role: access.Submit}, i)
	account.uid = 1001
	i, err = logins.Submitter(t.Context(), deploy)
	require.NoError(t, err)
	require.Equal(t, 1001, i.UID)
	i, err = logins.Submitter(t.Context(), old)
	require.NoError(t, err)
	require.Equal(t, old.Identity(), i)

	var refused *login.AccountError
	account.known = false
	_, err = logins.Submitter(t.Context(), deploy)
	require.ErrorAs(t, err, &refused)
	require.False(t, refused.Temporary())
	require.EqualError(t, err, "Your jobs run as the account alice, which this machine does not have")
	account.err = errors.New("no answer")
	_, err = logins.Submitter(t.Context(), deploy)
	require.ErrorAs(t, err, &refused)
	require.True(t, refused.Temporary())
}

// Commands run as the account of as=, or as the daemon's user for an administrator where the operator permits that.
func TestWhoMaySubmitCommands(t *testing.T) {
	users, mistakes := login.ParseUsers([]byte("admin x write\nboth x write,as=alice\nmember x submit\ndeploy x submit,as=alice\n"))
	require.Empty(t, mistakes)
	for name, want := range map[string]map[login.Commands]string{
		"admin":  {{}: "--rapi-allow-commands", {OfAdmins: true}: "", {AsAccounts: true}: "--rapi-allow-commands", {OfAdmins: true, AsAccounts: true}: ""},
		"both":   {{}: "as alice", {OfAdmins: true}: "as alice", {AsAccounts: true}: "", {OfAdmins: true, AsAccounts: true}: ""},
		"member": {{}: "as=ACCOUNT", {OfAdmins: true}: "as=ACCOUNT", {AsAccounts: true}: "as=ACCOUNT", {OfAdmins: true, AsAccounts: true}: "as=ACCOUNT"},
		"deploy": {{}: "as alice", {OfAdmins: true}: "as alice", {AsAccounts: true}: "", {OfAdmins: true, AsAccounts: true}: ""},
	} {
		for commands, words := range want {
			problem := commands.Problem(users[name])
			require.Equal(t, words == "", problem == "", "%s %+v", name, commands)
			require.Contains(t, problem, words, "%s %+v", name, commands)
		}
	}
}

func TestMistakesInTheUsersFileLetNobodyIn(t *testing.T) {
	for line, want := range map[string]string{
		"alone":                               "not a name, a password and options",
		"a b c d":                             "not a name, a password and options",
		"u {ha1}12":                           "32 hexadecimal digits",
		"u {md5}secret":                       "neither {cleartext} nor {ha1}",
		"u {cleartext} read":                  "the password is empty",
		"u {open read":                        "no end",
		"u secret admin":                      `there is no option "admin"; there are read, submit, operate, write and as=ACCOUNT`,
		"u secret write,as=":                  `as= needs the name of one account; "u" cannot log in`,
		"u secret as=alice,as=bob":            `as= needs the name of one account; "u" cannot log in`,
		"u secret read\nu other write":        "twice",
		"u secret read\nu {ha1}nonsense read": "32 hexadecimal digits",
	} {
		_, mistakes := login.ParseUsers([]byte(line))
		require.NotEmpty(t, mistakes, line)
		text := mistakes[0].String()
		require.Contains(t, text, want)
		require.NotContains(t, text, "secret", "passwords are for no log")
	}
	users, _ := login.ParseUsers([]byte("u secret write,as=\nv secret as=a,as=b,write"))
	require.False(t, users["u"].HasPassword("secret"), "its commands would run as another account")
	require.False(t, users["v"].HasPassword("secret"))
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

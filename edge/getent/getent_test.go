package getent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/jobs"
	"lockstep/core/jobproc"
)

const patience = 30 * time.Second

var alice = jobproc.User{UID: 1000, Name: "alice"}

// node is a machine whose getent and id are scripts. Each of their calls is a line of a file.
type node struct {
	t     *testing.T
	dir   string
	users *Users
}

func newNode(t *testing.T) *node {
	n := &node{t: t, dir: t.TempDir(), users: New(actor.NewActorSystem())}
	n.users.missingFor = 0
	t.Cleanup(n.users.system.Shutdown)
	t.Setenv("PATH", n.dir+":"+os.Getenv("PATH"))
	n.program("id", "echo 100 27 100")
	return n
}

func (n *node) program(name, script string) {
	n.t.Helper()
	text := fmt.Sprintf("#!/bin/sh\necho %s $* >> %s/calls\n%s\n", name, n.dir, script)
	require.NoError(n.t, os.WriteFile(filepath.Join(n.dir, name+".new"), []byte(text), 0o755))
	require.NoError(n.t, os.Rename(filepath.Join(n.dir, name+".new"), filepath.Join(n.dir, name)))
}

func (n *node) calls() []string {
	content, _ := os.ReadFile(filepath.Join(n.dir, "calls"))
	return strings.Split(strings.TrimSpace(string(content)), "\n")
}

// ask asks for users as the jobs actor does.
func (n *node) ask(users ...jobproc.User) *jobs.AccountsFound {
	n.t.Helper()
	f := actor.NewFuture(n.users.system, patience)
	n.users.Find(7, users, f.PID())
	found, err := f.Result()
	require.NoError(n.t, err)
	require.Equal(n.t, uint64(7), found.(*jobs.AccountsFound).Question)
	return found.(*jobs.AccountsFound)
}

func TestAnAccount(t *testing.T) {
	n := newNode(t)
	n.program("getent", `case $2 in alice|1000) echo 'alice:x:1000:100:Alice A,,,:/home/alice:/bin/zsh' ;; bare) echo bare:x:5:6:::: ;; bare2) echo bare2:x:5:6::: ;; *) exit 2 ;; esac`)
	account := jobproc.Account{Name: "alice", UID: 1000, GID: 100, Groups: []int{100, 27}, Home: "/home/alice", Shell: "/bin/zsh"}
	for range 3 {
		require.Equal(t, []jobproc.AccountAnswer{{User: alice, Account: &account}}, n.ask(alice).Answers)
	}
	require.Equal(t, []string{"getent passwd alice", "id -G alice"}, n.calls(), "an answer is used for a minute")
	for _, user := range []jobproc.User{{UID: jobproc.NoUID, Name: "alice"}, {UID: 1000}} {
		require.Equal(t, &account, n.ask(user).Answers[0].Account, "%v", user)
	}
	bare := n.ask(jobproc.User{UID: 5, Name: "bare2"}).Answers[0].Account
	require.Equal(t, []string{"/", "/bin/sh"}, []string{bare.Home, bare.Shell})
	for user, why := range map[jobproc.User]string{
		{UID: 1001, Name: "alice"}: "alice had the uid 1001 when the job was submitted, and has the uid 1000 now",
		{UID: 1002, Name: "carol"}: "there is no user carol (uid 1002) on this node",
		{UID: 1000, Name: "1000"}:  "there is no user 1000 (uid 1000) on this node", // getent takes it for a uid
		{UID: 1003}:                "there is no user with the uid 1003 on this node",
		{UID: 1004, Name: "-s"}:    "there is no user -s (uid 1004) on this node",
	} {
		require.Equal(t, []jobproc.AccountAnswer{{User: user, Refusal: why}}, n.ask(user).Answers)
	}
	require.Len(t, n.ask(alice, jobproc.User{UID: 1003}).Answers, 2)
}

func TestNoAnswer(t *testing.T) {
	for name, c := range map[string]struct{ getent, id, why string }{
		"not one":         {"echo nonsense", "", `getent passwd answers "nonsense"`},
		"nothing":         {"", "", `getent passwd answers ""`},
		"getent fails":    {"echo 'no memory' >&2; exit 1", "", "getent passwd: exit status 1: no memory"},
		"id fails":        {"echo alice:x:1000:100::/:", "exit 1", "id -G: exit status 1"},
		"id says nothing": {"echo alice:x:1000:100::/:", "echo x", `id -G answers "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.program("getent", c.getent)
			n.program("id", c.id)
			found := n.ask(alice)
			require.Equal(t, &alice, found.Unanswered)
			require.Equal(t, c.why, found.Text)
			require.Nil(t, found.Answers)
		})
	}
}

// A question waits for a program that hangs for its time only, and later ones do not wait at all. When the node answers again, they get
// the account.
func TestAProgramThatHangs(t *testing.T) {
	n := newNode(t)
	n.users.askMax = 100 * time.Millisecond
	n.program("getent", "sleep 300 & wait")
	require.Equal(t, "getent passwd has not answered in time", n.ask(alice).Text)
	n.users.askMax = askMax
	gate := filepath.Join(n.dir, "gate")
	n.program("getent", "while ! [ -e "+gate+" ]; do sleep 0.01; done; echo alice:x:1000:100::/home/alice:/bin/sh")
	for range 10 {
		require.NotNil(t, n.ask(alice).Unanswered, "the question is open")
	}
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	require.Eventually(t, func() bool { return n.ask(alice).Unanswered == nil }, patience, time.Millisecond)
	require.Len(t, n.calls(), 3, "one question at a time about one user")
}

func TestTheNumberOfKnownUsersIsBounded(t *testing.T) {
	n := newNode(t)
	for uid := range 3 * knownMax {
		n.users.entryOf(question{user: jobproc.User{UID: uid}})
	}
	require.LessOrEqual(t, len(n.users.known), knownMax)
}

// A user whom getent has found no longer, or not yet, is a question of time: a directory service that restarts knows no users. When that lasts,
// there is no such user.
func TestADirectoryServiceThatRestarts(t *testing.T) {
	n := newNode(t)
	n.users.missingFor = time.Hour
	n.program("getent", "exit 2")
	for range 2 {
		found := n.ask(alice)
		require.Equal(t, &alice, found.Unanswered)
		require.Equal(t, "there is no user alice (uid 1000) on this node; getent is asked again, since a directory service that restarts knows no users", found.Text)
	}
	n.program("getent", "echo alice:x:1000:100::/:")
	require.Eventually(t, func() bool { return n.ask(alice).Answers != nil }, patience, time.Millisecond)

	n.program("getent", "exit 2")
	require.NotNil(t, n.ask(jobproc.User{UID: 1003}).Unanswered)
	n.users.mu.Lock()
	n.users.missingFor = time.Nanosecond
	n.users.mu.Unlock()
	require.Eventually(t, func() bool { return n.ask(jobproc.User{UID: 1003}).Unanswered == nil }, patience, time.Millisecond)
	require.Equal(t, "there is no user with the uid 1003 on this node", n.ask(jobproc.User{UID: 1003}).Answers[0].Refusal)
}

// Edges ask for the account of a name, and the names of numbers.
func TestNamesForEdges(t *testing.T) {
	n := newNode(t)
	n.program("getent", `case $1:$2 in passwd:alice|passwd:1000) echo alice:x:1000:100::/: ;; group:27) echo sudo:x:27: ;; group:28) echo odd:x:29: ;; group:30) exit 1 ;; *) exit 2 ;; esac`)
	type named struct {
		name  string
		known bool
	}
	user := func(uid int) (n2 named) { n2.name, n2.known = n.users.UserName(uid); return n2 }
	group := func(gid int) (n2 named) { n2.name, n2.known = n.users.GroupName(gid); return n2 }
	require.Equal(t, named{"alice", true}, user(1000))
	require.Equal(t, named{"", true}, user(1001))
	require.Equal(t, named{"sudo", true}, group(27))
	require.Equal(t, named{"", true}, group(31))
	require.Equal(t, named{"root", true}, group(0))
	for _, gid := range []int{28, 30} {
		require.Equal(t, named{"", false}, group(gid))
	}
	uid, known, err := n.users.FindAccount(t.Context(), "alice")
	require.NoError(t, err)
	require.Equal(t, []any{1000, true}, []any{uid, known})
	_, known, err = n.users.FindAccount(t.Context(), "bob")
	require.NoError(t, err)
	require.False(t, known)
	n.program("getent", "echo down >&2; exit 1")
	_, _, err = n.users.FindAccount(t.Context(), "carol")
	require.EqualError(t, err, "getent passwd: exit status 1: down")
}

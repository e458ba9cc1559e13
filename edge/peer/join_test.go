package peer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/edge/tlsserver"
)

func TestJoin(t *testing.T) {
	n1 := newFounder(t)
	dir := t.TempDir()
	o := n1.options("n2_.x")
	o.Voting = false
	require.NoError(t, Join(t.Context(), dir, o))
	identity, err := LoadIdentity(dir)
	require.NoError(t, err)
	require.False(t, identity.Voting || identity.Founder)
	require.Equal(t, []string{n1.address(), "127.0.0.1:7400"}, identity.Peers)
	require.EqualValues(t, 0o700, modeOf(t, pathOf(dir, "")))
	for _, secret := range []string{caKeyName, certificateKeyName, identityName, tokensName} {
		require.EqualValues(t, 0o600, modeOf(t, pathOf(dir, secret)), secret)
	}

	// Every node can admit others, with tokens that it has made.
	n2 := openNode(t, dir)
	n2.token, err = NewToken(dir, time.Hour, time.Now())
	require.NoError(t, err)
	n3 := n2.joined(t, "n3")
	about, err := NewClient(n3).About(t.Context(), n1.address())
	require.NoError(t, err)
	require.True(t, about.Leads)

	var member *AlreadyMemberError
	require.ErrorAs(t, Join(t.Context(), dir, n1.options("n4")), &member)
	taken := n1.options("n4")
	taken.Address = identity.Address
	require.NoError(t, (&Identity{Name: "n1", UUID: identity.UUID, Address: "127.0.0.1:7400", Peers: []string{identity.Address}}).Save(n1.dir))
	require.ErrorContains(t, Join(t.Context(), t.TempDir(), taken), "another node has the address")
}

func TestJoinIsRefused(t *testing.T) {
	n1, other := newFounder(t), newFounder(t)
	expired, err := NewToken(n1.dir, time.Hour, time.Now().Add(-2*time.Hour))
	require.NoError(t, err)
	parsed, err := parseToken(n1.token)
	require.NoError(t, err)
	parsed.secret[0]++
	n1.listener.SetMembers(func(name string) bool { return name == "n1" || name == "n5" }, noNode)

	for name, c := range map[string]struct {
		change func(*JoinOptions)
		text   string
	}{
		"unknown token":    {func(o *JoinOptions) { o.Token = parsed.String() }, "works only at the node that made it"},
		"expired token":    {func(o *JoinOptions) { o.Token = expired }, "has expired"},
		"no token":         {func(o *JoinOptions) { o.Token = "" }, "not a join token"},
		"other cluster":    {func(o *JoinOptions) { o.Token = other.token }, "is not of the cluster"},
		"name of the node": {func(o *JoinOptions) { o.Name = "n1" }, "there is a node n1 already"},
		"name of a member": {func(o *JoinOptions) { o.Name = "n5" }, "there is a node n5 already"},
		"bad name":         {func(o *JoinOptions) { o.Name = "N 2" }, "a node's name is"},
		"bad address":      {func(o *JoinOptions) { o.Address = "0.0.0.0:1" }, "by which the others reach it"},
		"own address":      {func(o *JoinOptions) { o.Address = o.From }, "address of this node"},
		"nobody there":     {func(o *JoinOptions) { o.From = "127.0.0.1:1" }, "connect to the node at 127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			o := n1.options("n2")
			c.change(&o)
			err := Join(t.Context(), dir, o)
			require.ErrorContains(t, err, c.text)
			if o.Token != "" {
				require.NotContains(t, err.Error(), o.Token)
			}
			_, err = LoadIdentity(dir)
			require.ErrorIs(t, err, fs.ErrNotExist)
		})
	}
	var wrong *WrongClusterError
	o := n1.options("n2")
	o.Token = other.token
	require.ErrorAs(t, Join(t.Context(), t.TempDir(), o), &wrong)
	require.Equal(t, n1.address(), wrong.Address)
}

// The admitting node checks every request, because the client may be any program.
func TestAdmissionChecksWhatItIsSent(t *testing.T) {
	n1 := newFounder(t)
	key, err := tlsserver.NewKey()
	require.NoError(t, err)
	good, err := newRequest("n2", key)
	require.NoError(t, err)
	big, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	otherKind, err := newRequest("n2", big)
	require.NoError(t, err)
	parsed, err := parseToken(n1.token)
	require.NoError(t, err)
	for name, r := range map[string]joinRequest{
		"a node's name is":       {"../n2", "h:1", parsed.secret[:], good},
		"a node's address is":    {"n2", "h", parsed.secret[:], good},
		`it is for "n2"`:         {"n3", "h:1", parsed.secret[:], good},
		"not ECDSA P-256":        {"n2", "h:1", parsed.secret[:], otherKind},
		"there is no PEM block":  {"n2", "h:1", parsed.secret[:], "x"},
		"does not know that":     {"n2", "h:1", nil, good},
		"request body too large": {"n2", "h:1", make([]byte, joinBodyMax), good},
	} {
		_, err := rawJoin(t, n1, r)
		var refused *RefusedError
		require.ErrorAs(t, err, &refused, name)
		require.Contains(t, refused.Reason, name)
	}
	answer, err := rawJoin(t, n1, joinRequest{"n2", "h:1", parsed.secret[:], good})
	require.NoError(t, err)
	require.NotEmpty(t, answer.CAKey)
}

// Whichever file was written last before a crash, the node belongs to no cluster and can
// join.
func TestJoinThatIsCutOff(t *testing.T) {
	n1 := newFounder(t)
	for _, name := range []string{caName, caKeyName, certificateName, certificateKeyName, tokensName} {
		dir := t.TempDir()
		putFile(t, pathOf(dir, formerPrefix+"123"), "half")
		putFile(t, pathOf(dir, name+"-1-0123456789abcdef.tmp"), "half")
		require.NoError(t, os.Mkdir(pathOf(dir, name), 0o700)) // the file cannot get its name
		require.Error(t, Join(t.Context(), dir, n1.options("n2")), name)
		_, err := LoadIdentity(dir)
		require.ErrorIs(t, err, fs.ErrNotExist, name)
		_, err = LoadCredentials(dir)
		require.ErrorIs(t, err, fs.ErrNotExist, name)

		require.NoError(t, os.Remove(pathOf(dir, name)))
		require.NoError(t, Join(t.Context(), dir, n1.options("n2")), name)
		_, err = LoadCredentials(dir)
		require.NoError(t, err, name)
		entries, err := os.ReadDir(pathOf(dir, ""))
		require.NoError(t, err)
		require.Len(t, entries, 6)
	}
}

func TestJoinWithAQueue(t *testing.T) {
	n1 := newFounder(t)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, job := range []string{"job-7", "archive/0/job-7"} {
		dir := t.TempDir()
		queue := filepath.Join(dir, "queue")
		putFile(t, filepath.Join(queue, "lock"), "")
		putFile(t, filepath.Join(queue, "serial"), "7\n")
		putFile(t, filepath.Join(queue, job), "{}")
		putFile(t, filepath.Join(dir, "output/7/0.stdout"), "of its own job 7")
		lock, err := os.Stat(filepath.Join(queue, "lock"))
		require.NoError(t, err)

		var old *QueueNotEmptyError
		require.ErrorAs(t, Join(t.Context(), dir, n1.options("n2")), &old)
		require.Equal(t, filepath.Join(queue, job), old.File)

		// A join that fails leaves the queue where it is.
		o := n1.options("n1")
		o.DiscardQueue = true
		require.ErrorContains(t, Join(t.Context(), dir, o), "there is a node n1 already")
		require.FileExists(t, filepath.Join(queue, job))

		o = n1.options("n2")
		o.DiscardQueue, o.Now = true, time.Now()
		require.NoError(t, Join(t.Context(), dir, o))
		backup := queue + ".before-join-" + o.Now.UTC().Format(formerQueueTime)
		require.FileExists(t, filepath.Join(backup, job))
		require.NoFileExists(t, filepath.Join(backup, "lock"))
		require.NoDirExists(t, filepath.Join(dir, "output"), "the cluster has a job 7, too")
		require.FileExists(t, filepath.Join(dir, "output.before-join-"+o.Now.UTC().Format(formerQueueTime), "7", "0.stdout"))
		require.NoFileExists(t, filepath.Join(queue, "serial"))
		after, err := os.Stat(filepath.Join(queue, "lock"))
		require.NoError(t, err)
		require.True(t, os.SameFile(lock, after))
	}
	// A queue that has never held a job may be discarded.
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "queue/serial"), "0\n")
	putFile(t, filepath.Join(dir, "queue/quarantine/job-1"), "?")
	require.NoError(t, Join(t.Context(), dir, n1.options("n2")))
	require.NoDirExists(t, filepath.Join(dir, "queue.before-join-"+now.Format(formerQueueTime)))
}

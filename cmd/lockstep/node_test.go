package main

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/command"
	"lockstep/core/ownership"
	"lockstep/edge/peer"
	"lockstep/persistence"
)

// offline runs a command line without daemon, and returns its output.
func offline(t *testing.T, line string, want int, environment ...string) string {
	t.Helper()
	out := &strings.Builder{}
	streams := cli.Streams{In: strings.NewReader(""), Out: out, Err: out, Now: time.Now,
		LookupEnv: func(name string) (string, bool) {
			for _, pair := range environment {
				if value, ok := strings.CutPrefix(pair, name+"="); ok {
					return value, true
				}
			}
			return "", false
		}}
	code := command.Run(t.Context(), strings.Fields(line), streams)
	require.Equal(t, want, code, out.String())
	return out.String()
}

// noBackend is the backend of a node without a daemon.
type noBackend struct{}

func (noBackend) ReloadOpcodes(context.Context) (int, error) { return 0, nil }
func (noBackend) About(context.Context) (peer.About, error)  { return peer.About{}, nil }

func (noBackend) Admit(context.Context, peer.MembershipRequest) (peer.Admission, error) {
	return peer.Admission{}, nil
}

func (noBackend) Files(context.Context, []string, func(peer.FileDigest) error) error { return nil }

// serveNode opens the port of a node, as its daemon does.
func serveNode(t *testing.T, dataDir string) (address string) {
	t.Helper()
	credentials, err := peer.LoadCredentials(dataDir)
	require.NoError(t, err)
	listener, err := peer.Listen("127.0.0.1:0", credentials, peer.ListenOptions{})
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- listener.Serve(noBackend{}) }()
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		require.NoError(t, <-served)
	})
	client := peer.NewClient(credentials)
	require.Eventually(t, func() bool {
		_, err := client.About(t.Context(), listener.Addr().String())
		return err == nil
	}, patience, time.Millisecond)
	return listener.Addr().String()
}

func TestNodesAreMade(t *testing.T) {
	first, second := filepath.Join(t.TempDir(), "made", "lib"), t.TempDir()
	text := offline(t, "node init --name n1 --address 127.0.0.1:7400 --data-dir "+first, 0)
	require.Contains(t, text, "lockstep node add --address HOST:PORT --join 127.0.0.1:7400\n")
	require.Contains(t, text, "good for 24 hours")
	_, rest, _ := strings.Cut(text, "24 hours:\n")
	token, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
	address := serveNode(t, first)
	require.Contains(t, offline(t, "node init --name n1 --address 127.0.0.1:7400 --data-dir "+first, 1), "belongs to a cluster already, as n1")

	add := "node add --name n2 --address 127.0.0.1:7401 --join " + address + " --data-dir " + second
	require.NoError(t, os.MkdirAll(filepath.Join(second, "queue"), 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(second, "queue", "job-1"), []byte("{}"), 0o600))
	require.Contains(t, offline(t, add, 1, "LOCKSTEP_JOIN_TOKEN="+token), "--discard-queue moves")
	require.Contains(t, offline(t, add+" --discard-queue", 0, "LOCKSTEP_JOIN_TOKEN="+token), "gets its vote within seconds")
	require.NoFileExists(t, filepath.Join(second, "queue", "job-1"))
	require.NoFileExists(t, filepath.Join(second, "queue", "lock"))
	aside, err := filepath.Glob(filepath.Join(second, "queue.before-join-*", "job-1"))
	require.NoError(t, err)
	require.Len(t, aside, 1)

	// A token made while the daemon runs, in a file.
	var made struct{ Token string }
	require.NoError(t, json.Unmarshal([]byte(offline(t, "node token --json --lifetime 1h --data-dir "+first, 0)), &made))
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(made.Token+"\n"), 0o600))
	third := t.TempDir()
	text = offline(t, "node add --json --non-voting --name n3 --address 127.0.0.1:7402 --join "+address+" --token-file "+file+" --data-dir "+third, 0)
	require.JSONEq(t, `{"name":"n3","address":"127.0.0.1:7402","data_dir":"`+third+`"}`, text)
	identity, err := peer.LoadIdentity(third)
	require.NoError(t, err)
	require.False(t, identity.Voting)

	require.Contains(t, offline(t, "node recover --data-dir "+second, cli.ExitUsage), "nothing was done")
	require.Contains(t, offline(t, "node recover --yes-i-know --data-dir "+second, 0), "node n2: from the next start")
	wanted, err := peer.RecoveryRequested(second)
	require.NoError(t, err)
	require.True(t, wanted)
}

// Nodes with a start secret need no token. The secret and the token are in no output and no file.
func TestNodesWithAStartSecret(t *testing.T) {
	const secret = "a start secret for tests: no secret"
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte(secret+"\n"), 0o600))
	first, second := filepath.Join(t.TempDir(), "lib"), filepath.Join(t.TempDir(), "lib")
	init := "node init --name n1 --address 127.0.0.1:7400 --data-dir " + first + " --start-secret-file "
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, []byte(" \n"), 0o600))
	require.Contains(t, offline(t, init+empty, 1), "is empty")
	require.Contains(t, offline(t, init+"/dev/zero", 1), "has 4097 bytes, 1 of them different")
	require.Contains(t, offline(t, init+filepath.Join(first, "none"), 1), "the start secret: open")
	require.NoFileExists(t, filepath.Join(first, "raft", "node.json"), "a cluster without the secret is not made")

	token, err := peer.StartToken([]byte(secret))
	require.NoError(t, err)
	text := offline(t, init+file, 0)
	require.Contains(t, text, "--join 127.0.0.1:7400 --start-secret-file FILE")
	add := "node add --name n2 --address 127.0.0.1:7401 --join " + serveNode(t, first) + " --data-dir " + second + " --start-secret-file "
	require.Contains(t, offline(t, add+empty, 1, "LOCKSTEP_JOIN_TOKEN="+token), "is empty")
	require.NoError(t, os.Chmod(file, 0o644))
	joined := offline(t, add+file, 0)
	require.Contains(t, joined, "all users of this machine can read "+file)
	for _, output := range []string{text, joined} {
		require.NotContains(t, output, token)
		require.NotContains(t, output, secret)
	}
	for _, dir := range []string{first, second} {
		require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			require.NotContains(t, string(content), secret, path)
			require.NotContains(t, string(content), token, path)
			return err
		}))
	}
}

// The commands change nothing in the data directory of a Ganeti node.
func TestGanetiNodeIsRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "server.pem"), nil, 0o600))
	for _, line := range []string{
		"node init --name n1 --address 127.0.0.1:7400",
		"node add --name n1 --address 127.0.0.1:7400 --join 127.0.0.1:1",
		"node recover --yes-i-know",
	} {
		require.Contains(t, offline(t, line+" --data-dir "+dir, 1, "LOCKSTEP_JOIN_TOKEN=x"), "is the data directory of a Ganeti node")
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestNodesAreMadeWhileNoDaemonRuns(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "queue"), 0o750))
	lock, err := persistence.LockQueue(dir, ownership.Rules{})
	require.NoError(t, err)
	for _, line := range []string{
		"node init --name n1 --address 127.0.0.1:7400",
		"node recover --yes-i-know",
	} {
		require.Contains(t, offline(t, line+" --data-dir "+dir, 1), "stop the daemon first")
	}
	require.Contains(t, offline(t, "node add --name n1 --address 127.0.0.1:7400 --join 127.0.0.1:1 --data-dir "+dir, 1, "LOCKSTEP_JOIN_TOKEN=x"), "stop the daemon first")
	require.NoError(t, lock.Release())
	require.NoDirExists(t, filepath.Join(dir, "raft"))
}

package peer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// node is a member of a cluster with an open port.
type node struct {
	dir         string
	token       string
	credentials *Credentials
	listener    *Listener
	backend     *backend
}

func (n *node) address() string { return n.listener.Addr().String() }

// backend gives the answers that a test has set.
type backend struct {
	mutex     sync.Mutex
	requests  []MembershipRequest
	admission Admission
	err       error
	files     []FileDigest
}

func (b *backend) About(context.Context) (About, error) {
	return About{Name: "n1", Master: "n1", Applied: 12, Leads: true}, b.err
}

func (b *backend) Admit(_ context.Context, r MembershipRequest) (Admission, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.requests = append(b.requests, r)
	return b.admission, b.err
}

func (b *backend) ReloadOpcodes(context.Context) (int, error) { return 7, b.err }

func (b *backend) Files(_ context.Context, only []string, each func(FileDigest) error) error {
	for _, f := range b.files {
		if len(only) > 0 && !slices.Contains(only, f.Path) {
			continue
		}
		if err := each(f); err != nil {
			return err
		}
	}
	return b.err
}

// newFounder makes a cluster of one node, n1.
func newFounder(t *testing.T) *node {
	t.Helper()
	return newFounderWith(t, ListenOptions{})
}

func newFounderWith(t *testing.T, o ListenOptions) *node {
	t.Helper()
	dir := t.TempDir()
	token, err := Init(dir, InitOptions{Name: "n1", Address: "127.0.0.1:7400", Now: time.Now()})
	require.NoError(t, err)
	n := openNodeWith(t, dir, o)
	n.token = token
	return n
}

func openNode(t *testing.T, dir string) *node {
	t.Helper()
	return openNodeWith(t, dir, ListenOptions{})
}

func openNodeWith(t *testing.T, dir string, o ListenOptions) *node {
	t.Helper()
	credentials, err := LoadCredentials(dir)
	require.NoError(t, err)
	listener, err := Listen("127.0.0.1:0", credentials, o)
	require.NoError(t, err)
	return serveNode(t, &node{dir: dir, credentials: credentials, listener: listener, backend: &backend{admission: Admission{Status: StatusMember}}})
}

func serveNode(t *testing.T, n *node) *node {
	t.Helper()
	listener := n.listener
	served := make(chan error, 1)
	go func() { served <- listener.Serve(n.backend) }()
	// Serve opens its gate first; until then connections are closed.
	require.Eventually(t, func() bool {
		listener.mu.Lock()
		defer listener.mu.Unlock()
		return listener.listeners[ProtocolNode] != nil
	}, patience, time.Millisecond)
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		require.NoError(t, <-served)
	})
	return n
}

const patience = 10 * time.Second

func (n *node) options(name string) JoinOptions {
	return JoinOptions{Name: name, Address: fmt.Sprintf("127.0.0.1:75%02d", name[1]-'0'), Voting: true, From: n.address(), Token: n.token, Now: time.Now()}
}

// joined makes a node of the cluster with certificates and without an open port.
func (n *node) joined(t *testing.T, name string) *Credentials {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, Join(t.Context(), dir, n.options(name)))
	credentials, err := LoadCredentials(dir)
	require.NoError(t, err)
	return credentials
}

func putFile(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func modeOf(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Mode().Perm()
}

var errBackend = errors.New("the disk is full")

func longName() string { return strings.Repeat("a", nameMax) }

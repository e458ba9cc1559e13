package raftlog_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/raft"
	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"

	"lockstep/actors/kit"
	"lockstep/core/replication"
	"lockstep/edge/raftlog"
	"lockstep/edge/raftlog/logconformance"
	"lockstep/sim/longtest"
)

const trailing = 24

// cluster is a set of real nodes, whose connections on this machine can be cut.
type cluster struct {
	testing.TB
	dir     string
	network string // of its nodes' addresses
	timing  raftlog.Timing
	urgent  func(entry []byte) bool // as in raftlog.Config
	// shortest is as in raftlog.Config
	shortest replication.Times
	keeps    raftlog.Retention
	sync     func(name string) error               // see raftlog.Config
	noting   func(name string, index uint64) error // see raftlog.Config
	log      *logrus.Logger

	mu       sync.Mutex
	isolated map[string]bool // by name
	nodes    map[string]*node
}

type node struct {
	name    string
	address string
	log     *raftlog.Log
	env     *kit.Env
	cluster *cluster
	open    map[net.Conn]string // the node at the other end
}

func newCluster(t testing.TB) *cluster {
	c := &cluster{TB: t, dir: t.TempDir(), network: reserveNetwork(t), isolated: map[string]bool{}, nodes: map[string]*node{}, log: logrus.New(),
		keeps: raftlog.Retention{Trailing: trailing, Threshold: 1 << 40}, sync: func(string) error { return nil }, noting: func(string, uint64) error { return nil }}
	// Shorter than a daemon's, since most tests wait for elections. A busy machine stops a process for a tenth of it.
	c.timing = raftlog.Timing{Heartbeat: 500 * time.Millisecond, Election: 500 * time.Millisecond}
	c.log.SetOutput(io.Discard)
	if os.Getenv("RAFTLOG_TRACE") != "" {
		c.log.SetOutput(os.Stderr)
		c.log.SetLevel(logrus.TraceLevel)
	}
	t.Cleanup(func() {
		for name, n := range c.nodes {
			if n.log != nil {
				c.Stop(name)
			}
		}
	})
	return c
}

// nodePort is the port of all nodes. The system chooses no such number, so no client has a node's address while that node is stopped.
const nodePort = 7400

// reserveNetwork returns the first three numbers of loopback addresses that no other test uses, until the end of the test.
func reserveNetwork(t testing.TB) string {
	for i := 1; i < 250; i++ {
		network := fmt.Sprintf("127.78.%d", i)
		if reserved, err := net.Listen("tcp", fmt.Sprintf("%s.254:%d", network, nodePort)); err == nil {
			t.Cleanup(func() { _ = reserved.Close() })
			return network
		}
	}
	t.Fatal("there are no free loopback addresses")
	return ""
}

func (c *cluster) node(name string) *node {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nodes[name] == nil {
		address := fmt.Sprintf("%s.%d:%d", c.network, len(c.nodes)+1, nodePort)
		c.nodes[name] = &node{name: name, address: address, cluster: c, open: map[net.Conn]string{}}
	}
	return c.nodes[name]
}

func (c *cluster) config(name string, o logconformance.Options) raftlog.Config {
	n := c.node(name)
	listener, err := net.Listen("tcp", n.address)
	require.NoError(c, err)
	n.env = kit.New(kit.Options{Log: c.log})
	return raftlog.Config{
		Dir: filepath.Join(c.dir, name, "raft"), Name: name, Address: n.address, Founder: o.Founder,
		Streams: &severableListener{Listener: listener, node: n}, System: n.env.System(), Log: c.log,
		Freeze:    func() (raftlog.Frozen, error) { return frozen(o.Files()), nil },
		Failed:    func(err error) { c.Errorf("%s: %v", name, err) },
		Timing:    c.timing,
		Urgent:    c.urgent,
		Retention: c.keeps,
		Shortest:  c.shortest,
		Sync:      func() error { return c.sync(name) },
		Noting:    func(index uint64) error { return c.noting(name, index) },
	}
}

func (c *cluster) Start(name string, o logconformance.Options) logconformance.Node {
	n := c.node(name)
	log, err := raftlog.Open(c.config(name, o))
	require.NoError(c, err)
	n.log = log
	env := n.env
	return logconformance.Node{Log: log,
		Spawn: func(a actor.Actor) *actor.PID {
			return env.System().Root.Spawn(env.Props("listener", func() actor.Actor { return a }))
		},
		Tell: func(to *actor.PID, what any) { env.System().Root.Send(to, what) },
	}
}

func (c *cluster) Stop(name string) {
	require.NoError(c, c.nodes[name].log.Close())
	c.nodes[name].log = nil
}

func (c *cluster) Wipe(name string) {
	require.NoError(c, os.RemoveAll(filepath.Join(c.dir, name)))
}

func (c *cluster) Isolate(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isolated[name] = true
	for _, n := range c.nodes {
		for conn, to := range n.open {
			if c.isolated[n.name] || c.isolated[to] {
				conn.Close()
			}
		}
	}
}

func (c *cluster) Heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.isolated)
}

func (c *cluster) Compact(name string) {
	require.NoError(c, c.nodes[name].log.TakeSnapshot())
}

func (c *cluster) Trailing() int { return trailing }

func (c *cluster) Address(name string) string { return c.node(name).address }

func (c *cluster) Until(what string, done func() bool) {
	c.Helper()
	require.Eventually(c, done, 30*time.Second, 2*time.Millisecond, what)
}

// severableListener dials others while neither end is cut off.
type severableListener struct {
	net.Listener
	node *node
}

var errIsolated = errors.New("cut off")

func (s *severableListener) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	c := s.node.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	other := ""
	for _, n := range c.nodes {
		if n.address == string(to) {
			other = n.name
		}
	}
	if c.isolated[s.node.name] || c.isolated[other] {
		return nil, errIsolated
	}
	conn, err := net.DialTimeout("tcp", string(to), timeout)
	if err == nil {
		s.node.open[conn] = other
	}
	return conn, err
}

// frozen is a copy of files in memory.
type frozen map[string]string

func (f frozen) Files() []raftlog.FrozenFile {
	var files []raftlog.FrozenFile
	for path, content := range f {
		files = append(files, raftlog.FrozenFile{Path: path, Size: int64(len(content))})
	}
	slices.SortFunc(files, func(a, b raftlog.FrozenFile) int { return strings.Compare(a.Path, b.Path) })
	return files
}

func (f frozen) Open(path string) (io.ReadCloser, error) {
	content, found := f[path]
	if !found {
		return nil, fmt.Errorf("%s: %w", path, os.ErrNotExist)
	}
	return io.NopCloser(strings.NewReader(content)), nil
}

func (f frozen) Close() error { return nil }

func TestContract(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	logconformance.Run(t, func(t *testing.T) logconformance.Cluster { return newCluster(t) })
}

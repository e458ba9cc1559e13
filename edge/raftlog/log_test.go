package raftlog_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"lockstep/actors/replicator"
	"lockstep/edge/raftlog"
	"lockstep/edge/raftlog/logconformance"
	"lockstep/messages"
)

// recorder records the messages of a log, and acknowledges entries unless it withholds.
type recorder struct {
	log         *raftlog.Log
	withholding bool

	mu       sync.Mutex
	received []any
	entries  []string
	restore  map[string]string
	index    uint64 // of the last entry
	done     func(entry string)
}

func (r *recorder) Receive(ctx actor.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch m := ctx.Message().(type) {
	case *messages.LogCommitted:
		for _, e := range m.Entries {
			r.entries, r.index = append(r.entries, string(e.Entry)), e.Index
			if r.done != nil {
				r.done(string(e.Entry))
			}
		}
		if !r.withholding {
			r.log.Applied(m.Entries[len(m.Entries)-1].Index, []byte("state"))
		}
	case *messages.LogSnapshotReceived:
		if r.restore == nil {
			r.restore = map[string]string{}
		}
		for _, f := range m.Files {
			r.restore[f.Path] = string(f.Content)
		}
		r.log.Restored(m.Part)
	}
	r.received = append(r.received, ctx.Message())
}

func (r *recorder) has(entry string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.entries, entry)
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.entries)
}

// lastOf is the last message of a kind.
func lastOf[M any](w *recorder) (last M, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.received {
		if m, is := m.(M); is {
			last, ok = m, true
		}
	}
	return last, ok
}

func noFiles() map[string]string { return map[string]string{} }

// startSole starts a cluster of one node, which leads.
func (c *cluster) startSole(t testing.TB) *recorder {
	w := c.startRecorder("n1", logconformance.Options{Founder: true, Files: noFiles})
	c.Until("it leads", w.log.Leads)
	return w
}

func (c *cluster) startRecorder(name string, o logconformance.Options) *recorder {
	running := c.Start(name, o)
	w := &recorder{log: c.nodes[name].log}
	w.log.Attach(running.Spawn(w), 1)
	return w
}

func TestRefusals(t *testing.T) {
	c := newCluster(t)
	w := c.startSole(t)
	refused := func(number uint64) *messages.LogRefused {
		c.Until("it is refused", func() bool {
			r, ok := lastOf[*messages.LogRefused](w)
			return ok && r.Number == number
		})
		r, _ := lastOf[*messages.LogRefused](w)
		return r
	}
	w.log.Propose(1, make([]byte, raftlog.MaxEntry+1))
	require.False(t, refused(1).Unknown)
	require.Contains(t, refused(1).Failure.Text, fmt.Sprintf("%d bytes", raftlog.MaxEntry+1))

	w.mu.Lock()
	w.withholding = true
	w.mu.Unlock()
	for i := range uint64(6) { // four proposals fit, and no entry is acknowledged
		w.log.Propose(10+i, make([]byte, raftlog.MaxEntry))
	}
	r := refused(15)
	require.False(t, r.Unknown)
	require.Contains(t, r.Failure.Text, "try again later")
	require.NoError(t, w.log.Close())
	if r, _ = lastOf[*messages.LogRefused](w); r.Number != 15 { // on a slow machine all four are committed by now, and none is refused
		require.True(t, r.Unknown, "the last one may be committed when the log is opened again")
	}
	require.False(t, w.log.Leads())
	require.NoError(t, w.log.Close(), "again")
	w.log.Propose(20, []byte("late"))
}

func TestChangeAlone(t *testing.T) {
	c := newCluster(t)
	w := c.startSole(t)
	for i, change := range []replicator.Change{
		{What: messages.ChangeNodes_TRANSFER},
		{What: messages.ChangeNodes_REMOVE, Name: "n1"},
	} {
		w.log.Change(uint64(i), change)
		c.Until("it is refused", func() bool {
			m, ok := lastOf[*messages.LogChangeResult](w)
			return ok && m.Number == uint64(i) && strings.Contains(m.Failure.GetText(), "no other voter")
		})
		require.True(t, w.log.Leads(), "that has not cost the lease")
	}
}

func TestCloseEndsAll(t *testing.T) {
	// Raft may have left requests of an earlier test unanswered when it was shut down.
	former := logGoroutines()
	current := func() []string {
		return slices.DeleteFunc(logGoroutines(), func(name string) bool { return slices.Contains(former, name) })
	}
	c := newCluster(t)
	for _, attached := range []bool{true, false} {
		running := c.Start("n1", logconformance.Options{Founder: true, Files: noFiles})
		log := c.nodes["n1"].log
		w := &recorder{log: log, withholding: true}
		if attached {
			log.Attach(running.Spawn(w), 1)
			c.Until("it leads", log.Leads)
			log.Propose(1, []byte("held"))
			c.Until("an entry is held", func() bool { return w.count() == 1 })
		} else {
			c.Until("an entry waits for somebody", func() bool { log.Propose(2, []byte("x")); return true })
		}
		require.NotEmpty(t, current())
		c.Stop("n1")
	}
	c.Until("no goroutine of a log is left", func() bool { return len(current()) == 0 })
}

// logGoroutines returns the names ("goroutine 7") of the goroutines that run code of a log or of
// raft.
func logGoroutines() (names []string) {
	text := make([]byte, 1<<20)
	for one := range strings.SplitSeq(string(text[:runtime.Stack(text, true)]), "\n\n") {
		if strings.Contains(one, "hashicorp/raft") || strings.Contains(one, "edge/raftlog.") {
			name, _, _ := strings.Cut(one, " [")
			names = append(names, name)
		}
	}
	return names
}

func TestRestartGivesEntriesAgain(t *testing.T) {
	c := newCluster(t)
	w := c.startSole(t)
	for i := range 30 {
		w.log.Propose(uint64(i), fmt.Append(nil, "entry ", i))
	}
	c.Until("all are applied", func() bool { return w.count() == 30 })
	require.NoError(t, w.log.TakeSnapshot())
	w.log.Propose(30, []byte("entry 30"))
	c.Until("it is applied", func() bool { return w.count() == 31 })
	c.Stop("n1")
	w = c.startRecorder("n1", logconformance.Options{Files: noFiles})
	c.Until("it leads", w.log.Leads)
	require.Equal(t, []string{"entry 30"}, w.entries, "what came after the snapshot")
	for _, name := range []string{"wal", "snapshots"} {
		info, err := os.Stat(filepath.Join(c.dir, "n1", "raft", name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	}
}

func TestOnlyOneProcess(t *testing.T) {
	c := newCluster(t)
	w := c.startSole(t)
	err := raftlog.Recover(raftlog.Config{Dir: filepath.Join(c.dir, "n1", "raft"), Name: "n1",
		Address: c.Address("n1"), Log: c.log})
	require.ErrorContains(t, err, "stop the daemon first")
	require.True(t, w.log.Leads())
}

// A leader that learns of a later term accepts no further proposal in either term:
// otherwise two entries would have the same index and term.
func TestNothingIsTakenInInTheTermOfAnother(t *testing.T) {
	c := newCluster(t)
	w := c.startSole(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	other := raft.NewNetworkTransport(&severableListener{Listener: listener, node: c.node("other")}, 1, time.Minute, io.Discard)
	defer other.Close()
	var others []uint64
	for n := range uint64(10) {
		term := 100 * (n + 1)
		others = append(others, term)
		heartbeat := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("other"), Addr: []byte(c.Address("other"))}, Term: term}
		require.NoError(t, other.AppendEntries("n1", raft.ServerAddress(c.Address("n1")), heartbeat, &raft.AppendEntriesResponse{}))
		w.log.Propose(n, []byte("late"))
		c.Until("it leads again", w.log.Leads)
	}
	w.log.Propose(99, []byte("in time"))
	c.Until("it goes on", func() bool { return w.has("in time") })
	c.Stop("n1")
	terms, err := raftlog.CommandTerms(raftlog.Config{Dir: filepath.Join(c.dir, "n1", "raft"), Name: "n1", Address: c.Address("n1"), Log: c.log})
	require.NoError(t, err)
	require.NotEmpty(t, terms)
	for _, term := range terms {
		require.NotContains(t, others, term)
	}
}

// namesIn are the names of the last members in a log.
func namesIn(t *testing.T, config raftlog.Config) (names []string) {
	members, err := raftlog.Members(config)
	require.NoError(t, err)
	for _, m := range members {
		names = append(names, m.Name)
	}
	return names
}

func TestRecover(t *testing.T) {
	c := newCluster(t)
	w := c.startSole(t)
	for i, name := range []string{"n2", "n3"} {
		c.addVoter(w, uint64(i), name)
	}
	for _, name := range []string{"n1", "n2", "n3"} {
		c.Stop(name)
	}
	empty := raftlog.Config{Dir: filepath.Join(c.dir, "n4", "raft"), Name: "n4", Address: "localhost:1", Log: c.log}
	require.ErrorIs(t, raftlog.Recover(empty), raftlog.ErrNoState)
	n2 := raftlog.Config{Dir: filepath.Join(c.dir, "n2", "raft"), Name: "n2", Address: c.Address("n2"), Log: c.log}
	require.Equal(t, []string{"n1", "n2", "n3"}, namesIn(t, n2))
	require.NoError(t, raftlog.Recover(n2))
	require.Equal(t, []string{"n2"}, namesIn(t, n2))
	w = c.startRecorder("n2", logconformance.Options{Files: noFiles})
	c.Until("it leads alone", w.log.Leads)
	require.Equal(t, []string{"n2", "n3"}, w.entries, "all that was in its log")
	members, _ := lastOf[*messages.LogMembersChanged](w)
	require.Len(t, members.Members, 1)
	w.log.Propose(9, []byte("goes on"))
	c.Until("it goes on", func() bool { return w.count() == 3 })
}

// TestLeaseRenewed checks that each renewal and the end of the lease are reported.
func TestLeaseRenewed(t *testing.T) {
	c := newCluster(t)
	var mu sync.Mutex
	var until []time.Duration
	config := c.config("n1", logconformance.Options{Founder: true, Files: noFiles})
	config.LeaseRenewed = func(at time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		until = append(until, at)
	}
	log, err := raftlog.Open(config)
	require.NoError(t, err)
	c.nodes["n1"].log = log
	c.Until("it is renewed", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(until) > 3
	})
	c.Stop("n1")
	mu.Lock()
	defer mu.Unlock()
	require.Zero(t, until[len(until)-1])
	for i := range until[:len(until)-2] {
		require.Less(t, until[i], until[i+1])
	}
}

func TestConfig(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	good := raftlog.Config{Dir: t.TempDir(), Name: "n1", Address: "n1:1811"}
	for _, spoil := range []func(*raftlog.Config){
		func(c *raftlog.Config) { c.Name = "" },
		func(c *raftlog.Config) { c.Timing.Lease = time.Hour },
		func(c *raftlog.Config) { c.Timing.Heartbeat, c.Timing.Election = time.Minute, time.Second },
	} {
		bad := good
		spoil(&bad)
		_, err := raftlog.Open(bad)
		require.ErrorContains(t, err, "replication:")
	}
}

func TestDamagedSnapshotRecord(t *testing.T) {
	c := newCluster(t)
	c.startSole(t)
	c.Stop("n1")
	notes, err := filepath.Glob(filepath.Join(c.dir, "n1", "raft", "snapshots", "*.json"))
	require.NoError(t, err)
	require.Len(t, notes, 1)
	require.NoError(t, os.WriteFile(notes[0], []byte("{"), 0o600))
	config := c.config("n1", logconformance.Options{Founder: true, Files: noFiles})
	defer config.Streams.Close()
	_, err = raftlog.Open(config)
	require.ErrorContains(t, err, "is damaged")
}

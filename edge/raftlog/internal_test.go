package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// newTestLease makes the lease of node a among these voters. It also returns the reported
// ends of the lease.
func newTestLease(voters ...raft.ServerID) (*lease, *[]time.Duration) {
	var renewals []time.Duration
	c := &Config{Name: "a", LeaseRenewed: func(until time.Duration) { renewals = append(renewals, until) }}
	c.Dir, c.Address = "raft", "a:1811"
	if err := c.normalize(); err != nil {
		panic(err)
	}
	return newLease(c, func() []raft.ServerID { return voters }), &renewals
}

func TestLeaseNeedsMajority(t *testing.T) {
	l, renewals := newTestLease("a", "b", "c")
	l.begin(7)
	require.False(t, l.valid())
	now := bootTime()
	l.acknowledged("b", 6, now)
	require.False(t, l.valid(), "of a former term")
	l.acknowledged("d", 7, now)
	require.False(t, l.valid(), "no voter")
	l.acknowledged("b", 7, now-l.duration)
	require.False(t, l.valid(), "sent too long ago")
	l.acknowledged("b", 7, now-time.Millisecond)
	require.True(t, l.valid())
	l.acknowledged("c", 7, now-2*time.Millisecond)
	require.Equal(t, []time.Duration{now - time.Millisecond + l.duration}, *renewals, "one of the two is enough")
	l.end()
	require.False(t, l.valid())
	l.acknowledged("b", 7, bootTime())
	require.False(t, l.valid(), "not after it was lost")
	require.Zero(t, (*renewals)[len(*renewals)-1])
}

// After a failed sync a second one could succeed without the data.
func TestAFailedSyncIsNotRepeated(t *testing.T) {
	calls, failures := 0, 0
	c := &Config{Dir: "raft", Name: "a", Address: "a:1811", Log: logrus.New()}
	c.Log.SetOutput(io.Discard)
	c.Sync = func() error {
		if calls++; calls == 2 {
			return errors.New("input/output error")
		}
		return nil
	}
	c.Failed = func(error) { failures++ }
	s := newSyncer(c)
	require.NoError(t, s.do())
	require.ErrorContains(t, s.do(), "input/output error")
	require.ErrorContains(t, s.do(), "input/output error")
	require.Equal(t, 2, calls)
	require.Equal(t, 1, failures)
}

func TestLeaseOfFive(t *testing.T) {
	l, renewals := newTestLease("a", "b", "c", "d", "e")
	l.begin(1)
	now := bootTime()
	l.acknowledged("b", 1, now)
	require.Empty(t, *renewals)
	l.acknowledged("c", 1, now-5)
	l.acknowledged("d", 1, now-3)
	require.Equal(t, []time.Duration{now - 5 + l.duration, now - 3 + l.duration}, *renewals, "three of five, this one among them")
}

func TestLeaseAlone(t *testing.T) {
	l, _ := newTestLease("a")
	lapsed := 0
	l.onLapsed = func(time.Duration) { lapsed++ }
	l.tick()
	require.False(t, l.valid())
	l.begin(1)
	require.True(t, l.valid())
	l.until = bootTime() - time.Minute // a busy machine has delayed the ticks
	require.True(t, l.valid(), "no other node can lead")
	require.Zero(t, lapsed)
	l.until = bootTime() - time.Minute
	l.voters = func() []raft.ServerID { return []raft.ServerID{"a", "b", "c"} }
	require.False(t, l.valid())
	l.acknowledged("b", 1, bootTime())
	require.True(t, l.valid())
	require.Equal(t, 1, lapsed)
	none, _ := newTestLease()
	none.begin(1)
	require.False(t, none.valid())
}

func TestLeaseEndsWithAVoteForAnother(t *testing.T) {
	l, renewals := newTestLease("a")
	l.begin(1)
	require.True(t, l.valid())
	l.cede(1)
	require.True(t, l.valid(), "a vote of the own term was given before this node could lead in it")
	l.cede(2)
	require.False(t, l.valid())
	require.Zero(t, (*renewals)[len(*renewals)-1])
	l.tick()
	l.begin(1)
	require.False(t, l.valid(), "a late report of the former election")
	l.begin(3)
	require.True(t, l.valid())
}

func TestLeaseHeardRecently(t *testing.T) {
	l, _ := newTestLease("a", "b", "c")
	l.begin(2)
	require.False(t, l.heardRecently("b"))
	l.acknowledged("b", 1, bootTime())
	require.False(t, l.heardRecently("b"), "of a former term")
	l.acknowledged("b", 2, bootTime()-l.recent)
	require.False(t, l.heardRecently("b"), "long ago")
	l.acknowledged("b", 2, bootTime()-l.recent/2)
	require.True(t, l.heardRecently("b"))
	require.False(t, l.heardRecently("c"))
	l.end()
	require.False(t, l.heardRecently("b"))
}

// A node counts as silent from its last acknowledgement in this term on. One that has acknowledged nothing yet, as just after an election,
// does not.
func TestLeaseSilentFor(t *testing.T) {
	l, _ := newTestLease("a", "b", "c")
	l.acknowledged("b", 1, bootTime()-time.Hour)
	require.Zero(t, l.silentFor("b"), "this node does not lead")
	l.begin(2)
	require.Less(t, l.silentFor("b"), time.Hour, "the term has just begun")
	l.began -= 2 * time.Hour
	require.GreaterOrEqual(t, l.silentFor("b"), 2*time.Hour, "since the term began")
	require.Zero(t, l.silentFor("c"))
	l.acknowledged("b", 2, bootTime()-time.Hour)
	require.GreaterOrEqual(t, l.silentFor("b"), time.Hour)
	l.acknowledged("b", 2, bootTime())
	require.Less(t, l.silentFor("b"), time.Hour)
}

// TestStream checks that a stream arrives completely and has the announced length.
func TestStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := inMemoryFiles(rapid.MapOfN(rapid.StringN(1, 20, 20), rapid.SliceOf(rapid.Byte()), 0, 9).Draw(t, "files"))
		state := rapid.SliceOf(rapid.Byte()).Draw(t, "state")
		out, size, err := newSnapshotEncoder(files, state)
		require.NoError(t, err)
		sent, err := io.ReadAll(out)
		require.NoError(t, err)
		require.Len(t, sent, int(size))
		in, err := newSnapshotDecoder(bytes.NewReader(sent))
		require.NoError(t, err)
		require.True(t, bytes.Equal(state, in.state))
		got := inMemoryFiles{}
		for in.filesLeft > 0 {
			path, content, err := in.next()
			require.NoError(t, err)
			got[path] = content
		}
		require.Len(t, got, len(files))
		for path := range files {
			require.True(t, bytes.Equal(files[path], got[path]))
		}
		cut := rapid.IntRange(0, len(sent)-1).Draw(t, "cut")
		in, err = newSnapshotDecoder(bytes.NewReader(sent[:cut]))
		for err == nil && in.filesLeft > 0 {
			_, _, err = in.next()
		}
		require.ErrorIs(t, err, errDamagedSnapshot)
	})
}

func TestStreamOfShortFile(t *testing.T) {
	out, _, err := newSnapshotEncoder(truncatedFiles{inMemoryFiles{"queue/serial": []byte("1")}}, nil)
	require.NoError(t, err)
	_, err = io.ReadAll(out)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorContains(t, err, "queue/serial")
}

type inMemoryFiles map[string][]byte

func (m inMemoryFiles) Files() (files []FrozenFile) {
	for path, content := range m {
		files = append(files, FrozenFile{Path: path, Size: int64(len(content))})
	}
	return files
}

func (m inMemoryFiles) Open(path string) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(m[path])), nil
}

func (m inMemoryFiles) Close() error { return nil }

type truncatedFiles struct{ inMemoryFiles }

func (s truncatedFiles) Open(string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("")), nil
}

func TestLoggerWithholdsRepetitions(t *testing.T) {
	var out bytes.Buffer
	log := logrus.New()
	log.SetOutput(&out)
	log.SetFormatter(&logrus.TextFormatter{DisableTimestamp: true})
	l := newLogger(log)
	for range 100 {
		l.Error("failed to heartbeat to", "peer", "n2:1", "error", os.ErrDeadlineExceeded)
		l.Error("failed to heartbeat to", "peer", "n3:1", "error", os.ErrDeadlineExceeded)
		l.Info("entering follower state")
	}
	require.Equal(t, 2, strings.Count(out.String(), "\n"), out.String())
	require.Contains(t, out.String(), `level=warning msg="failed to heartbeat to" error="i/o timeout" lib=raft peer="n2:1"`)
	for i := range 2 * repeatsMax {
		l.Warn("text", "peer", fmt.Sprint(i), "servers", hclog.Fmt("%d", i))
	}
	require.Contains(t, out.String(), "servers=17")
}

func TestSnapshotsKeepTwo(t *testing.T) {
	dir := t.TempDir()
	s, err := openSnapshotStore(dir, func() (Frozen, error) { return inMemoryFiles{"a": []byte("b")}, nil })
	require.NoError(t, err)
	good, refuses := func() error { return nil }, func() error { return errors.New("the disk says no") }
	for index := range uint64(5) {
		to, err := s.Create(1, 10+index, 2, raft.Configuration{}, 1, nil)
		require.NoError(t, err)
		require.NoError(t, fsmSnapshot{state: fmt.Append(nil, index), sync: good, noting: func(uint64) error { return nil }}.Persist(to))
	}
	refused, err := s.Create(1, 15, 2, raft.Configuration{}, 1, nil)
	require.NoError(t, err)
	require.ErrorContains(t, fsmSnapshot{sync: refuses}.Persist(refused), "the disk says no")
	received, err := s.Create(1, 20, 3, raft.Configuration{}, 1, nil)
	require.NoError(t, err)
	given, err := s.Create(1, 21, 3, raft.Configuration{}, 1, nil)
	require.NoError(t, err)
	for _, to := range []raft.SnapshotSink{received, given} {
		_, err = to.Write([]byte(streamMagic))
		require.NoError(t, err)
	}
	require.NoError(t, received.Close())
	_, found := s.pending()
	require.False(t, found, "before the entries that it replaces are durable")
	syncs := 0
	require.NoError(t, s.recordReceived(func() error { syncs++; return nil }))
	require.NoError(t, s.recordReceived(func() error { syncs++; return nil }))
	require.Equal(t, 1, syncs)
	require.NoError(t, given.Cancel())
	require.NoError(t, given.Close(), "after which nothing happens")

	for range 2 {
		list, err := s.List()
		require.NoError(t, err)
		require.Len(t, list, 2, "those that can be sent")
		require.Equal(t, uint64(14), list[0].Index)
		meta, stream, err := s.Open(list[0].ID)
		require.NoError(t, err)
		content, err := io.ReadAll(stream)
		require.NoError(t, err)
		require.Len(t, content, int(meta.Size))
		require.NoError(t, stream.Close())
		pending, found := s.pending()
		require.True(t, found)
		require.Equal(t, uint64(20), pending.Index)
		require.NoError(t, os.WriteFile(dir+"/left.data", nil, 0o600))
		require.NoError(t, os.WriteFile(dir+"/left.json.new", nil, 0o600))
		s, err = openSnapshotStore(dir, s.freeze)
		require.NoError(t, err)
	}
	pending, _ := s.pending()
	require.NoError(t, s.markRestored(pending.ID, []byte("memory")))
	newest, _ := s.newest()
	require.Equal(t, "memory", string(newest.State))
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 3)
}

// Who loses the leadership does not know whether its last change of the membership is committed, and says so.
func TestAChangeOfUnknownOutcome(t *testing.T) {
	require.NoError(t, wrapChangeError("removing", "b", nil))
	require.NotContains(t, wrapChangeError("removing", "b", raft.ErrNotLeader).Error(), "all the same")
	err := wrapChangeError("removing", "b", raft.ErrLeadershipLost)
	require.ErrorIs(t, err, raft.ErrLeadershipLost)
	require.ErrorContains(t, err, "the next master may make the change all the same")
}

package distribution

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/config/model"
	"lockstep/core/config/ssconf"
	"lockstep/core/noded"
)

func offline(n model.Node) model.Node {
	n.Offline = true
	return n
}

// as replaces S by the serial number of the newest configuration.
func (w *world) as(format string) string {
	return strings.ReplaceAll(format, "S", fmt.Sprint(w.config.Serial))
}

// Everything is sent once after the start: config.data to the other candidates, ssconf to all nodes that are not offline.
func TestFirstDistribution(t *testing.T) {
	w := newWorld(t, candidate(2), regular(3), offline(candidate(4)))
	w.distribute()
	w.requireSent(w.as("n1 ssconf S"), w.as("n2 config.data S"), w.as("n2 ssconf S"), w.as("n3 ssconf S"))

	f, err := noded.DecodeFile(w.open[1].Content.Request().Body)
	require.NoError(t, err)
	require.Equal(t, noded.ConfigFile(w.config.JSON()), f)
	values, err := noded.DecodeSsconf(w.open[0].Content.Request().Body)
	require.NoError(t, err)
	require.Equal(t, map[string][]string(ssconf.Of(w.config, "3.0.2")), values)
	require.Equal(t, noded.Node{Name: "n2.example", Address: "192.0.2.2"}, w.open[1].Node)

	w.succeed()
	require.Zero(t, w.wake)
	nodes, serial := w.tracker.State()
	require.Equal(t, w.config.Serial, serial)
	has := FileState{Wanted: true, Serial: serial}
	require.Equal(t, []NodeState{
		{"n1", "n1.example", "192.0.2.1", Master, FileState{}, has},
		{"n2", "n2.example", "192.0.2.2", Candidate, has, has},
		{"n3", "n3.example", "192.0.2.3", Regular, FileState{}, has},
		{"n4", "n4.example", "192.0.2.4", Offline, FileState{}, FileState{}},
	}, nodes)
	w.distribute()
	w.requireSent()
}

// ssconf is sent only if a value has changed. Nodes that have it are current for the newer configuration.
func TestUnchangedSsconf(t *testing.T) {
	w := newWorld(t, candidate(2))
	w.distribute()
	w.succeed()
	w.advance(time.Minute)
	w.change(false)
	w.requireSent(w.as("n2 config.data S"))
	w.succeed()
	require.Equal(t, FileState{Wanted: true, Serial: w.config.Serial}, w.state("n1").Ssconf)
	w.advance(time.Minute)
	w.change(true)
	w.requireSent(w.as("n1 ssconf S"), w.as("n2 config.data S"), w.as("n2 ssconf S"))
}

// While a call is in progress newer states are not sent; then the newest one is.
func TestCoalescing(t *testing.T) {
	w := newWorld(t, candidate(2))
	w.distribute()
	first := w.sent()
	for range 5 {
		w.change(true)
		w.advance(time.Second)
	}
	require.Equal(t, first, w.sent())
	require.Equal(t, FileState{Wanted: true, Sending: true, Behind: 6}, w.state("n2").ConfigFile)
	w.done(Result{}) // n1 ssconf
	w.requireSent(first[1], first[2], w.as("n1 ssconf S"))
	w.done(Result{}) // n2 config.data
	require.Equal(t, FileState{Wanted: true, Sending: true, Serial: w.config.Serial - 5, Behind: 5}, w.state("n2").ConfigFile)
	w.requireSent(first[2], w.as("n1 ssconf S"), w.as("n2 config.data S"))
	w.succeed()
	require.Equal(t, FileState{Wanted: true, Serial: w.config.Serial}, w.state("n2").ConfigFile)
}

func TestRetries(t *testing.T) {
	w := newWorld(t)
	w.distribute()
	var pauses []time.Duration
	for failures := 1; failures <= 12; failures++ {
		e := w.done(Result{Err: errLost})
		require.Equal(t, failures, e.Failures)
		pauses = append(pauses, e.Retry)
		s := w.state("n1").Ssconf
		require.Equal(t, FileState{Wanted: true, Behind: 1, Failures: failures, Err: errLost, FailedAt: w.now, RetryAt: w.now.Add(e.Retry)}, s)
		w.requireSent()
		w.advance(e.Retry - 1)
		w.requireSent()
		w.advance(1)
		require.Len(t, w.open, 1)
	}
	require.Equal(t, []time.Duration{200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond}, pauses[:3])
	require.Equal(t, retryMax, pauses[11])
	require.Equal(t, Effect{Recovered: true}, w.done(Result{}))
	require.Equal(t, FileState{Wanted: true, Serial: w.config.Serial}, w.state("n1").Ssconf)
}

// A node that fails does not hold up the others, and a change does not shorten its pause.
func TestAFailingNodeIsAlone(t *testing.T) {
	w := newWorld(t, regular(2))
	w.distribute()
	for range 8 {
		w.done(Result{Err: errLost}) // n1
		w.succeed()
		w.advance(w.state("n1").Ssconf.RetryAt.Sub(w.now))
	}
	w.done(Result{Err: errLost})
	w.advance(time.Second)
	w.change(true)
	w.requireSent(w.as("n2 ssconf S"))
	w.succeed()
	require.Equal(t, FileState{Wanted: true, Serial: w.config.Serial}, w.state("n2").Ssconf)
	require.Equal(t, 9, w.state("n1").Ssconf.Failures)
	require.NotZero(t, w.state("n1").Ssconf.Behind)
}

// A node that comes back, is added again, or becomes a candidate again gets everything, although it had acknowledged it.
func TestReturningNodes(t *testing.T) {
	w := newWorld(t, candidate(2))
	w.distribute()
	w.succeed()
	w.advance(time.Minute)
	for _, absent := range []func(){
		func() { w.put(offline(candidate(2))) },
		func() {
			w.edit(func(e *model.Edit) { model.Nodes.Delete(e, "n2") })
			w.distribute()
		},
	} {
		absent()
		w.requireSent(w.as("n1 ssconf S"))
		w.succeed()
		w.advance(time.Minute)
		w.put(candidate(2))
		w.requireSent(w.as("n1 ssconf S"), w.as("n2 config.data S"), w.as("n2 ssconf S"))
		w.succeed()
		w.advance(time.Minute)
	}
	w.put(regular(2))
	w.succeed()
	w.advance(time.Minute)
	w.put(candidate(2))
	require.Contains(t, w.sent(), w.as("n2 config.data S"))
	w.succeed()

	w.advance(time.Minute)
	moved := candidate(2)
	moved.PrimaryIP = "192.0.2.99"
	w.put(moved)
	require.Contains(t, w.sent(), w.as("n2 config.data S"))
	require.Equal(t, "192.0.2.99", w.open[1].Node.Address)
	require.Zero(t, w.state("n2").ConfigFile.Serial, "it may be another machine")
}

// The result of a call that began before a node went away proves nothing about the node that came back. The next call begins
// when that call has ended.
func TestALateResult(t *testing.T) {
	w := newWorld(t, candidate(2))
	w.distribute()
	w.put(offline(candidate(2)))
	w.put(candidate(2))
	require.Len(t, w.open, 3, "no second call of a node and kind")
	w.advance(time.Second)
	for range 3 {
		require.Equal(t, Effect{}, w.done(Result{}))
	}
	require.Equal(t, FileState{Wanted: true, Serial: w.config.Serial}, w.state("n1").Ssconf, "the values are those of the first call")
	w.requireSent(w.as("n2 config.data S"), w.as("n2 ssconf S"))
	require.Equal(t, FileState{Wanted: true, Sending: true, Behind: 3}, w.state("n2").ConfigFile)
	w.put(offline(candidate(2)))
	w.done(Result{})
	require.Equal(t, Effect{Obsolete: true}, w.done(Result{Err: errLost}))
	require.Equal(t, Effect{Obsolete: true}, w.tracker.Done(w.now, 999, Result{}))
}

// A node whose uuid differs from its key gets everything like others.
func TestAnInconsistentConfiguration(t *testing.T) {
	w := newWorld(t)
	w.edit(func(e *model.Edit) { model.Nodes.Put(e, "key", candidate(2)) })
	w.distribute()
	w.requireSent(w.as("n2 config.data S"), w.as("n2 ssconf S"), w.as("n1 ssconf S"))
	w.await(1, "", false)
	w.succeed()
	require.Equal(t, []uint64{1}, w.released)
	require.Equal(t, FileState{Wanted: true, Serial: w.config.Serial}, w.state("key").ConfigFile)
}

// While the cluster is being destroyed no node has its config.data replaced, this one least of all.
func TestNoMaster(t *testing.T) {
	w := current(t, candidate(2))
	w.edit(func(e *model.Edit) {
		cluster := w.config.Cluster.Value
		cluster.MasterNode = ""
		e.SetCluster(cluster)
	})
	w.distribute()
	w.requireSent(w.as("n1 ssconf S"), w.as("n2 ssconf S"))
}

// A node that is to become the master sends nothing of its predecessor's configuration, also not to itself, and answers do not wait.
// What it sends as the master goes to all. Its predecessor then sends nothing.
func TestOnlyTheMasterSends(t *testing.T) {
	master := func(w *world, uuid string) {
		w.edit(func(e *model.Edit) {
			cluster := w.config.Cluster.Value
			cluster.MasterNode = uuid
			e.SetCluster(cluster)
		})
		w.distribute()
	}
	w := newWorld(t, candidate(2), regular(3))
	master(w, "n2")
	w.await(1, "", true)
	w.requireSent()
	require.Equal(t, []uint64{1}, w.released)
	require.Equal(t, Master, w.state("n2").Role)
	require.Zero(t, w.state("n1").Ssconf)

	master(w, "n1")
	w.requireSent(w.as("n1 ssconf S"), w.as("n2 config.data S"), w.as("n2 ssconf S"), w.as("n3 ssconf S"))
	w.done(Result{Err: errLost})
	w.succeed()

	master(w, "n2")
	w.change(true)
	w.advance(time.Hour)
	w.requireSent()
}

// The time for encodings is limited, unless an answer waits.
func TestPace(t *testing.T) {
	w := newWorld(t, candidate(2))
	w.distribute()
	w.succeed()
	w.advance(time.Minute)
	w.change(false)
	w.done(Result{Encoding: 500 * time.Millisecond})
	w.change(false)
	w.requireSent()
	w.advance(4500*time.Millisecond - 1)
	w.requireSent()
	w.advance(1)
	w.requireSent(w.as("n2 config.data S"))
	w.done(Result{Encoding: time.Hour})
	w.change(false)
	w.await(1, "", false)
	w.requireSent(w.as("n2 config.data S"))
	w.succeed()
	require.Equal(t, []uint64{1}, w.released)
	w.change(false)
	w.advance(encodingPauseMax)
	w.requireSent(w.as("n2 config.data S"))
	w.succeed()

	w.change(true)
	w.succeed()
	w.change(true)
	require.NotContains(t, w.sent(), w.as("n1 ssconf S"))
	w.advance(ssconfPause)
	require.Contains(t, w.sent(), w.as("n1 ssconf S"))
}

func TestTooLongValues(t *testing.T) {
	w := newWorld(t)
	w.edit(func(e *model.Edit) {
		cluster := w.config.Cluster.Value
		cluster.Tags = []string{strings.Repeat("x", noded.SsconfMax)}
		e.SetCluster(cluster)
	})
	w.tracker.Distribute(w.config)
	d := w.tracker.Next(w.now)
	require.Equal(t, []string{"cluster_tags"}, d.TooLong)
	require.Len(t, d.Sends, 1)
	values, err := noded.DecodeSsconf(d.Sends[0].Content.Request().Body)
	require.NoError(t, err)
	require.Len(t, values, 33)
	w.change(false)
	require.Empty(t, w.tracker.Next(w.now.Add(time.Minute)).TooLong, "it is reported once")
}

func BenchmarkSsconf(b *testing.B) {
	w := newWorld(b)
	w.edit(func(e *model.Edit) {
		for i := range 10000 {
			name := fmt.Sprintf("instance-%d.example.com", i)
			v := model.Instance{Name: model.Opt[string]{Value: name, Set: true}}
			v.UUID = name
			model.Instances.Put(e, name, v)
		}
	})
	b.ResetTimer()
	for range b.N {
		noded.Ssconf(ssconf.Of(w.config, "3.0.2"))
	}
}

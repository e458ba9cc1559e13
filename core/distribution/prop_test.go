package distribution

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/config/model"
)

// machine drives a tracker with random events and models the nodes: what each has, and what it has last answered.
type machine struct {
	*world
	has      map[target]string // idOf the last content that the node has written
	failed   map[target]bool   // the last call has failed, or none has ended
	sentRev  map[target]uint64 // revision of the last call
	awaiting map[uint64]*waiting
	last     uint64 // id of the last await

	newestOf *model.Config // config that newest belongs to
	newest   [kinds]string // idOf the content that a current node has
}

// waiting is an answer that was not released.
type waiting struct {
	since   time.Time
	serial  int64
	require map[target]bool // what the answer waits for; without targets that have got it, failed or changed
}

const nodeMax = 5

// check runs Next, and checks what was decided.
func (m *machine) check(t *rapid.T) {
	before := len(m.open)
	m.next()
	for _, s := range m.open[before:] {
		at := m.targetOf(s)
		n, known := m.config.Nodes.Get(at.node)
		require.True(t, known)
		require.False(t, n.Value.Offline, "a call of an offline node")
		require.Equal(t, n.Value.PrimaryIP, s.Node.Address)
		if at.kind == ConfigFile {
			require.True(t, n.Value.MasterCandidate)
			require.NotEqual(t, m.config.Cluster.Value.MasterNode, at.node)
		}
		require.GreaterOrEqual(t, s.Content.Revision, m.sentRev[at], "older content after newer content")
		m.sentRev[at] = s.Content.Revision
	}
	perTarget := map[target]int{}
	for _, s := range m.open {
		at := m.targetOf(s)
		perTarget[at]++
		require.LessOrEqual(t, perTarget[at], 1, "two calls of one node and kind at the same time")
	}
	m.checkStates(t)
	m.checkReleased(t)
	if !m.wake.IsZero() {
		require.True(t, m.wake.After(m.now), "a wake-up that is due")
	}
}

func (m *machine) targetOf(s Send) target { return target{s.Node.Name[:2], s.Content.Kind} }

// idOf identifies a content. Compressing the configuration would take most of the time of the test.
func idOf(c *Content) string {
	if c.Kind == ConfigFile {
		return fmt.Sprint(c.Serial)
	}
	return string(c.Request().Body)
}

// computeNewest computes the contents of the newest configuration.
func (m *machine) computeNewest() {
	if m.newestOf == m.config {
		return
	}
	t := New("3.0.2", "")
	t.Distribute(m.config)
	t.updateSsconf()
	m.newestOf = m.config
	m.newest = [kinds]string{fmt.Sprint(m.config.Serial), idOf(t.contents[Ssconf])}
}

// checkStates: a node that is shown as current has the newest content.
func (m *machine) checkStates(t *rapid.T) {
	nodes, serial := m.tracker.State()
	require.Equal(t, m.config.Serial, serial)
	m.computeNewest()
	for _, n := range nodes {
		for kind, s := range map[Kind]FileState{ConfigFile: n.ConfigFile, Ssconf: n.Ssconf} {
			at := target{n.UUID, kind}
			if !s.Wanted || s.Behind > 0 {
				continue
			}
			require.Equal(t, serial, s.Serial)
			require.False(t, m.failed[at], "%v is shown as current and has failed", at)
			require.Equal(t, m.newest[kind], m.has[at], "%v is shown as current", at)
		}
	}
}

// checkReleased: an answer is released when its targets have its configuration, have failed or changed, or after AwaitMax.
func (m *machine) checkReleased(t *rapid.T) {
	for _, w := range m.awaiting {
		maps.DeleteFunc(w.require, func(at target, _ bool) bool { return m.fileState(at).Serial >= w.serial })
	}
	for _, id := range m.released {
		w, open := m.awaiting[id]
		require.True(t, open, "released twice")
		delete(m.awaiting, id)
		if m.now.Sub(w.since) >= AwaitMax {
			continue
		}
		require.Empty(t, w.require, "released although these have not got it")
	}
	m.released = nil
	for _, w := range m.awaiting {
		require.Less(t, m.now.Sub(w.since), AwaitMax, "an answer waits too long")
	}
}

func (m *machine) fileState(at target) FileState { return m.tracker.fileState(at) }

// excuse makes answers not wait for a target.
func (m *machine) excuse(at target) {
	for _, w := range m.awaiting {
		delete(w.require, at)
	}
}

func (m *machine) await(t *rapid.T, group string, force bool) {
	w := &waiting{m.now, m.config.Serial, map[target]bool{}}
	for uuid, n := range m.config.Nodes.All() {
		for kind := range Kind(kinds) {
			at := target{uuid, kind}
			if m.fileState(at).Wanted && (group == "" || n.Value.Group == group) {
				w.require[at] = true
			}
		}
	}
	m.last++
	m.awaiting[m.last] = w
	m.tracker.Await(m.now, m.last, group, force)
	m.check(t)
}

// end ends a random call with a result. The node may have executed a call that fails.
func (m *machine) end(t *rapid.T, executed bool, r Result) {
	i := rapid.IntRange(0, len(m.open)-1).Draw(t, "call")
	s := m.open[i]
	m.open = slices.Delete(m.open, i, i+1)
	at := m.targetOf(s)
	if executed {
		m.has[at] = idOf(s.Content)
	}
	if m.failed[at] = r.Err != nil; m.failed[at] {
		m.excuse(at)
	}
	m.tracker.Done(m.now, s.Call, r)
	m.check(t)
}

func (m *machine) putRandom(t *rapid.T) {
	i := rapid.IntRange(2, nodeMax).Draw(t, "node")
	n := regular(i)
	n.MasterCandidate = rapid.Bool().Draw(t, "candidate")
	n.Offline = rapid.Bool().Draw(t, "offline")
	n.Group = rapid.SampledFrom([]string{oneGroup, otherGroup}).Draw(t, "group")
	if rapid.Bool().Draw(t, "moved") {
		n.PrimaryIP = fmt.Sprint("192.0.2.", 100+i)
	}
	m.edit(func(e *model.Edit) { model.Nodes.Put(e, n.UUID, n) })
	m.excuse(target{n.UUID, ConfigFile})
	m.excuse(target{n.UUID, Ssconf})
}

// Whatever the order of changes, results and failures, a node that is shown as current is current, and in the end every node is.
func TestEveryNodeGetsTheNewest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{world: newWorld(t, candidate(2), regular(3)), has: map[target]string{}, failed: map[target]bool{}, sentRev: map[target]uint64{}, awaiting: map[uint64]*waiting{}}
		m.tracker.Distribute(m.config)
		m.check(t)
		told := func() {
			m.tracker.Distribute(m.config)
			m.check(t)
		}
		t.Repeat(map[string]func(*rapid.T){
			"":       func(*rapid.T) {},
			"change": func(t *rapid.T) { m.tag(rapid.Bool().Draw(t, "ssconf")); told() },
			"node":   func(t *rapid.T) { m.putRandom(t); told() },
			"remove": func(t *rapid.T) {
				m.edit(func(e *model.Edit) { model.Nodes.Delete(e, "n3") })
				m.excuse(target{"n3", ConfigFile})
				m.excuse(target{"n3", Ssconf})
				told()
			},
			"revert": func(t *rapid.T) { // the values of ssconf become those of an earlier state
				m.edit(func(e *model.Edit) {
					cluster := m.config.Cluster.Value
					cluster.Tags = []string{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tag")}
					e.SetCluster(cluster)
				})
				told()
			},
			"succeed": func(t *rapid.T) {
				if len(m.open) > 0 {
					m.end(t, true, Result{Encoding: rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(t, "encoding")})
				}
			},
			"fail": func(t *rapid.T) {
				if len(m.open) > 0 {
					m.end(t, rapid.Bool().Draw(t, "executed"), Result{Err: rapid.SampledFrom([]error{errLost, errRefused}).Draw(t, "err")})
				}
			},
			"await": func(t *rapid.T) {
				m.await(t, rapid.SampledFrom([]string{"", oneGroup, otherGroup}).Draw(t, "group"), rapid.Bool().Draw(t, "force"))
			},
			"time": func(t *rapid.T) {
				by := time.Duration(rapid.IntRange(1, 8000).Draw(t, "ms")) * time.Millisecond
				for end := m.now.Add(by); m.now.Before(end); {
					m.now = end
					if !m.wake.IsZero() && m.wake.Before(end) {
						m.now = m.wake
					}
					m.check(t)
				}
			},
		})
		m.finish(t)
	})
}

// finish lets all calls succeed until nothing is left to do. Then every node has the newest state, and no answer waits.
func (m *machine) finish(t *rapid.T) {
	for range 1000 {
		if len(m.open) > 0 {
			m.end(t, true, Result{})
			continue
		}
		if m.wake.IsZero() {
			break
		}
		m.now = m.wake
		m.check(t)
	}
	require.Zero(t, m.wake, "the tracker comes to rest")
	require.Empty(t, m.open)
	require.Empty(t, m.awaiting)
	nodes, serial := m.tracker.State()
	for _, n := range nodes {
		v, _ := m.config.Nodes.Get(n.UUID)
		require.Equal(t, !v.Value.Offline, n.Ssconf.Wanted)
		require.Equal(t, !v.Value.Offline && v.Value.MasterCandidate && n.UUID != "n1", n.ConfigFile.Wanted)
		for kind, s := range map[Kind]FileState{ConfigFile: n.ConfigFile, Ssconf: n.Ssconf} {
			if s.Wanted {
				require.Equal(t, FileState{Wanted: true, Serial: serial}, s)
				require.Equal(t, m.newest[kind], m.has[target{n.UUID, kind}])
			}
		}
	}
}

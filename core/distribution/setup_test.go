package distribution

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/config/model"
	"lockstep/core/noded"
)

const (
	oneGroup   = "group-one"
	otherGroup = "group-other"
)

// world is a tracker with a configuration that tests change, and the calls that it has decided.
type world struct {
	require.TestingT
	tracker  *Tracker
	now      time.Time
	config   *model.Config
	open     []Send // without result yet
	released []uint64
	wake     time.Time
}

// baseConfig is a configuration without nodes but its master, "n1".
func baseConfig(t require.TestingT) *model.Config {
	raw, err := os.ReadFile("../config/testdata/config.data.json")
	require.NoError(t, err)
	c, err := model.Decode(raw)
	require.NoError(t, err)
	e := c.Edit()
	for uuid := range c.Nodes.All() {
		model.Nodes.Delete(e, uuid)
	}
	cluster := c.Cluster.Value
	cluster.MasterNode = "n1"
	e.SetCluster(cluster)
	model.Nodes.Put(e, "n1", regular(1))
	c, _ = e.Commit(1)
	return c
}

// regular is a regular node, "n1" the master candidate.
func regular(i int) model.Node {
	id := fmt.Sprintf("n%d", i)
	n := model.Node{Name: id + ".example", PrimaryIP: fmt.Sprintf("192.0.2.%d", i), Group: oneGroup, MasterCandidate: i == 1, MasterCapable: true}
	n.UUID = id
	return n
}

func candidate(i int) model.Node {
	n := regular(i)
	n.MasterCandidate = true
	return n
}

func newWorld(t require.TestingT, nodes ...model.Node) *world {
	w := &world{TestingT: t, tracker: New("3.0.2", "n1.example"), now: time.Unix(1000, 0), config: baseConfig(t)}
	w.edit(func(e *model.Edit) {
		for _, n := range nodes {
			model.Nodes.Put(e, n.UUID, n)
		}
	})
	return w
}

// edit changes the configuration without telling the tracker.
func (w *world) edit(change func(*model.Edit)) {
	e := w.config.Edit()
	change(e)
	w.config, _ = e.Commit(w.config.MTime + 1)
}

// change changes a tag of the cluster, which is in ssconf, or one of a node, which is not, and tells the tracker.
func (w *world) change(inSsconf bool) {
	w.tag(inSsconf)
	w.distribute()
}

// tag is change without telling the tracker.
func (w *world) tag(inSsconf bool) {
	w.edit(func(e *model.Edit) {
		tag := fmt.Sprint("serial", w.config.Serial)
		if inSsconf {
			cluster := w.config.Cluster.Value
			cluster.Tags = []string{tag}
			e.SetCluster(cluster)
			return
		}
		master, _ := w.config.Nodes.Get("n1")
		v := master.Value
		v.Tags = []string{tag}
		model.Nodes.Put(e, "n1", v)
	})
}

// put puts a node into the configuration and tells the tracker.
func (w *world) put(n model.Node) {
	w.edit(func(e *model.Edit) { model.Nodes.Put(e, n.UUID, n) })
	w.distribute()
}

func (w *world) distribute() {
	w.tracker.Distribute(w.config)
	w.next()
}

func (w *world) next() {
	d := w.tracker.Next(w.now)
	w.open = append(w.open, d.Sends...)
	w.released = append(w.released, d.Released...)
	w.wake = d.Wake
}

// advance lets time pass, with the wake-ups in it.
func (w *world) advance(by time.Duration) {
	for end := w.now.Add(by); w.now.Before(end); {
		w.now = end
		if !w.wake.IsZero() && w.wake.Before(end) {
			w.now = w.wake
		}
		w.next()
	}
}

func (w *world) await(id uint64, group string, force bool) {
	w.tracker.Await(w.now, id, group, force)
	w.next()
}

// done ends the oldest open call.
func (w *world) done(r Result) Effect {
	s := w.open[0]
	w.open = w.open[1:]
	e := w.tracker.Done(w.now, s.Call, r)
	w.next()
	return e
}

// succeed ends all open calls with success, and those that follow.
func (w *world) succeed() {
	for len(w.open) > 0 {
		w.done(Result{})
	}
}

// sent returns the open calls as "node kind serial".
func (w *world) sent() (all []string) {
	for _, s := range w.open {
		all = append(all, fmt.Sprintf("%s %s %d", s.Node.Name[:2], s.Content.Kind, s.Content.Serial))
	}
	return all
}

func (w *world) requireSent(want ...string) {
	if t, ok := w.TestingT.(testing.TB); ok {
		t.Helper()
	}
	require.Equal(w, want, w.sent())
}

func (w *world) state(uuid string) NodeState {
	all, _ := w.tracker.State()
	for _, n := range all {
		if n.UUID == uuid {
			return n
		}
	}
	return NodeState{}
}

var (
	errLost    = errors.New("connection refused")
	errRefused = &noded.RefusedError{Text: "no"}
)

package configstore_test

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/config/configstore"
	"lockstep/actors/kittest"
	"lockstep/actors/store"
	"lockstep/core/config/journal"
	"lockstep/core/config/model"
	"lockstep/core/config/reserve"
	"lockstep/core/lock"
	"lockstep/core/paths"
	"lockstep/messages"
	"lockstep/sim/simdisk"
)

// bench is the actor on a store with a simulated disk, and a client that decides changes as actors/config/clusterconfig does.
type bench struct {
	testing.TB
	*kittest.Env
	disk       *simdisk.Disk
	gate       *gate
	client     *kittest.Probe
	pid        *actor.PID
	subscriber *kittest.Probe
	secrets    []string // names of parameters that are declared secret
	isPlain    bool     // changes do not reserve anything
	// prepared is what the start has read.
	prepared *configstore.Prepared
	encode   chan struct{} // if not nil, each fold waits for it, on the thread of the codec

	number  uint64 // of the last request
	state   journal.State
	records uint64            // number of the last record sent
	parents map[string]string // by name of the cluster: the name before
}

// gate counts the calls to a disk. From the call with number stopAt on none has an effect: the power is gone.
type gate struct {
	*simdisk.Disk
	mu     sync.Mutex
	calls  []string
	stopAt int // 0: never
	block  string
	free   chan struct{}
}

func (g *gate) call(kind, path string) error {
	g.mu.Lock()
	g.calls = append(g.calls, kind+" "+path)
	gone := g.stopAt > 0 && len(g.calls) >= g.stopAt
	wait := g.free
	if g.block != kind+" "+path {
		wait = nil
	}
	g.mu.Unlock()
	if wait != nil {
		<-wait
	}
	if gone {
		return fmt.Errorf("%s %s: no power", kind, path)
	}
	return nil
}

// count returns the number of calls of a kind for a path.
func (g *gate) count(call string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, c := range g.calls {
		if c == call {
			n++
		}
	}
	return n
}

// hold blocks the calls of a kind for a path until the returned function is called.
func (g *gate) hold(call string) (release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.block, g.free = call, make(chan struct{})
	free := g.free
	return func() {
		g.mu.Lock()
		g.block = ""
		g.mu.Unlock()
		close(free)
	}
}

func (g *gate) Replace(op, path string, data ...[]byte) error {
	if err := g.call("replace", path); err != nil {
		return err
	}
	return g.Disk.Replace(op, path, data...)
}

func (g *gate) AppendDurable(op, path string, data []byte) error {
	if err := g.call("append", path); err != nil {
		return err
	}
	return g.Disk.AppendDurable(op, path, data)
}

func (g *gate) SyncDir(op, dir string) error {
	if err := g.call("sync", dir); err != nil {
		return err
	}
	return g.Disk.SyncDir(op, dir)
}

func (g *gate) Rename(op, from, to string) error {
	if err := g.call("rename", from); err != nil {
		return err
	}
	return g.Disk.Rename(op, from, to)
}

func (g *gate) Remove(op, path string) error {
	if err := g.call("remove", path); err != nil {
		return err
	}
	return g.Disk.Remove(op, path)
}

func (g *gate) Read(op, path string) ([]byte, error) {
	if err := g.call("read", path); err != nil {
		return nil, err
	}
	return g.Disk.Read(op, path)
}

func (g *gate) Identify(op, path string) (string, error) {
	if err := g.call("identify", path); err != nil {
		return "", err
	}
	return g.Disk.Identify(op, path)
}

// initial returns a config.data.
func initial(t testing.TB) []byte {
	raw, err := os.ReadFile("../../../core/config/testdata/config.data.json")
	require.NoError(t, err)
	return raw
}

// newDisk returns a disk with a configuration.
func newDisk(t testing.TB) *simdisk.Disk {
	d := simdisk.New("queue")
	d.Overwrite(paths.ConfigPath, initial(t))
	return d
}

// onBench runs a test with the actor and a state that is loaded.
func onBench(t *testing.T, f func(b *bench)) {
	t.Helper()
	onDisk(t, newDisk(t), func(b *bench) {
		b.load()
		f(b)
	})
}

// onDisk runs a test with the actor on a disk.
func onDisk(t *testing.T, d *simdisk.Disk, f func(b *bench)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{TB: t, Env: e, disk: d, gate: &gate{Disk: d}, parents: map[string]string{}}
		b.boot()
		f(b)
	})
}

func (b *bench) boot() {
	b.client, b.subscriber = b.Probe("client"), b.Probe("subscriber")
	pid := b.Start("store", store.Props(store.Config{Env: b.Env.Env, Files: b.gate, Writers: 4,
		Clients: []*actor.PID{b.PID("above-configstore/configstore")}}))
	config := configstore.Config{Env: b.Env.Env, Store: pid, Clients: []*actor.PID{b.client.PID}, Subscribers: []*actor.PID{b.subscriber.PID}, Prepared: b.prepared}
	if b.secrets != nil {
		config.Secrets = func() []string { return b.secrets }
	}
	if b.encode != nil {
		config.Secrets = func() []string { <-b.encode; return nil }
	}
	b.pid = b.Start("configstore", configstore.Props(config))
	require.EqualValues(b, 1, kittest.Expect[*configstore.Started](b.client).Incarnation)
}

// reboot stops all actors and starts them again on the disk, after a loss of power if lose is given.
func (b *bench) reboot(lose func()) {
	b.Settle()
	for _, name := range []string{"above-configstore", "above-store", "client", "subscriber"} {
		b.System().Root.Stop(b.PID(name))
	}
	b.Settle()
	if lose != nil {
		lose()
	}
	b.Env = b.Reboot()
	b.gate = &gate{Disk: b.disk}
	b.boot()
}

// ask sends a request and returns its number.
func (b *bench) ask(request func(number uint64) any) uint64 {
	b.number++
	b.client.Ask(b.pid, request(b.number))
	return b.number
}

// load loads the state.
func (b *bench) load() *configstore.Loaded {
	b.ask(func(n uint64) any { return &configstore.Load{Request: n} })
	m := kittest.Expect[*configstore.Loaded](b.client)
	require.Equal(b, b.number, m.Request)
	if m.Failure == nil {
		b.state, b.records = m.State, m.Number
	}
	return m
}

// name returns the name of the cluster in the state.
func (b *bench) name() string { return b.state.Config.Cluster.Value.Name }

// record decides a change of the cluster's name, and for some numbers of the reservations.
func (b *bench) record() *journal.Record {
	return b.recordOf(func(*model.Cluster) {})
}

// recordOf decides a further change of the cluster, too.
func (b *bench) recordOf(change func(*model.Cluster)) *journal.Record {
	b.records++
	next := b.state
	e := b.state.Config.Edit()
	c := b.state.Config.Cluster.Value
	parent := c.Name
	c.Name = fmt.Sprintf("cluster-%d-%d", b.records, b.number)
	b.parents[c.Name] = parent
	change(&c)
	e.SetCluster(c)
	var touched []model.Touched
	next.Config, touched = e.Commit(model.Time(b.records))
	if b.records%2 == 0 && !b.isPlain {
		var err error
		next.Reserved, err = b.state.Reserved.Reserve(reserve.LV, "vg/"+c.Name, lock.Owner{Job: 7, Livelock: "l", PID: 70})
		require.NoError(b, err)
		next.Concurrent = append(next.Concurrent[:len(next.Concurrent):len(next.Concurrent)], reserve.IP{Network: "n", Address: uint32(b.records)})
	}
	r := journal.NewRecord(b.records, b.state, next, touched, 5, journal.Author{Method: "updateCluster", Job: 7})
	b.state = next
	return r
}

func (b *bench) send(records ...*journal.Record) uint64 {
	return b.ask(func(n uint64) any { return &configstore.AddRecords{Request: n, Records: records} })
}

// change makes one durable change.
func (b *bench) change() {
	b.Helper()
	b.send(b.record())
	b.expectAppended()
}

func (b *bench) expectAppended() {
	b.Helper()
	m := kittest.Expect[*configstore.AddRecordsResult](b.client)
	require.Nil(b, m.Failure)
	require.False(b, m.Refused)
}

func (b *bench) flush() *messages.Failure {
	b.ask(func(n uint64) any { return &configstore.Flush{Request: n} })
	return kittest.Expect[*configstore.Flushed](b.client).Failure
}

func (b *bench) drain() {
	b.client.Ask(b.pid, &messages.Drain{})
	kittest.Expect[*messages.DrainResult](b.client)
}

// content returns a file, "" if it is absent.
func (b *bench) content(path string) string {
	b.Settle()
	if f := b.find(path); f != nil {
		return string(f.Data)
	}
	return ""
}

// onDiskNow returns the state that the files have together.
func (b *bench) onDiskNow() journal.Recovered {
	b.Helper()
	files := journal.Files{}
	config, _, err := journal.DecodeConfig([]byte(b.content(paths.ConfigPath)))
	require.NoError(b, err)
	files.Config = config
	for path, into := range map[string]*[]byte{paths.ConfigExtraPath: &files.Extra, paths.TempResPath: &files.TempRes, paths.ConfigJournalPath: &files.Journal} {
		if f := b.find(path); f != nil {
			*into = f.Data
		}
	}
	r, err := journal.Recover(files, false)
	require.NoError(b, err)
	return r
}

// agree requires that memory, journal and files have the state of the client.
func (b *bench) agree() {
	b.Helper()
	want := b.state
	m := b.load()
	require.Nil(b, m.Failure)
	disk := b.onDiskNow()
	for _, s := range []journal.State{m.State, disk.State} {
		require.Equal(b, string(want.Config.JSON()), string(s.Config.JSON()))
		require.True(b, want.Reserved.Equal(s.Reserved))
		require.Equal(b, len(want.Concurrent), len(s.Concurrent))
	}
	require.Equal(b, m.Number, disk.Number)
	require.Zero(b, disk.Torn)
}

// These are the functions of the disk, called when no actor uses it.

func (b *bench) overwrite(path string, content []byte) {
	b.Settle()
	b.disk.Overwrite(path, content)
}

func (b *bench) surviving(path string) ([]byte, bool) {
	b.Settle()
	return b.disk.Surviving(path)
}

func (b *bench) find(path string) *simdisk.File {
	b.Settle()
	return b.disk.Find(path)
}

func (b *bench) namesIn(dir string) []string {
	b.Settle()
	return b.disk.Names(dir)
}

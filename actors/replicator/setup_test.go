package replicator_test

import (
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/config/configstore"
	"lockstep/actors/kittest"
	"lockstep/actors/replicator"
	"lockstep/actors/store"
	"lockstep/core/config"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/core/replication"
	"lockstep/messages"
)

// self is the node under test, elsewhere a different node.
var (
	self      = replication.Applier{Node: "u1", Incarnation: "run"}
	elsewhere = replication.Applier{Node: "u2", Incarnation: "other"}
)

// consensus is a log in memory. The test decides which entries are committed.
type consensus struct {
	env *kittest.Env

	mu       sync.Mutex
	to       *actor.PID
	attached int
	proposed []offer // by the replicator, and neither committed nor refused
	offers   int     // in all
	entries  []*messages.CommittedEntry
	index    uint64
	applied  uint64
	state    []byte
	sent     uint64 // index of the last entry that the replicator was sent
	waiting  bool   // LogLeadershipGained waits until these entries are applied
	term     uint64
	leader   string // "n1": the node under test
	members  []*messages.Member
	changes  []change
	restored []uint64
	times    []declared // that were set
}

type declared struct {
	term uint64
	replication.Times
	offers int // proposals before
}

type offer struct {
	number uint64
	entry  *messages.LogEntry
}

type change struct {
	number uint64
	replicator.Change
}

func (c *consensus) Attach(to *actor.PID, incarnation uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.to, c.sent = to, c.applied
	c.attached++
	c.env.Send(to, &messages.LogAttached{Applied: c.applied, State: c.state, Incarnation: incarnation})
	c.env.Send(to, &messages.LogMembersChanged{Members: c.members})
	if c.waiting = c.leader == "n1" && c.applied < c.index; c.waiting {
		c.env.Send(c.to, &messages.LogLeaderChanged{})
	} else {
		c.tellLeader()
	}
	c.deliver()
}

func (c *consensus) tellLeader() {
	if c.leader == "n1" {
		c.env.Send(c.to, &messages.LogLeadershipGained{Term: c.term})
		return
	}
	c.env.Send(c.to, &messages.LogLeaderChanged{Leader: c.leader, Address: addressOf(c.leader)})
}

func (c *consensus) Propose(number uint64, entry []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, err := messages.UnmarshalLogEntry(entry)
	if err != nil {
		panic(err)
	}
	c.offers++
	c.proposed = append(c.proposed, offer{number, e})
}

func (c *consensus) Applied(index uint64, state []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.applied, c.state = index, state
	if c.waiting && c.applied == c.index {
		c.waiting = false
		c.tellLeader()
	}
	c.deliver()
}

// deliver sends the committed entries that were not sent. c.mu is held.
func (c *consensus) deliver() {
	at := slices.IndexFunc(c.entries, func(e *messages.CommittedEntry) bool { return e.Index > c.sent })
	if at < 0 || c.to == nil {
		return
	}
	c.sent = c.index
	c.env.Send(c.to, &messages.LogCommitted{Entries: slices.Clone(c.entries[at:])})
}

func (c *consensus) SetTimes(term uint64, t replication.Times) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times = append(c.times, declared{term, t, c.offers})
}

func (c *consensus) Restored(part uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.restored = append(c.restored, part)
}

func (c *consensus) Change(number uint64, what replicator.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes = append(c.changes, change{number, what})
}

func (c *consensus) Leads() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leader == "n1"
}

// commit commits entries of any node, in one batch.
func (c *consensus) commit(entries ...*messages.LogEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range entries {
		c.index++
		c.entries = append(c.entries, &messages.CommittedEntry{Index: c.index, Entry: e.Marshal()})
	}
	c.deliver()
}

// take returns the proposals since the last call.
func (c *consensus) take() []offer {
	c.env.Settle()
	c.mu.Lock()
	defer c.mu.Unlock()
	proposed := c.proposed
	c.proposed = nil
	return proposed
}

// agree commits all proposals until no proposal is left.
func (c *consensus) agree() {
	for offers := c.take(); len(offers) > 0; offers = c.take() {
		for _, o := range offers {
			c.commit(o.entry)
		}
		c.env.Settle()
	}
}

// last is the content of a file according to the log.
func (c *consensus) last(file string) (content string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, committed := range c.entries {
		e, err := messages.UnmarshalLogEntry(committed.Entry)
		if err != nil {
			panic(err)
		}
		for _, change := range e.Changes {
			if u := change.GetUpdate(); u.GetPath() == file {
				content = string(u.Content)
			}
		}
	}
	return content
}

func (c *consensus) taken() []change {
	c.env.Settle()
	c.mu.Lock()
	defer c.mu.Unlock()
	changes := c.changes
	c.changes = nil
	return changes
}

// lead makes a node the leader: the node under test is n1; an empty name is no leader.
func (c *consensus) lead(name string) {
	c.mu.Lock()
	c.leader = name
	c.term++
	c.tellLeader()
	c.mu.Unlock()
	c.env.Settle()
}

func addressOf(name string) string {
	if name == "" {
		return ""
	}
	return "10.0.0." + name[1:] + ":1815"
}

func members(voters ...string) []*messages.Member {
	var all []*messages.Member
	for _, name := range voters {
		all = append(all, &messages.Member{Name: name, Address: addressOf(name), Voter: true})
	}
	return all
}

// bench is a replicator on a store with a disk in memory.
type bench struct {
	*testing.T
	*kittest.Env
	log            *consensus
	peers          *peers
	disk           *kittest.Disk
	master, client *kittest.Probe
	observer       *kittest.Probe // is told what the node knows
	store, configs *actor.PID
	replicator     *actor.PID
	told           [][]*messages.Member
	request        uint64
	epoch          uint64 // of the replicator as a store
}

// shortTimes are the times of elections that the node under test knows.
var shortTimes = replication.Times{Heartbeat: 500 * time.Millisecond, Lease: 375 * time.Millisecond}

// peers records the questions to other nodes.
type peers struct {
	mu       sync.Mutex
	asked    []uint64
	leaveOut []string
	nodes    []*messages.Member
}

func (p *peers) Ask(number uint64, nodes []*messages.Member, _ *actor.PID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked, p.nodes = append(p.asked, number), nodes
}

func (p *peers) Compare(number uint64, nodes []*messages.Member, leaveOut []string, _ *actor.PID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked, p.nodes, p.leaveOut = append(p.asked, number), nodes, leaveOut
}

func (p *peers) question() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[len(p.asked)-1]
}

// onBench starts a replicator without a leader, on a disk with these files.
func onBench(t *testing.T, files map[string]string, f func(*testing.T, *bench)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) { f(t, newBench(t, e, files)) })
}

func newBench(t *testing.T, e *kittest.Env, files map[string]string) *bench {
	all := map[string]string{paths.ConfigPath: configuration(t), paths.SerialPath: "9\n", "queue/quarantine/old": "x"}
	for name, content := range files {
		all[name] = content
	}
	b := &bench{T: t, Env: e, log: &consensus{env: e, members: members("n1", "n2", "n3")}, peers: &peers{},
		disk: kittest.NewDisk(all), master: e.Probe("master"), client: e.Probe("client"), observer: e.Probe("observer")}
	b.store = e.Start("store", store.Props(store.Config{Env: e.Env, Files: b.disk, Writers: 4,
		Clients: []*actor.PID{e.PID("above-replicator/replicator"), e.PID("above-configstore/configstore")}}))
	b.configs = e.Start("configstore", configstore.Props(configstore.Config{Env: e.Env, Store: b.store,
		Clients: []*actor.PID{e.PID("above-replicator/replicator")}}))
	b.replicator = e.Start("replicator", replicator.Props(replicator.Config{Env: e.Env, Log: b.log, Store: b.store, ConfigStore: b.configs, Master: b.master.PID,
		Standby: e.Probe("standby").PID, Clients: []*actor.PID{b.client.PID}, Peers: b.peers, Members: func(m []*messages.Member) { b.told = append(b.told, m) },
		Name: "n1", Self: self, Monitor: b.observer.PID, Times: shortTimes}))
	kittest.Expect[*messages.ResignMaster](b.master)
	b.master.Unread()
	return b
}

// onMaster is onBench with a replicator whose node is the master.
func onMaster(t *testing.T, files map[string]string, f func(*testing.T, *bench)) {
	t.Helper()
	onBench(t, files, func(t *testing.T, b *bench) {
		b.become()
		f(t, b)
	})
}

// become makes the node the leader, and commits the proposals that it makes then.
func (b *bench) become() *messages.BecomeMaster {
	b.Helper()
	b.log.lead("n1")
	b.log.agree()
	m := kittest.Expect[*messages.BecomeMaster](b.master)
	b.epoch = kittest.Expect[*messages.StoreStarted](b.client).Incarnation
	return m
}

func configuration(t *testing.T) string {
	content, err := config.New(config.Identity{ClusterName: "c", NodeName: "n1", NodeUUID: "u1", GroupUUID: "g1"})
	require.NoError(t, err)
	return string(content.JSON())
}

// ask sends a request to the replicator as a store, and returns its number.
func (b *bench) ask(r *messages.AccessStore) uint64 {
	b.request++
	r.Request, r.Incarnation = b.request, b.epoch
	b.client.Ask(b.replicator, r)
	b.Settle()
	return b.request
}

func (b *bench) write(file, content string) uint64 {
	return b.writeAll(&messages.FileWrite{Op: "test", Path: file, Content: []byte(content)})
}

func (b *bench) writeAll(files ...*messages.FileWrite) uint64 {
	return b.ask(&messages.AccessStore{What: &messages.AccessStore_Write{Write: &messages.WriteFiles{Files: files, Durable: true}}})
}

func (b *bench) read(file string) uint64 {
	return b.ask(&messages.AccessStore{What: &messages.AccessStore_Read{Read: &messages.ReadFile{Op: "test", Path: file}}})
}

func (b *bench) move(from, to string) uint64 {
	return b.ask(&messages.AccessStore{What: &messages.AccessStore_Move{
		Move: &messages.MoveFiles{Files: []*messages.MoveFile{{Op: "test", From: from, To: to}}}}})
}

func (b *bench) remove(file string) uint64 {
	return b.ask(&messages.AccessStore{What: &messages.AccessStore_Remove{Remove: &messages.RemoveFiles{Op: "test", Paths: []string{file}}}})
}

// answer expects the answer to that request.
func (b *bench) answer(request uint64) *messages.AccessStoreResult {
	b.Helper()
	b.Settle()
	a := kittest.Expect[*messages.AccessStoreResult](b.client)
	require.Equal(b, request, a.Request)
	return a
}

// written expects an answer without failures to a request that changed files.
func (b *bench) written(request uint64) {
	b.Helper()
	require.Empty(b, b.answer(request).GetFiles().GetFailures())
}

// filePaths are the paths that an entry changes.
func filePaths(e *messages.LogEntry) []string {
	var all []string
	for _, c := range e.Changes {
		switch what := c.What.(type) {
		case *messages.FileChange_Update:
			observed := ""
			if what.Update.Observed {
				observed = " observed"
			}
			all = append(all, what.Update.Path+observed)
		case *messages.FileChange_Rename:
			all = append(all, what.Rename.From+" to "+what.Rename.To)
		case *messages.FileChange_Remove:
			all = append(all, "remove "+what.Remove.Path)
		case *messages.FileChange_Config:
			all = append(all, configText(what.Config))
		}
	}
	return all
}

// entry is an entry of a node that changes one file.
func entry(by replication.Applier, file, content string) *messages.LogEntry {
	return &messages.LogEntry{Origin: by.Node, Incarnation: by.Incarnation, Number: 1, Changes: replication.WriteChanges(&messages.WriteFiles{
		Files: []*messages.FileWrite{{Path: file, Content: []byte(content)}}})}
}

func renaming(by replication.Applier, from, to string) *messages.LogEntry {
	return &messages.LogEntry{Origin: by.Node, Incarnation: by.Incarnation, Number: 1, Changes: replication.RenameChanges(&messages.MoveFiles{
		Files: []*messages.MoveFile{{Op: "test", From: from, To: to}}})}
}

func removing(by replication.Applier, file string) *messages.LogEntry {
	return &messages.LogEntry{Origin: by.Node, Incarnation: by.Incarnation, Number: 1, Changes: replication.RemoveChanges(&messages.RemoveFiles{
		Op: "test", Paths: []string{file}})}
}

// lockOf is a job process's livelock.
func lockOf(id int64) string { return "/run/livelocks/" + paths.JobLivelockNameStart(id) + "_100" }

// jobIn is a job with a process, whose only opcode has that status.
func jobIn(id int64, status job.Status) string {
	j := job.New(job.ID(id), []json.RawMessage{json.RawMessage(`{"OP_ID": "OP_TEST_DELAY", "duration": 1.0}`)}, []int{0}, job.Timestamp{Sec: 1}, lockOf(id))
	j.Ops[0].Status = status
	if status.Final() {
		j.End = job.Timestamp{Sec: 9}
	}
	return string(job.Encode(j))
}

func (b *bench) content(file string) string { b.Settle(); return b.disk.Content(file) }

package logconformance

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"lockstep/actors/replicator"
	"lockstep/messages"
)

type suite struct {
	*testing.T
	cluster  Cluster
	world    *world
	apps     map[string]*app
	number   uint64
	proposed []proposed
}

type proposed struct {
	number uint64
	by     *app
	entry  string
}

// add starts a node that has these files.
func (s *suite) add(name string, founder bool, files map[string]string) *app {
	a := &app{name: name, world: s.world, budget: -1, files: map[string]string{}, marks: map[uint64]mark{},
		refused: map[uint64]*messages.LogRefused{}, changed: map[uint64]*messages.LogChanged{}}
	maps.Copy(a.files, files)
	s.apps[name] = a
	s.start(name, founder)
	return a
}

func (s *suite) start(name string, founder bool) {
	a := s.apps[name]
	node := s.cluster.Start(name, Options{Founder: founder, Files: a.copy})
	s.world.mu.Lock()
	s.world.running[name] = node
	s.world.mu.Unlock()
	a.mu.Lock()
	a.node = node
	a.mu.Unlock()
	s.attach(a)
}

// attach has a new actor be told the news.
func (s *suite) attach(a *app) {
	a.mu.Lock()
	a.attached++
	a.held, a.first, a.parts = nil, 0, 0
	a.leads, a.leader, a.members = false, "", nil
	number := a.attached
	a.mu.Unlock()
	a.pid = a.node.Spawn(&listener{app: a, number: number})
	a.node.Log.Attach(a.pid, uint32(number))
}

func (s *suite) stop(name string) {
	a := s.apps[name]
	a.mu.Lock()
	a.attached++ // what comes now comes too late
	a.leads = false
	a.mu.Unlock()
	s.world.mu.Lock()
	delete(s.world.running, name)
	s.world.mu.Unlock()
	s.cluster.Stop(name)
}

func (s *suite) wipe(name string) {
	a := s.apps[name]
	s.cluster.Wipe(name)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.files, a.at, a.marks, a.restored = map[string]string{}, mark{}, map[uint64]mark{}, 0
}

// hold has the application take n more entries, or parts of a snapshot, and then none.
func (s *suite) hold(a *app, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.budget = n
}

func (s *suite) release(a *app) {
	s.hold(a, -1)
	a.node.Tell(a.pid, goOn{})
}

func (s *suite) until(what string, a *app, done func(*app) bool) {
	s.Helper()
	s.cluster.Until(a.name+": "+what, func() bool { return a.see(done) })
}

// leader waits for one of these nodes to lead, with its lease; of all if none is named.
func (s *suite) leader(among ...*app) *app {
	s.Helper()
	if len(among) == 0 {
		for _, name := range slices.Sorted(maps.Keys(s.apps)) {
			among = append(among, s.apps[name])
		}
	}
	var leads *app
	s.cluster.Until("one leads", func() bool {
		for _, a := range among {
			if a.see(func(a *app) bool { return a.leads }) && a.node.Log.Leads() {
				leads = a
				return true
			}
		}
		return false
	})
	return leads
}

// three is a cluster of three voters. Each has a vote only when it has the log: else
// the others need it, and it does not know them.
func (s *suite) three() (leader *app, others []*app) {
	s.Helper()
	s.add("n1", true, nil)
	s.put(1)
	for _, name := range []string{"n2", "n3"} {
		s.add(name, false, nil)
		s.join(name, messages.ChangeNodes_ADD_NONVOTER)
		s.agree()
		s.join(name, messages.ChangeNodes_ADD_VOTER)
	}
	s.put(1)
	s.agree()
	leader = s.leader()
	for _, name := range []string{"n1", "n2", "n3"} {
		if s.apps[name] != leader {
			others = append(others, s.apps[name])
		}
	}
	return leader, others
}

func (s *suite) join(name string, how messages.ChangeNodes_What) {
	s.Helper()
	s.succeed(replicator.Change{What: how, Name: name, Address: s.cluster.Address(name)})
}

// change is what becomes of a change of membership.
func (s *suite) change(at *app, c replicator.Change) *messages.LogChanged {
	s.Helper()
	s.number++
	number := s.number
	at.node.Log.Change(number, c)
	var answer *messages.LogChanged
	s.until("the change is answered", at, func(a *app) bool {
		answer = a.changed[number]
		return answer != nil
	})
	return answer
}

// succeed makes a change, by whoever leads; that may be another one meanwhile.
func (s *suite) succeed(c replicator.Change) {
	s.Helper()
	var last string
	for range 5 {
		answer := s.change(s.leader(), c)
		if answer.Failure == nil {
			return
		}
		last = answer.Failure.Text
	}
	s.Fatalf("%v %s: %s", c.What, c.Name, last)
}

// propose offers an entry that writes a file.
func (s *suite) propose(at *app, path, content string) proposed {
	s.number++
	entry, err := proto.Marshal(&messages.LogEntry{Origin: at.name, Run: s.Name(), Number: s.number,
		Changes: []*messages.FileChange{{What: &messages.FileChange_Update{
			Update: &messages.FileUpdate{Path: path, Content: []byte(content)}}}}})
	require.NoError(s, err)
	p := proposed{number: s.number, by: at, entry: string(entry)}
	s.proposed = append(s.proposed, p)
	at.node.Log.Propose(p.number, entry)
	return p
}

func (p proposed) refusal() *messages.LogRefused {
	p.by.mu.Lock()
	defer p.by.mu.Unlock()
	return p.by.refused[p.number]
}

// put proposes entries, by whoever leads, until so many more are committed.
func (s *suite) put(n int) {
	s.Helper()
	for n > 0 {
		leader := s.leader()
		wave := make([]proposed, 0, n)
		for range n {
			path := fmt.Sprintf("queue/job-%d", len(s.proposed)%23)
			wave = append(wave, s.propose(leader, path, fmt.Sprintf("%s writes %d", leader.name, len(s.proposed))))
		}
		s.cluster.Until("the entries are committed or refused", func() bool {
			return !slices.ContainsFunc(wave, func(p proposed) bool { return !s.world.has(p.entry) && p.refusal() == nil })
		})
		for _, p := range wave {
			if s.world.has(p.entry) {
				n--
			}
		}
	}
}

// agree waits until these nodes have the same, and all; all nodes if none is named.
func (s *suite) agree(among ...*app) {
	s.Helper()
	if len(among) == 0 {
		for _, name := range slices.Sorted(maps.Keys(s.apps)) {
			among = append(among, s.apps[name])
		}
	}
	s.cluster.Until("all nodes agree", func() bool {
		s.world.mu.Lock()
		last := s.world.last
		s.world.mu.Unlock()
		files, at := among[0].copy(), mark{}
		among[0].see(func(a *app) bool { at = a.at; return true })
		for _, a := range among {
			if !maps.Equal(files, a.copy()) || !a.see(func(a *app) bool { return a.at == at && a.at.index >= last }) {
				return false
			}
		}
		return true
	})
}

// verdict fails the test if anything was wrong at any time.
func (s *suite) verdict() {
	s.world.mu.Lock()
	wrong := s.world.wrong
	s.world.mu.Unlock()
	for _, p := range s.proposed {
		if r := p.refusal(); r != nil && !r.Unknown && s.world.has(p.entry) {
			wrong = append(wrong, fmt.Sprintf("%s: %d was refused for certain and is committed", p.by.name, p.number))
		}
	}
	require.Empty(s, wrong)
}

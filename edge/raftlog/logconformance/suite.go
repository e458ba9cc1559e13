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
	cluster      Cluster
	oracle       *oracle
	applications map[string]*application
	number       uint64
	proposals    []proposal
}

type proposal struct {
	number uint64
	by     *application
	entry  string
}

// add starts a new node with these files. founder: it begins the cluster.
func (s *suite) add(name string, founder bool, files map[string]string) *application {
	a := &application{name: name, oracle: s.oracle, budget: -1, files: map[string]string{}, positions: map[uint64]position{},
		refused: map[uint64]*messages.LogRefused{}, changed: map[uint64]*messages.LogChangeResult{}}
	maps.Copy(a.files, files)
	s.applications[name] = a
	s.start(name, founder)
	return a
}

func (s *suite) start(name string, founder bool) {
	a := s.applications[name]
	node := s.cluster.Start(name, Options{Founder: founder, Files: a.copyFiles})
	s.oracle.mu.Lock()
	s.oracle.running[name] = node
	s.oracle.mu.Unlock()
	a.mu.Lock()
	a.node = node
	a.mu.Unlock()
	s.attach(a)
}

// attach attaches a new actor to the log of the node. What the former one has not taken is dropped.
func (s *suite) attach(a *application) {
	a.mu.Lock()
	a.attachments++
	a.queued, a.firstIndex, a.partsReceived = nil, 0, 0
	a.leads, a.leader, a.members = false, "", nil
	number := a.attachments
	a.mu.Unlock()
	a.pid = a.node.Spawn(&attachment{application: a, sequence: number})
	a.node.Log.Attach(a.pid, uint32(number))
}

func (s *suite) stop(name string) {
	a := s.applications[name]
	a.mu.Lock()
	a.attachments++ // messages for the former attachment are ignored
	a.leads = false
	a.mu.Unlock()
	s.oracle.mu.Lock()
	delete(s.oracle.running, name)
	s.oracle.mu.Unlock()
	s.cluster.Stop(name)
}

func (s *suite) wipe(name string) {
	a := s.applications[name]
	s.cluster.Wipe(name)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.files, a.position, a.positions, a.restored = map[string]string{}, position{}, map[uint64]position{}, 0
}

// setBudget lets the application take n more entries or parts of a snapshot, and no more after
// them.
func (s *suite) setBudget(a *application, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.budget = n
}

func (s *suite) liftBudget(a *application) {
	s.setBudget(a, -1)
	a.node.Tell(a.pid, resume{})
}

func (s *suite) until(what string, a *application, done func(*application) bool) {
	s.Helper()
	s.cluster.Until(a.name+": "+what, func() bool { return a.inspect(done) })
}

// leader waits until one of these nodes leads with a valid lease; without arguments, any node.
func (s *suite) leader(among ...*application) *application {
	s.Helper()
	var leads *application
	s.cluster.Until("one leads", func() bool {
		leads = s.leading(among...)
		return leads != nil
	})
	return leads
}

// leading is the one of these nodes that leads at this moment with a valid lease, without arguments of all; nil: none does.
func (s *suite) leading(among ...*application) *application {
	if len(among) == 0 {
		for _, name := range slices.Sorted(maps.Keys(s.applications)) {
			among = append(among, s.applications[name])
		}
	}
	for _, a := range among {
		if a.inspect(func(a *application) bool { return a.leads }) && a.node.Log.Leads() {
			return a
		}
	}
	return nil
}

// threeVoters makes a cluster of three voters. A node gets its vote only when it has the
// log: earlier, the cluster would need its vote before the node knows the members.
func (s *suite) threeVoters() (leader *application, others []*application) {
	s.Helper()
	s.add("n1", true, nil)
	s.commit(1)
	for _, name := range []string{"n2", "n3"} {
		s.add(name, false, nil)
		s.join(name, messages.ChangeNodes_ADD_NONVOTER)
		s.awaitAgreement()
		s.join(name, messages.ChangeNodes_ADD_VOTER)
	}
	s.commit(1)
	s.awaitAgreement()
	leader = s.leader()
	for _, name := range []string{"n1", "n2", "n3"} {
		if s.applications[name] != leader {
			others = append(others, s.applications[name])
		}
	}
	return leader, others
}

func (s *suite) join(name string, role messages.ChangeNodes_What) {
	s.Helper()
	s.mustChange(replicator.Change{What: role, Name: name, Address: s.cluster.Address(name)})
}

// change makes a change of membership, waits for its end and returns its result.
func (s *suite) change(at *application, c replicator.Change) *messages.LogChangeResult {
	s.Helper()
	number := s.order(at, c)
	var answer *messages.LogChangeResult
	s.until("the change is answered", at, func(a *application) bool {
		answer = a.changed[number]
		return answer != nil
	})
	return answer
}

// order asks a node for a change, and does not wait for its end.
func (s *suite) order(at *application, c replicator.Change) (number uint64) {
	s.number++
	at.node.Log.Change(s.number, c)
	return s.number
}

// mustChange makes a change at the leader, and repeats it until it is in force. A node that loses the leadership meanwhile answers with a
// failure, and the change may be committed all the same.
func (s *suite) mustChange(c replicator.Change) {
	s.Helper()
	var at *application
	var number uint64
	s.cluster.Until(fmt.Sprintf("%v %s is done", c.What, c.Name), func() bool {
		if at == nil {
			if at = s.leading(); at != nil {
				number = s.order(at, c)
			}
			return false
		}
		var answer *messages.LogChangeResult
		at.inspect(func(a *application) bool { answer = a.changed[number]; return true })
		switch {
		case answer == nil:
			return false
		case answer.Failure == nil || s.isInForce(c, at):
			return true
		}
		s.Logf("%s: %s", at.name, answer.Failure.Text)
		at = nil
		return false
	})
}

// isInForce reports whether the present leader has a change that another node has made, or the former leader was asked for.
func (s *suite) isInForce(c replicator.Change, former *application) bool {
	leader := s.leading()
	return leader != nil && leader.inspect(func(a *application) bool {
		address, isMember := a.members[c.Name]
		switch c.What {
		case messages.ChangeNodes_ADD_NONVOTER:
			return isMember
		case messages.ChangeNodes_ADD_VOTER:
			return address == "+"+c.Address
		case messages.ChangeNodes_REMOVE:
			return !isMember && len(a.members) > 0
		case messages.ChangeNodes_TRANSFER:
			return a.name == c.Name || c.Name == "" && a != former
		}
		return false
	})
}

// propose proposes an entry that writes a file, and does not wait for its end.
func (s *suite) propose(at *application, path, content string) proposal {
	s.number++
	entry, err := proto.Marshal(&messages.LogEntry{Origin: at.name, Incarnation: s.Name(), Number: s.number,
		Changes: []*messages.FileChange{{What: &messages.FileChange_Update{
			Update: &messages.FileUpdate{Path: path, Content: []byte(content)}}}}})
	require.NoError(s, err)
	p := proposal{number: s.number, by: at, entry: string(entry)}
	s.proposals = append(s.proposals, p)
	at.node.Log.Propose(p.number, entry)
	return p
}

func (p proposal) refusal() *messages.LogRefused {
	p.by.mu.Lock()
	defer p.by.mu.Unlock()
	return p.by.refused[p.number]
}

// commit proposes entries at the leader until n more are committed. Refused ones are replaced by others.
func (s *suite) commit(n int) {
	s.Helper()
	for n > 0 {
		leader := s.leader()
		wave := make([]proposal, 0, n)
		for range n {
			path := fmt.Sprintf("queue/job-%d", len(s.proposals)%23)
			wave = append(wave, s.propose(leader, path, fmt.Sprintf("%s writes %d", leader.name, len(s.proposals))))
		}
		s.cluster.Until("the entries are committed or refused", func() bool {
			return !slices.ContainsFunc(wave, func(p proposal) bool { return !s.oracle.has(p.entry) && p.refusal() == nil })
		})
		for _, p := range wave {
			if s.oracle.has(p.entry) {
				n--
			}
		}
	}
}

// awaitAgreement waits until these nodes, or all, have the same entries and files.
func (s *suite) awaitAgreement(among ...*application) {
	s.Helper()
	if len(among) == 0 {
		for _, name := range slices.Sorted(maps.Keys(s.applications)) {
			among = append(among, s.applications[name])
		}
	}
	s.cluster.Until("all nodes agree", func() bool {
		s.oracle.mu.Lock()
		last := s.oracle.last
		s.oracle.mu.Unlock()
		files, at := among[0].copyFiles(), position{}
		among[0].inspect(func(a *application) bool { at = a.position; return true })
		for _, a := range among {
			if !maps.Equal(files, a.copyFiles()) || !a.inspect(func(a *application) bool { return a.position == at && a.position.index >= last }) {
				return false
			}
		}
		return true
	})
}

// reportViolations fails the test if the oracle has found a violation.
func (s *suite) reportViolations() {
	s.oracle.mu.Lock()
	wrong := s.oracle.violations
	s.oracle.mu.Unlock()
	for _, p := range s.proposals {
		if r := p.refusal(); r != nil && !r.Unknown && s.oracle.has(p.entry) {
			wrong = append(wrong, fmt.Sprintf("%s: %d was refused for certain and is committed", p.by.name, p.number))
		}
	}
	require.Empty(s, wrong)
}

// Package queuecopy decides which master candidate of a Ganeti cluster is sent which part of the queue, and when (noded.md 7
// and 8).
//
// A Tracker is told of each change of a file of the queue, of the jobs that a process of Ganeti runs, and of the result of each
// call. It keeps no contents: a call sends what the file has at the time of the call, so that a candidate gets the newest state
// of each file and skips the states before. For each candidate it keeps the units that the candidate may lack, and makes up to callsMax
// calls at a time, with a unit in one of them at most: the states of one file arrive in their order.
//
// The serial of a candidate runs ahead of this node's, by serialAhead at most, so that few jobs wait for its call. No job is sent whose id
// is above it. An orderly stop sends the exact one (Stop). After a failover without such a stop the ids have a gap.
//
// Ganeti's job process sends the file of its job itself. While it runs, the daemon sends this file only if it has not changed for
// some time and the candidate has another content. Two senders can overtake each other, so the tracker compares the file again
// some time after the last moment at which a former sender could have a call in progress: Settle after the end of a process,
// after a failed call, and after a call during which a process has begun or the file has changed.
//
// A candidate that is new, comes back online, has failed for AwayMin, or is met by a new Tracker is compared from the newest job
// id down to the first one (a sweep). So a candidate also loses live files of jobs that are archived here.
//
// A Tracker survives no crash: a new one compares everything. Pure.
package queuecopy

import (
	"slices"
	"time"

	"lockstep/core/noded"
)

const (
	// Settle is longer than a node daemon waits for the lock of its queue: a call whose client is gone has no effect after this
	// time (noded.md 5).
	Settle = 12 * time.Second
	// AwayMin is the time of failures after which a candidate is compared from the beginning.
	AwayMin = time.Minute
	// StopMax bounds the calls of an orderly stop.
	StopMax = 2 * time.Second

	retryFirst   = time.Second // pause after the first failure; it doubles with each further one
	retryMax     = 30 * time.Second
	runningPause = time.Minute // between two comparisons of the jobs that run
	sweepPause   = 200 * time.Millisecond

	callsMax = 4 // in progress with one candidate
	// calm is how long after a question for an answer there is one call at a time that no answer waits for: a node daemon makes a process
	// for each call, and each of them would take time from those that answers wait for.
	calm        = time.Second
	serialAhead = 200 // ids; half of them are left when the next ones are sent

	checkMax  = 250    // units of one comparison: two paths each (noded.md 8.3)
	renameMax = 100    // jobs of one rename
	marksMax  = 50_000 // units that a candidate may lack; with more of them it is compared from the beginning
)

// Op says what a call does: ask for the name of the master, send a file, rename files into the archive, or ask for digests.
type Op uint8

const (
	// AskMaster asks the candidate for the name of the master.
	AskMaster Op = iota
	// Update sends the present state of one unit; of a job, its live file.
	Update
	// Refill sends the archived file of one job to the place of its live file. Archive follows.
	Refill
	// Archive renames the live files of jobs into the archive.
	Archive
	// Check asks for the digests of jobs' files.
	Check
)

// String is the name of the operation for the log.
func (o Op) String() string {
	return [...]string{"ask-master", "update", "refill", "archive", "check"}[o]
}

// Call is a call of a node daemon that the caller of Next must make, and whose end it reports by Done.
type Call struct {
	Number uint64 // for Done
	Node   noded.Node
	Op     Op
	Units  []Unit // one for Update and Refill
	// Least and Ahead are for Update of Serial, see SerialToSend.
	Least, Ahead int64

	sweep bool // a part of a sweep
}

// SerialToSend is what Update of Serial sends if this node's serial is recorded.
func (c Call) SerialToSend(recorded int64) int64 { return max(recorded, c.Least) + c.Ahead }

// Tracker decides which files of the queue are sent to which master candidate and when, and which answers may leave. Its methods are not
// safe for concurrent use. Times do not fall from call to call. The caller calls Next after the other methods.
type Tracker struct {
	acknowledge Acknowledge
	master      string // name of this node
	peers       []*peer
	calls       map[uint64]*flight
	lastCall    uint64
	serial      Unit // the newest job id that is known; below 0: none
	running     map[Unit]bool
	awaits      []*await
	calmAt      time.Time // see calm
	stopBy      time.Time // the end of an orderly stop at the latest; zero: there is none
}

// peer is a master candidate other than this node, with what it may lack of the queue and the calls to it in progress.
type peer struct {
	Node
	gone    bool // no longer a candidate; its calls are in progress
	known   bool // names this node as the master since the last failure
	behind  bool // answers do not wait for it
	serial  Unit // that it has been sent; below 0: none. No job above it is sent
	marks   map[Unit]mark
	order   []ordered // of the marks whose units are in no call, oldest first, and stale entries
	awaited []ordered // the same of the marks that answers wait for
	seq     uint64
	due     []dueCheck // by time
	checks  time.Time  // the next comparison of the jobs that run

	flights []*flight
	inCall  map[Unit]*flight
	sweep   sweep

	epoch        uint64 // number of failures, without those of calls that were in progress at a failure
	failures     int    // in a row
	failingSince time.Time
	err          error
	failedAt     time.Time
	retryAt      time.Time

	copied uint64
	lags   lags
}

// flight is a call to a candidate that has not been answered.
type flight struct {
	Call
	peer  *peer
	taken map[Unit]mark // of its units
	epoch uint64        // of the peer, at the begin
}

// need is what is to be done about a unit that a candidate may lack.
type need uint8

const (
	update need = iota
	refill
	archive
	check
)

// mark says that a candidate may lack a unit.
type mark struct {
	need  need
	since time.Time // of the oldest change that the candidate may lack
	seq   uint64
	// awaits are the answers that wait for the unit, and some that no longer do. A mark that is awaited is dropped only when the candidate
	// has the unit.
	awaits []*await
}

func (m mark) isAwaited() bool { return len(open(m.awaits)) > 0 }

type ordered struct {
	unit Unit
	seq  uint64
}

type dueCheck struct {
	unit Unit
	at   time.Time
}

// sweep is the comparison of all jobs.
type sweep struct {
	// sweep is the comparison of all jobs with a candidate, from the newest down, a part at a time.
	at    time.Time // the next part; zero: no sweep is wanted
	next  Unit      // the newest job that it has not compared
	begun bool      // next is valid
	// inCall: a part of this sweep, or of the one that it has replaced, is in progress.
	inCall bool
	since  time.Time // when it became necessary
}

// Node is a master candidate to which the queue is copied.
type Node struct{ UUID, Name, Address string }

// New returns a Tracker, which decides what of the queue is sent to which candidate. It has none before SetNodes.
func New(a Acknowledge) *Tracker {
	return &Tracker{acknowledge: a, calls: map[uint64]*flight{}, running: map[Unit]bool{}, serial: -1}
}

// SetNodes says to which candidates the queue is copied from now on: those that are online, without this node, which has the name master.
func (t *Tracker) SetNodes(now time.Time, master string, nodes []Node) {
	if master != t.master {
		for _, p := range t.peers {
			p.known = false
		}
	}
	t.master = master
	old := t.peers
	t.peers = nil
	for _, n := range nodes {
		i := slices.IndexFunc(old, func(p *peer) bool { return p.Node == n })
		if i < 0 {
			t.peers = append(t.peers, newPeer(now, n))
			continue
		}
		t.peers = append(t.peers, old[i])
	}
	for _, p := range old {
		p.gone = !slices.Contains(t.peers, p)
	}
	slices.SortFunc(t.peers, func(a, b *peer) int {
		if a.UUID < b.UUID {
			return -1
		}
		return 1
	})
}

func newPeer(now time.Time, n Node) *peer {
	p := &peer{Node: n, marks: map[Unit]mark{}, inCall: map[Unit]*flight{}}
	p.compareAll(now, now.Add(Settle))
	return p
}

// compareAll plans a sweep, whose first part is due at the time at. It also marks the serial, the drain mark and the pause, so that the
// next calls send them to the candidate. A former sweep is dropped.
func (p *peer) compareAll(now, at time.Time) {
	p.sweep, p.serial = sweep{at: at, since: now, inCall: p.sweep.inCall}, -1
	for _, u := range []Unit{Serial, Drain, Pause} {
		p.put(u, update, now)
	}
}

// put marks a unit that the candidate may lack, with what is to be done about it. If a mark wants something else already, the unit is
// compared first. With marksMax marks a sweep takes the place of those that no answer waits for.
func (p *peer) put(u Unit, n need, since time.Time, awaits ...*await) {
	m, marked := p.marks[u]
	if !marked {
		if u.IsJob() && len(p.marks) >= marksMax && len(awaits) == 0 {
			p.overflow(since)
			return
		}
		p.seq++
		m = mark{need: n, since: since, seq: p.seq}
	}
	if m.need != n {
		m.need = check
	}
	if since.Before(m.since) {
		m.since = since
	}
	m.awaits = append(open(m.awaits), open(awaits)...)
	p.marks[u] = m
	if _, inCall := p.inCall[u]; inCall {
		return // the end of the call puts it in order
	}
	if !marked {
		p.order = append(p.order, ordered{u, m.seq})
	}
	if len(awaits) > 0 {
		p.awaited = append(p.awaited, ordered{u, m.seq})
	}
}

// overflow replaces the marks of jobs by a sweep, without those that answers wait for.
func (p *peer) overflow(now time.Time) {
	since := now
	for u, m := range p.marks {
		if !u.IsJob() || m.isAwaited() {
			continue
		}
		if m.since.Before(since) {
			since = m.since
		}
		delete(p.marks, u)
	}
	p.order = slices.DeleteFunc(p.order, func(o ordered) bool { return !p.isMarked(o) })
	p.sweep = sweep{at: now, since: since, inCall: p.sweep.inCall}
}

// later compares a unit, or sends what is no job again, when calls of other senders have ended.
func (p *peer) later(now time.Time, u Unit) {
	p.due = append(p.due, dueCheck{u, now.Add(Settle)})
}

// Changed says that this daemon has written or removed files below the data directory. Of a file that it has moved only the new path
// is given.
func (t *Tracker) Changed(now time.Time, files []string) {
	for _, file := range files {
		u, archived, ok := UnitOf(file)
		if !ok {
			continue
		}
		t.serial = max(t.serial, u)
		for _, p := range t.peers {
			t.reserve(now, p)
			switch {
			case u == Serial: // it runs ahead
			case t.running[u]:
				p.later(now, u)
			case archived:
				p.archived(u, now)
			default:
				p.put(u, update, now)
			}
		}
	}
}

// reserve has the candidate's serial sent if few ids are left up to it.
func (t *Tracker) reserve(now time.Time, p *peer) {
	if t.stopBy.IsZero() && p.serial < t.serial+serialAhead/2 {
		p.put(Serial, update, now)
	}
}

// Stop says that no more jobs come. The candidates that answer get the exact serial (Decision.Stopped).
func (t *Tracker) Stop(now time.Time) {
	if !t.stopBy.IsZero() {
		return
	}
	t.stopBy = now.Add(StopMax)
	for _, p := range t.peers {
		p.put(Serial, update, now)
	}
}

// archived marks a job whose file was moved. A candidate that has the live file renames it; one that may lack it is asked.
func (p *peer) archived(u Unit, now time.Time) {
	_, inCall := p.inCall[u]
	if _, marked := p.marks[u]; marked || inCall || !p.sweep.at.IsZero() {
		p.put(u, check, now)
		return
	}
	p.put(u, archive, now)
}

// ProcessBegan says that from now on a process of Ganeti writes and sends the file of a job.
func (t *Tracker) ProcessBegan(now time.Time, id int64) {
	u := Unit(id)
	t.running[u] = true
	for _, p := range t.peers {
		m, marked := p.marks[u]
		_, inCall := p.inCall[u]
		if marked && !m.isAwaited() { // else the client is told that the candidate has the job
			delete(p.marks, u)
		}
		if marked || inCall {
			p.later(now, u)
		}
	}
}

// ProcessEnded says that the process of a job is gone. The job need not be known to have had one.
func (t *Tracker) ProcessEnded(now time.Time, id int64) {
	u := Unit(id)
	if !t.running[u] {
		return
	}
	delete(t.running, u)
	for _, p := range t.peers {
		p.put(u, check, now)
		p.later(now, u)
	}
}

package raftlog

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/raft"

	"lockstep/actors/replicator"
	"lockstep/messages"
)

// Log is a node's consensus log on hashicorp/raft: the replicator.Log of a real node.
type Log struct {
	config            Config
	store             *logStore
	formerCommand     uint64 // index of the last proposal in the log when it was opened; 0: none
	streams           *streamTracker
	transport         *transport // when raft runs
	lease             *lease
	times             *electionTimes
	bridge            *bridge
	fsm               *fsm
	proposals         *proposals
	membershipChanges *membershipChanges

	raft       atomic.Pointer[raft.Raft] // nil until it runs
	announcer  *announcer
	leadership chan bool     // from raft: this node begins or ceases to lead
	refresh    chan struct{} // the leader or the membership may have changed; capacity 1

	electionsWon chan uint64   // number of an election won: catchUp must run; capacity 1
	reattached   chan struct{} // another actor is attached to the leader: as after an election won; capacity 1
	caughtUp     chan election // the election after which everything is applied

	closing     chan struct{}  // closed at the beginning of Close
	raftStopped chan struct{}  // closed when raft has ended
	waiters     sync.WaitGroup // goroutines that wait for raft's answers
	starting    sync.WaitGroup // the goroutine that starts raft
	observing   sync.WaitGroup
	close       func() error // runs shutdown once
}

var _ replicator.Log = (*Log)(nil)

// Open opens the log of a node, or creates it. Raft starts later, after two waits. The first
// is as long as a promise not to vote that this node may have given to a leader before its
// restart. The second is for a received snapshot that is not applied yet: an actor must be
// attached and apply it.
func Open(config Config) (*Log, error) {
	if err := config.normalize(); err != nil {
		return nil, err
	}
	store, err := openLogStore(&config)
	if err != nil {
		return nil, err
	}
	bootstrapped, err := store.bootstrap(&config)
	if err == nil {
		err = store.repair()
	}
	var members []*messages.Member
	if err == nil {
		members, err = store.members()
	}
	if err != nil {
		return nil, errors.Join(err, store.close())
	}
	l := newLog(config, store)
	if l.formerCommand, err = store.lastCommand(); err != nil {
		return nil, errors.Join(err, store.close())
	}
	l.bridge.setMembers(members)
	l.startGoroutines(bootstrapped)
	return l, nil
}

func newLog(config Config, store *logStore) *Log {
	l := &Log{
		config: config, store: store, streams: newStreamTracker(&config), bridge: newBridge(config.System),
		leadership: make(chan bool, 64), refresh: make(chan struct{}, 1),
		electionsWon: make(chan uint64, 1), reattached: make(chan struct{}, 1), caughtUp: make(chan election),
		closing: make(chan struct{}), raftStopped: make(chan struct{}),
	}
	l.lease, l.times, l.announcer = newLease(&config, l.voters), newElectionTimes(&config), newAnnouncer(&config, l.voters)
	l.fsm = &fsm{
		bridge:       l.bridge,
		snapshots:    l.store.snapshots,
		sync:         newSyncer(&l.config).do,
		noting:       config.Noting,
		onMembership: l.requestRefresh,
		announce:     l.announce,
	}
	l.store.snapshots.renew = l.renewSnapshot
	l.proposals = newProposals(l, 5*config.Timing.Heartbeat)
	l.membershipChanges = newMembershipChanges(l)
	l.close = sync.OnceValue(l.shutdown)
	if n, found := l.store.snapshots.newest(); found {
		l.bridge.setAppState(n.Index, n.State)
	}
	return l
}

// startGoroutines starts the goroutines of the log, among them the one that starts raft. bootstrapped says that the log is new.
func (l *Log) startGoroutines(bootstrapped bool) {
	go l.bridge.run()
	l.waiters.Go(l.proposals.submitLoop)
	l.waiters.Go(l.proposals.awaitResults)
	l.waiters.Go(l.membershipChanges.run)
	l.waiters.Go(l.catchUp)
	l.observing.Go(l.observe)
	l.starting.Go(func() {
		if err := l.startRaft(bootstrapped); err != nil && !errors.Is(err, errClosed) {
			l.config.Log.WithField("err", err).Error("start of the consensus log failed")
			l.config.Failed(err)
		}
	})
	l.waiters.Go(l.watchLeader) // waits for the one before
}

// startRaft starts raft after the waits described at Open: a received snapshot is restored first, and any lease of this node must be
// over. It returns errClosed if the log is closed meanwhile.
func (l *Log) startRaft(bootstrapped bool) error {
	if _, pending := l.store.snapshots.pending(); pending {
		if err := l.fsm.Restore(nil); err != nil {
			return err
		}
	}
	if !bootstrapped {
		select {
		case <-time.After(l.config.Timing.Lease):
		case <-l.closing:
			return errClosed
		}
	}
	conf := l.config.raftConfig(l.leadership)
	l.transport = newTransport(&l.config, l.streams, l.lease, newPeerBackoff(l.closing), l.term, l.followsLeader, l.times.follow, conf.Logger)
	l.transport.onAccepted = l.announcer.accepted
	r, err := raft.NewRaft(conf, l.fsm, l.store.wal, l.store.wal, l.store.snapshots, l.transport)
	if err != nil {
		return errors.Join(fmt.Errorf("starting raft: %w", err), l.transport.Close())
	}
	l.raft.Store(r)
	l.times.start(r)
	r.RegisterObserver(raft.NewObserver(nil, false, func(*raft.Observation) bool {
		l.requestRefresh()
		return false
	}))
	l.requestRefresh()
	return nil
}

// term returns raft's current term, 0 before raft runs.
func (l *Log) term() uint64 {
	if r := l.raft.Load(); r != nil {
		return r.CurrentTerm()
	}
	return 0
}

// State returns the current term, and the index of the last entry that is known to be committed; 0 before raft runs.
func (l *Log) State() (term, committed uint64) {
	if r := l.raft.Load(); r != nil {
		return r.CurrentTerm(), r.CommitIndex()
	}
	return 0, 0
}

// Written returns the number of entries that were added to this node's log since Open, and of the appends that they took. Entries that
// arrive together share one append, and so one sync and one message to each other node.
func (l *Log) Written() (entries, appends uint64) { return l.store.written() }

func (l *Log) followsLeader(leader raft.ServerID, term uint64) bool {
	r := l.raft.Load()
	if r == nil || r.State() != raft.Follower || r.CurrentTerm() != term {
		return false
	}
	_, id := r.LeaderWithID()
	return id == leader
}

func (l *Log) requestRefresh() {
	select {
	case l.refresh <- struct{}{}:
	default:
	}
}

// Attach sends all further messages to this actor, see [replicator.Log]. What was not applied is sent again.
func (l *Log) Attach(to *actor.PID, incarnation uint32) {
	if l.bridge.attach(to, incarnation) {
		select {
		case l.reattached <- struct{}{}:
		default: // observe has not handled the last signal yet
		}
	}
}

// Propose proposes an entry. LogRefused is certain if raft has not written the entry.
func (l *Log) Propose(number uint64, entry []byte) { l.proposals.propose(number, entry) }

// Applied acknowledges that the entries up to that index are on the disk. The log keeps
// state; the caller must not change it.
func (l *Log) Applied(index uint64, state []byte) { l.bridge.advanceApplied(index, state) }

// Reapplied reports whether all entries that a former daemon of this node may have applied were applied again: those that
// were in the log when it was opened.
func (l *Log) Reapplied() bool {
	_, pending := l.store.snapshots.pending()
	return !pending && l.bridge.appliedIndex() >= l.formerCommand
}

// Restored acknowledges that this part of a snapshot is on the disk.
func (l *Log) Restored(part uint64) { l.bridge.markPartApplied(part) }

// Change changes the membership, or transfers the leadership.
func (l *Log) Change(number uint64, change replicator.Change) {
	l.membershipChanges.submit(number, change)
}

// Leads reports whether this node has sent LogLeadershipGained and its lease is valid.
func (l *Log) Leads() bool {
	r := l.raft.Load()
	return r != nil && r.State() == raft.Leader && l.lease.valid()
}

// SilentFor returns for how long this node, as the leader, has heard nothing from another one; 0: it does not lead, or that is unknown.
func (l *Log) SilentFor(node string) time.Duration { return l.lease.silentFor(raft.ServerID(node)) }

// Leader returns the name of the leader that this node knows; "": none.
func (l *Log) Leader() string {
	r := l.raft.Load()
	if r == nil {
		return ""
	}
	_, id := r.LeaderWithID()
	return string(id)
}

// Close ends the log. It refuses all proposals; the outcome of those that raft has is
// unknown. No message is sent to the actor afterwards. Close takes up to about two heartbeat
// timeouts, and up to two more if another node does not answer. Later calls do nothing.
func (l *Log) Close() error { return l.close() }

func (l *Log) shutdown() error {
	close(l.closing)
	l.lease.end()
	l.proposals.close()
	l.membershipChanges.close()
	// Raft leaves some requests unanswered when it is shut down, but answers before all
	// that it can. After the shutdown of the bridge no goroutine waits for the actor, and
	// raft can finish them.
	l.bridge.shutdown()
	l.starting.Wait()
	answered := make(chan struct{})
	go func() {
		l.waiters.Wait()
		close(answered)
	}()
	select {
	case <-answered:
	case <-time.After(l.config.Timing.Heartbeat):
	}
	var err error
	l.streams.closeAll()
	if r := l.raft.Load(); r != nil {
		err = r.Shutdown().Error() // which closes the listener
		l.transport.awaitHeartbeats()
	} else if err = l.config.Streams.Close(); errors.Is(err, net.ErrClosed) {
		err = nil
	}
	close(l.raftStopped)
	select {
	case <-answered:
	case <-time.After(2 * l.config.Timing.Heartbeat):
		l.config.Log.Warn("consensus log: raft stopped without an answer to some requests; their entries may or may not be committed")
	}
	l.observing.Wait()
	l.bridge.drain()
	return errors.Join(err, l.store.close())
}

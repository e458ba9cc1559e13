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

// Log is a node's consensus log.
type Log struct {
	config    Config
	disk      *disk
	streams   *streams
	transport *transport // when raft runs
	lease     *lease
	desk      *desk
	machine   *machine
	proposals *proposals
	changes   *changes

	raft   atomic.Pointer[raft.Raft] // nil until it runs
	notify chan bool                 // raft: this node leads, or does not any more
	look   chan struct{}             // the leader or the membership may be another; capacity 1

	elections chan uint64   // that were won, by number: this log is to catch up; capacity 1
	again     chan struct{} // as if one was won: another actor is attached; capacity 1
	led       chan election // it has

	stop     chan struct{}  // closed first of all
	halt     chan struct{}  // closed when raft has ended
	asking   sync.WaitGroup // goroutines that wait for raft's answers
	started  sync.WaitGroup // the goroutine that starts raft
	watching sync.WaitGroup
	close    func() error // once
}

var _ replicator.Log = (*Log)(nil)

// Open opens the log of a node, or makes it. Raft is started a little later: it waits
// for as long as this node, before it was restarted, may have promised a leader not
// to vote; and if a snapshot had been received whose files are not on the disk yet,
// until an actor is attached and has them.
func Open(config Config) (*Log, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	disk, err := openDisk(&config)
	if err != nil {
		return nil, err
	}
	founded, err := disk.found(&config)
	if err == nil {
		err = disk.mend()
	}
	var members []*messages.Member
	if err == nil {
		members, err = disk.members()
	}
	if err != nil {
		return nil, errors.Join(err, disk.close())
	}
	l := newLog(config, disk)
	l.desk.setMembers(members)
	l.begin(founded)
	return l, nil
}

func newLog(config Config, disk *disk) *Log {
	l := &Log{
		config: config, disk: disk, streams: newStreams(&config), desk: newDesk(config.System),
		notify: make(chan bool, 64), look: make(chan struct{}, 1),
		elections: make(chan uint64, 1), again: make(chan struct{}, 1), led: make(chan election),
		stop: make(chan struct{}), halt: make(chan struct{}),
	}
	l.lease = newLease(&config, l.voters)
	l.machine = &machine{desk: l.desk, snapshots: l.disk.snapshots, sync: config.Sync, membership: l.lookAgain}
	l.proposals = newProposals(l, 5*config.Timing.Heartbeat)
	l.changes = newChanges(l)
	l.close = sync.OnceValue(l.shut)
	if n, found := l.disk.snapshots.newest(); found {
		l.desk.remember(n.Index, n.State)
	}
	return l
}

// begin starts the goroutines. founded: this node has had no log until now.
func (l *Log) begin(founded bool) {
	go l.desk.run()
	l.asking.Go(l.proposals.hand)
	l.asking.Go(l.proposals.await)
	l.asking.Go(l.changes.run)
	l.asking.Go(l.catchUp)
	l.watching.Go(l.watch)
	l.started.Go(func() {
		if err := l.start(founded); err != nil && !errors.Is(err, errClosed) {
			l.config.Log.WithError(err).Error("replication cannot be started")
			l.config.Failed(err)
		}
	})
}

// start runs raft, when the time has come.
func (l *Log) start(founded bool) error {
	if _, pending := l.disk.snapshots.pending(); pending {
		if err := l.machine.Restore(nil); err != nil {
			return err
		}
	}
	if !founded {
		select {
		case <-time.After(l.config.Timing.Lease):
		case <-l.stop:
			return errClosed
		}
	}
	conf := l.config.raftConfig(l.notify)
	l.transport = newTransport(&l.config, l.streams, l.lease, newAbsence(l.stop), l.term, l.follows, conf.Logger)
	r, err := raft.NewRaft(conf, l.machine, l.disk.wal, l.disk.wal, l.disk.snapshots, l.transport)
	if err != nil {
		return errors.Join(fmt.Errorf("starting raft: %w", err), l.transport.Close())
	}
	l.raft.Store(r)
	r.RegisterObserver(raft.NewObserver(nil, false, func(*raft.Observation) bool {
		l.lookAgain()
		return false
	}))
	l.lookAgain()
	return nil
}

// term is raft's, 0 before it runs.
func (l *Log) term() uint64 {
	if r := l.raft.Load(); r != nil {
		return r.CurrentTerm()
	}
	return 0
}

func (l *Log) follows(leader raft.ServerID, term uint64) bool {
	r := l.raft.Load()
	if r == nil || r.State() != raft.Follower || r.CurrentTerm() != term {
		return false
	}
	_, id := r.LeaderWithID()
	return id == leader
}

func (l *Log) lookAgain() {
	select {
	case l.look <- struct{}{}:
	default:
	}
}

// Attach has all news go to this actor, see [replicator.Log].
func (l *Log) Attach(to *actor.PID, incarnation uint32) {
	if l.desk.attach(to, incarnation) {
		select {
		case l.again <- struct{}{}:
		default: // it is about to be looked at
		}
	}
}

// Propose offers an entry. LogRefused is certain where raft has not taken it in.
func (l *Log) Propose(number uint64, entry []byte) { l.proposals.propose(number, entry) }

// Applied says that the entries up to that index are on the disk. state is kept, and
// must not be changed afterwards.
func (l *Log) Applied(index uint64, state []byte) { l.desk.appliedTo(index, state) }

// Restored says that this part of a snapshot is on the disk.
func (l *Log) Restored(part uint64) { l.desk.restoredPart(part) }

// Change changes the membership, or hands the leadership over.
func (l *Log) Change(number uint64, change replicator.Change) { l.changes.enter(number, change) }

// Leads is whether this node has told LogLeads, and its lease lasts.
func (l *Log) Leads() bool {
	r := l.raft.Load()
	return r != nil && r.State() == raft.Leader && l.lease.valid()
}

// Leader is the name of the node that leads, as far as this one knows; "": none.
func (l *Log) Leader() string {
	r := l.raft.Load()
	if r == nil {
		return ""
	}
	_, id := r.LeaderWithID()
	return string(id)
}

// Close ends the log. Entries on their way are refused, those with raft as unknown;
// nothing is delivered any more. It takes up to about two heartbeat timeouts, and up
// to two more while another node does not answer at all. Only the first call does
// anything.
func (l *Log) Close() error { return l.close() }

func (l *Log) shut() error {
	close(l.stop)
	l.lease.end()
	l.proposals.close()
	l.changes.close()
	// Raft leaves some questions unanswered when it is shut down, but none that it
	// can answer before. So nothing waits for the actor now, and they come to an end.
	l.desk.release()
	l.started.Wait()
	asked := make(chan struct{})
	go func() {
		l.asking.Wait()
		close(asked)
	}()
	select {
	case <-asked:
	case <-time.After(l.config.Timing.Heartbeat):
	}
	var err error
	l.streams.end()
	if r := l.raft.Load(); r != nil {
		err = r.Shutdown().Error() // which closes the listener
		l.transport.end()
	} else if err = l.config.Streams.Close(); errors.Is(err, net.ErrClosed) {
		err = nil
	}
	close(l.halt)
	select {
	case <-asked:
	case <-time.After(2 * l.config.Timing.Heartbeat):
		l.config.Log.Warn("replication: raft has left questions unanswered")
	}
	l.watching.Wait()
	l.desk.end()
	return errors.Join(err, l.disk.close())
}

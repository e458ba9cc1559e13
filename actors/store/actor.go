// Package store is the actor in front of the disk.
//
// It owns every file below the data directory that the daemon writes, and the writer
// actors, which make the blocking calls. It writes, appends, reads, identifies, moves, removes and
// quarantines files, lists directories and scans the queue (messages.AccessStore). It sends
// answers, each after the disk has what the answer says, and tells one observer of changes.
//
// Nothing survives its crash: a new incarnation drops requests to the former one, and
// Client repeats them.
package store

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/messages"
)

// Files is the port to the disk below one data directory. Paths are relative to the data directory. op labels the caller's step, for
// errors and injected faults. persistence.OSFiles is the implementation; persistencetest tests the contract.
type Files interface {
	// Replace replaces the content of path: temporary file, write, fdatasync, rename. The
	// name survives power loss only after SyncDir. The content is data in parts.
	Replace(op, path string, data ...[]byte) error
	SyncDir(op, dir string) error
	// ReplaceUnsynced is Replace without the sync: after a power loss the file may have any content. The consensus log has it.
	ReplaceUnsynced(op, path string, data ...[]byte) error
	// Append adds data to the end of a file, or creates the file. The data may be lost with
	// the power. A failed Append may leave a part of the data.
	Append(op, path string, data []byte) error
	// AppendDurable is Append, and a sync of the file. If it creates the file, or the data is empty, it also syncs the
	// directory. An error with a method Unchanged that returns true says that the file is as it was, durably.
	AppendDurable(op, path string, data []byte) error
	// Identify returns a text that differs from an earlier one if the file has been written or
	// replaced since, by any program.
	Identify(op, path string) (string, error)
	Read(op, path string) ([]byte, error)
	// Rename creates the directory of to if it is missing.
	Rename(op, from, to string) error
	Remove(op, path string) error
	List(op, dir string) ([]string, error)
}

// Config has the disk and the clients of the store. Writers is the maximum number of disk calls at the same time. Clients are sent each
// new incarnation.
type Config struct {
	Env     *kit.Env
	Files   Files
	Writers int
	Clients []*actor.PID
	// QueueCopy gets Changed; nil: this node has no such actor.
	QueueCopy *actor.PID
}

// Changed says that files were replaced, removed or quarantined, or may have been; of moved files it has the new paths. It is sent
// before the answer to the client. An append is no change.
type Changed struct{ Paths []string }

// Props describes the store, the actor in front of the disk. If it fails too often, its supervisor fails with it.
func Props(c Config) *actor.Props {
	return kit.NumberedProps(c.Env, "store", func(incarnation uint64) actor.Actor {
		return &store{config: c, incarnation: incarnation}
	}, kit.Supervise(c.Env.Strategy(kit.Policy{OnGiveUp: kit.Escalate})))
}

type store struct {
	config        Config
	incarnation   uint64
	queues        pathQueues
	syncs         dirSyncs
	batches       map[*batch]struct{} // not answered yet
	reservedNames []string            // names chosen in the quarantine directory
	scans         []*queueScan        // scans that wait for batches
	draining      *actor.PID
	failing       failingWrites
}

func (s *store) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		s.start(ctx)
	case *messages.AnnounceStore:
		ctx.Respond(&messages.StoreStarted{Incarnation: s.incarnation})
	case *messages.AccessStore:
		s.request(ctx, m)
	case *messages.GetFailingWrites:
		ctx.Respond(&messages.GetFailingWritesResult{Request: m.Request, Writes: s.failing.list()})
	case *messages.RunDiskTaskResult:
		s.writerDone(ctx, m)
	case *messages.Drain:
		s.draining = ctx.Sender()
		s.sendDrained(ctx)
	default:
		kit.Unexpected(ctx)
	}
}

func (s *store) start(ctx actor.Context) {
	s.syncs.init()
	s.queues.init(s.incarnation)
	s.batches = map[*batch]struct{}{}
	props := s.config.Env.Props("writer", func() actor.Actor { return &writer{files: s.config.Files} })
	for i := range s.config.Writers {
		pid, err := ctx.SpawnNamed(props, fmt.Sprintf("writer-%d.%d", i, s.incarnation))
		if err != nil {
			panic(fmt.Errorf("spawn writer: %w", err))
		}
		s.queues.addWriter(pid)
	}
	kit.Publish(ctx, s.config.Clients, &messages.StoreStarted{Incarnation: s.incarnation})
}

func (s *store) request(ctx actor.Context, m *messages.AccessStore) {
	// The client repeats it after StoreStarted. Carried out for both incarnations, it could undo what the client has written in between.
	if m.Incarnation != s.incarnation {
		return
	}
	switch what := m.What.(type) {
	case *messages.AccessStore_Write:
		s.write(ctx, m.Request, what.Write)
	case *messages.AccessStore_Remove:
		s.remove(ctx, m.Request, what.Remove)
	case *messages.AccessStore_Read:
		s.read(ctx, m.Request, what.Read)
	case *messages.AccessStore_Quarantine:
		s.quarantine(ctx, m.Request, what.Quarantine)
	case *messages.AccessStore_Scan:
		s.scan(ctx, m.Request)
	case *messages.AccessStore_Move:
		s.move(ctx, m.Request, what.Move)
	case *messages.AccessStore_List:
		s.list(ctx, m.Request, what.List)
	case *messages.AccessStore_Append:
		s.append(ctx, m.Request, what.Append)
	case *messages.AccessStore_Identify:
		s.identify(ctx, m.Request, what.Identify)
	default:
		panic(fmt.Sprintf("store request without a content from %v", ctx.Sender()))
	}
}

// do hands a step to a writer, after earlier steps for the same path.
func (s *store) do(ctx actor.Context, path string, task *messages.RunDiskTask, done func(actor.Context, *messages.RunDiskTaskResult)) {
	s.queues.add(path, task, done)
	s.dispatch(ctx)
}

func (s *store) dispatch(ctx actor.Context) {
	for {
		pid, task := s.queues.next()
		if task == nil {
			return
		}
		ctx.Request(pid, task)
	}
}

func (s *store) writerDone(ctx actor.Context, m *messages.RunDiskTaskResult) {
	if m.Incarnation != s.incarnation {
		return // from a writer of a former incarnation
	}
	finished := s.queues.done(m.Task)
	// The step is still the first of its queue here, so that its continuation can put another one in its place (quarantine), ahead of those
	// that wait.
	finished.done(ctx, m)
	s.queues.finish(finished)
	s.dispatch(ctx)
	s.sendDrained(ctx)
}

// observe tells the copier of the queue, if there is one, which files a request may have changed.
func (s *store) observe(ctx actor.Context, changed []string) {
	if s.config.QueueCopy != nil && len(changed) > 0 {
		ctx.Send(s.config.QueueCopy, &Changed{changed})
	}
}

// syncDir makes a directory's renames durable. Requests that come meanwhile share one sync.
func (s *store) syncDir(ctx actor.Context, dir string, done func(actor.Context, *messages.Failure)) {
	if s.syncs.join(dir, done) {
		s.runSync(ctx, dir)
	}
}

func (s *store) runSync(ctx actor.Context, dir string) {
	task := &messages.RunDiskTask{What: &messages.RunDiskTask_SyncDir{SyncDir: &messages.SyncDir{Op: "sync-dir", Dir: dir}}}
	s.do(ctx, dir+"/", task, func(ctx actor.Context, m *messages.RunDiskTaskResult) {
		served, again := s.syncs.finished(dir)
		for _, done := range served {
			done(ctx, m.Failure)
		}
		if again {
			s.runSync(ctx, dir)
		}
	})
}

func (s *store) sendDrained(ctx actor.Context) {
	if s.draining != nil && s.queues.idle() {
		ctx.Request(s.draining, &messages.DrainResult{})
		s.draining = nil
	}
}

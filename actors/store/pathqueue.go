package store

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/messages"
)

// continuation handles the result of a step.
type continuation func(actor.Context, *messages.RunDiskTaskResult)

// pathQueues hand steps to idle writers: steps for one path in their order, steps for
// different paths in parallel.
//
// Invariant: of each path at most one step is with a writer, and it is the first of its
// queue. It stays the first until its continuation has run.
type pathQueues struct {
	incarnation uint64
	counter     uint64
	writers     []*actor.PID          // idle ones
	ready       []*step               // firsts of their queues that wait for a writer
	steps       map[string][]*step    // by path, in order; the first may be with a writer
	inProgress  map[uint64]assignment // by task number
}

type step struct {
	path string
	task *messages.RunDiskTask
	done continuation
}

type assignment struct {
	step   *step
	writer *actor.PID
}

func (l *pathQueues) init(incarnation uint64) {
	l.incarnation = incarnation
	l.steps = map[string][]*step{}
	l.inProgress = map[uint64]assignment{}
}

func (l *pathQueues) addWriter(pid *actor.PID) { l.writers = append(l.writers, pid) }

func (l *pathQueues) add(path string, task *messages.RunDiskTask, done continuation) {
	s := l.newStep(path, task, done)
	l.steps[path] = append(l.steps[path], s)
	if len(l.steps[path]) == 1 {
		l.ready = append(l.ready, s)
	}
}

// next returns a writer and its step, or nil if there is no idle writer or no ready step.
func (l *pathQueues) next() (*actor.PID, *messages.RunDiskTask) {
	if len(l.ready) == 0 || len(l.writers) == 0 {
		return nil, nil
	}
	s := l.ready[0]
	l.ready = l.ready[1:]
	last := len(l.writers) - 1
	writer := l.writers[last]
	l.writers = l.writers[:last]
	l.inProgress[s.task.Task] = assignment{s, writer}
	return writer, s.task
}

// replaceHead puts a further step in the place of the one whose continuation runs, before
// the rest of its queue.
func (l *pathQueues) replaceHead(path string, task *messages.RunDiskTask, done continuation) {
	s := l.newStep(path, task, done)
	l.steps[path][0] = s
	l.ready = append(l.ready, s)
}

func (l *pathQueues) newStep(path string, task *messages.RunDiskTask, done continuation) *step {
	l.counter++
	task.Incarnation, task.Task = l.incarnation, l.counter
	return &step{path: path, task: task, done: done}
}

// done frees the writer of a finished step. The step stays the first of its queue until
// finish.
func (l *pathQueues) done(task uint64) *step {
	o, known := l.inProgress[task]
	if !known {
		panic("a writer answered for a step that was not out")
	}
	delete(l.inProgress, task)
	l.writers = append(l.writers, o.writer)
	return o.step
}

// finish removes a step from its queue, unless replaceHead has replaced it. The next step of the path is ready then.
func (l *pathQueues) finish(s *step) {
	lane := l.steps[s.path]
	switch {
	case lane[0] != s:
	case len(lane) == 1:
		delete(l.steps, s.path)
	default:
		l.steps[s.path] = lane[1:]
		l.ready = append(l.ready, lane[1])
	}
}

func (l *pathQueues) idle() bool { return len(l.steps) == 0 }

// dirSyncs shares one sync of a directory among all requests that came before it began. A
// request that comes during a sync waits for the next one, because its rename may be too
// late for the running one.
type dirSyncs struct {
	dirs map[string]*dirSync
}

type dirSync struct {
	running []func(actor.Context, *messages.Failure)
	waiting []func(actor.Context, *messages.Failure)
}

func (d *dirSyncs) init() { d.dirs = map[string]*dirSync{} }

// join adds a request, and reports whether the caller must start a sync.
func (d *dirSyncs) join(dir string, done func(actor.Context, *messages.Failure)) bool {
	s := d.dirs[dir]
	if s == nil {
		d.dirs[dir] = &dirSync{running: []func(actor.Context, *messages.Failure){done}}
		return true
	}
	s.waiting = append(s.waiting, done)
	return false
}

// finished returns the requests that the sync has served, and whether another sync must be
// started.
func (d *dirSyncs) finished(dir string) (served []func(actor.Context, *messages.Failure), again bool) {
	s := d.dirs[dir]
	served = s.running
	if len(s.waiting) == 0 {
		delete(d.dirs, dir)
		return served, false
	}
	s.running, s.waiting = s.waiting, nil
	return served, true
}

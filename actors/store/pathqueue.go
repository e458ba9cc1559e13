package store

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/messages"
)

// continuation is what the store does when a writer has finished a step.
type continuation func(actor.Context, *messages.RunDiskTaskResult)

// pathQueues give steps to idle writers: those for one path in the order they came,
// those for different paths side by side.
//
// Invariant: of each path at most one step is with a writer, and it is the
// first of its queue. It stays that until its continuation has run.
type pathQueues struct {
	incarnation uint64
	counter     uint64
	writers     []*actor.PID          // idle
	ready       []*step               // firsts of their queue, waiting for a writer
	steps       map[string][]*step    // by path, in order; the first may be out
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

// next is a writer and the step for it, or nil when nothing can be handed out.
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

// replaceHead puts a further step in the place of one that is being continued, before
// whatever waits in its queue.
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

// done frees the writer of a finished step. The step keeps its queue until finish.
func (l *pathQueues) done(task uint64) *step {
	o, known := l.inProgress[task]
	if !known {
		panic("a writer answered for a step that was not out")
	}
	delete(l.inProgress, task)
	l.writers = append(l.writers, o.writer)
	return o.step
}

// finish takes a step off its queue, unless another one follows in its place.
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

// dirSyncs shares one sync of a directory among all who asked before it began.
// Who asks while one is running gets the next: their rename may have come too
// late for the one that runs.
type dirSyncs struct {
	dirs map[string]*dirSync
}

type dirSync struct {
	running []func(actor.Context, *messages.Failure)
	waiting []func(actor.Context, *messages.Failure)
}

func (d *dirSyncs) init() { d.dirs = map[string]*dirSync{} }

// join reports whether the caller must start a sync.
func (d *dirSyncs) join(dir string, done func(actor.Context, *messages.Failure)) bool {
	s := d.dirs[dir]
	if s == nil {
		d.dirs[dir] = &dirSync{running: []func(actor.Context, *messages.Failure){done}}
		return true
	}
	s.waiting = append(s.waiting, done)
	return false
}

// finished returns those served, and whether another sync must be started.
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

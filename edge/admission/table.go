// Package admission is the budget (core/budget) as listeners use it: one Table for a daemon, which every listener asks before it takes
// memory, a place or a turn for a client.
//
// It is an edge, not an actor. It owns the counts, the goroutines' waits for their turns, and the question to the kernel which user
// has made a connection. Nothing of it survives a crash: clients connect again.
package admission

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"lockstep/core/budget"
)

// ErrBusy says that the client has to try again later: what it asks for is used up, and the others have no more than it.
var ErrBusy = errors.New("too busy; try again later")

// Class is how long requests of a kind work, and so by what their number is bounded.
type Class int

// Classes of requests.
const (
	Short   Class = iota // is answered at once
	Page                 // examines a bounded part of the queue
	Large                // its answer may be as large as the queue
	Live                 // is about objects of the cluster, and may wait for their nodes
	Long                 // waits for a job process or another node
	Preview              // judges all jobs by a rule that is not in force
	Bulk                 // is itself large: what it is decoded to takes several times its size
	Render               // makes a page or a table of metrics; it waits for nothing
	Wait                 // only waits for something to happen; the client that has most gives way
	classes
)

// turnsOf is how many requests of a class work at a time. Large answers, which use the processor all the time, leave one processor to
// others where there are three; pages have the processors that there are.
func turnsOf(processors int) [classes]int {
	busy := max(processors-1, 1)
	return [classes]int{
		Short:   32,
		Page:    4,
		Large:   max(min(busy, 3), 2),
		Live:    30,
		Long:    200,
		Preview: 2,
		Bulk:    2,
		Render:  max(min(processors, 4), 2),
	}
}

// Bounds of waiting requests.
const (
	waitsMax   = 1000 // requests of class Wait
	waitingMax = 1000 // requests of each other class that wait for their turn
	turnMax    = 10 * time.Second
)

// Table bounds the memory and the work of all requests of a daemon. All its listeners share one.
type Table struct {
	memory memory
	turns  [classes]*turns
	waits  *Slots
}

// NewTable returns a Table with the limits of package budget, of which nothing is used.
func NewTable() *Table { return NewTableWith(budget.NewBytes()) }

// NewTableWith returns a Table with other bounds of memory, of which nothing is used.
func NewTableWith(b *budget.Bytes) *Table {
	t := &Table{memory: memory{bytes: b, open: map[*budget.Share]*Share{}}, waits: NewSlots(waitsMax)}
	for class, limit := range turnsOf(runtime.GOMAXPROCS(0)) {
		if limit > 0 {
			t.turns[class] = newTurns(limit)
		}
	}
	return t
}

// Turn returns when a request of the client of ctx may work. The caller calls release when it has ended. working is ctx, which ends
// with the cause ErrBusy when a request of class Wait gives way. The error is ErrBusy or the cause of the end of ctx.
func (t *Table) Turn(ctx context.Context, class Class) (working context.Context, release func(), err error) {
	if class == Wait {
		working, cancel := context.WithCancelCause(ctx)
		slot := t.waits.Admit(ClientOf(ctx), func() { cancel(ErrBusy) })
		if slot == nil {
			cancel(nil)
			return nil, nil, ErrBusy
		}
		slot.Move(budget.Idle)
		resume := WaiterOf(ctx).Wait()
		return working, func() { slot.Close(); cancel(nil); resume() }, nil
	}
	release, err = t.turns[class].acquire(ctx)
	if err == nil && (class == Large || class == Bulk) {
		end := release
		release = func() {
			t.memory.collect()
			end()
		}
	}
	return ctx, release, err
}

// Active is how many requests of a class are at work.
func (t *Table) Active(class Class) int {
	if class == Wait {
		return t.waits.Len()
	}
	return t.turns[class].len()
}

// Used is how much memory requests and answers have, in bytes.
func (t *Table) Used() int {
	t.memory.mu.Lock()
	defer t.memory.mu.Unlock()
	return t.memory.bytes.Len()
}

// turns is budget.Turns with a mutex, and with a channel for each request on which its goroutine waits for its turn.
type turns struct {
	mu      sync.Mutex
	turns   *budget.Turns
	waiting map[*budget.Turn]chan error // receives one value: nil when it may work
}

func newTurns(limit int) *turns {
	return &turns{turns: budget.NewTurns(limit, waitingMax), waiting: map[*budget.Turn]chan error{}}
}

func (t *turns) acquire(ctx context.Context) (release func(), err error) {
	t.mu.Lock()
	mine, refused := t.turns.Ask(ClientOf(ctx))
	switch {
	case refused == mine:
		t.mu.Unlock()
		return nil, ErrBusy
	case refused != nil:
		t.settle(refused, ErrBusy)
	}
	release = sync.OnceFunc(func() { t.leave(mine) })
	if mine.Working() {
		t.mu.Unlock()
		return release, nil
	}
	settled := make(chan error, 1)
	t.waiting[mine] = settled
	t.mu.Unlock()
	defer WaiterOf(ctx).Wait()()
	timer := time.NewTimer(turnMax)
	defer timer.Stop()
	select {
	case err = <-settled:
	case <-timer.C:
		err = ErrBusy
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

func (t *turns) leave(turn *budget.Turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.waiting, turn)
	if next := t.turns.Leave(turn); next != nil {
		t.settle(next, nil)
	}
}

// settle ends the wait of a request. The caller holds the mutex.
func (t *turns) settle(turn *budget.Turn, err error) {
	if c := t.waiting[turn]; c != nil {
		delete(t.waiting, turn)
		c <- err
	}
}

func (t *turns) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.turns.Len()
}

package kit

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// Clock tells actors the time and calls functions later. It is their only source of time, so that the simulator can replace it.
type Clock interface {
	Now() time.Time

	// AfterFunc calls f once after d, on any goroutine, unless stop is called before. stop
	// reports whether it prevented the call. If d is zero or less, f is called soon, but
	// never within AfterFunc.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// RealClock returns the Clock of the machine, for daemons; the simulator has a virtual one.
func RealClock() Clock { return realClock{} }

type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }

func (realClock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	return time.AfterFunc(d, f).Stop
}

// SendAfter sends msg to the actor after d, unless stop is called before. stop reports
// whether it prevented that; a message that was sent cannot be taken back. If the actor was
// restarted meanwhile, the later incarnation gets msg: where that matters, msg has the
// number of the incarnation. If the actor has stopped meanwhile, no actor gets msg, even if another actor
// has its name by then: each mastership of a node has actors of the same names.
func SendAfter(c Clock, sys *actor.ActorSystem, d time.Duration, to *actor.PID, msg any) (stop func() bool) {
	process, _ := sys.ProcessRegistry.Get(to)
	return c.AfterFunc(d, func() { process.SendUserMessage(to, msg) })
}

// Backoff is the delay before the next try after so many failures in a row: 100 ms, doubled
// with each failure, at most 30 s.
func Backoff(failures int) time.Duration {
	return min(100*time.Millisecond<<min(failures, 9), 30*time.Second)
}

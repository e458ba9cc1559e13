package kit

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// Clock is the only source of time for actors.
type Clock interface {
	Now() time.Time

	// AfterFunc runs f once after d, on any goroutine, unless stopped first;
	// stop reports whether it prevented the run. A d of zero or less means as
	// soon as possible, not within the call.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// RealClock is the clock of the machine.
func RealClock() Clock { return realClock{} }

type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }

func (realClock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	return time.AfterFunc(d, f).Stop
}

// SendAfter sends msg to the actor `to` after d, unless stopped first; stop
// reports whether it prevented that. The message goes to whoever bears the name
// by then, which may be a later incarnation: an actor that minds puts a number
// into msg and drops what is stale. A message on its way is not taken back by
// stop.
func SendAfter(c Clock, sys *actor.ActorSystem, d time.Duration, to *actor.PID, msg any) (stop func() bool) {
	return c.AfterFunc(d, func() { sys.Root.Send(to, msg) })
}

// Backoff is the pause before something that has failed so many times in a row
// is tried again: from 100 ms on, doubling, at most 30 s.
func Backoff(failures int) time.Duration {
	return min(100*time.Millisecond<<min(failures, 9), 30*time.Second)
}

package events

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
)

// Subscribe asks for all events of these kinds from now on. The sender gets an EventPublished for each and a Gap where events may
// be missing, until it ends. A second Subscribe replaces the kinds.
type Subscribe struct{ Kinds []Kind }

// EventPublished is an event for a subscriber. Data is its JSON.
type EventPublished struct {
	Kind Kind
	Data []byte
}

// Gap says that events before the next one may be missing.
type Gap struct{}

// subscribers are the actors that get events. They survive a crash of the events actor, which still learns of their ends.
type subscribers struct {
	pids  []*actor.PID // in the order of their subscriptions
	kinds [][]Kind     // of each
}

func (s *subscribers) index(pid *actor.PID) int { return slices.IndexFunc(s.pids, pid.Equal) }

func (s *subscribers) add(pid *actor.PID, kinds []Kind) (isNew bool) {
	if at := s.index(pid); at >= 0 {
		s.kinds[at] = kinds
		return false
	}
	s.pids, s.kinds = append(s.pids, pid), append(s.kinds, kinds)
	return true
}

func (s *subscribers) remove(pid *actor.PID) {
	if at := s.index(pid); at >= 0 {
		s.pids, s.kinds = slices.Delete(s.pids, at, at+1), slices.Delete(s.kinds, at, at+1)
	}
}

func (s *subscribers) publish(ctx actor.Context, kind Kind, data []byte) {
	m := &EventPublished{kind, data}
	for i, pid := range s.pids {
		if slices.Contains(s.kinds[i], kind) {
			ctx.Send(pid, m)
		}
	}
}

func (s *subscribers) missed(ctx actor.Context) {
	kit.Publish(ctx, s.pids, &Gap{})
}

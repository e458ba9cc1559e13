package conn

import "github.com/asynkron/protoactor-go/actor"

// Taken are the questions that one incarnation of an actor has taken. A sender repeats its open question when it hears of a
// restart (Conversation.Restarted), also if this incarnation has the question already: it may have arrived before the announcement,
// and the lock manager reads its files again without a restart of the others. A change must not be made twice then, because one
// copy can fail after the other was answered. The zero value has taken no question.
//
// A sender has at most one open question, and its messages arrive in order, so that the last question of a sender is enough. Taken
// forgets a sender after taken questions of at least sendersMax others.
type Taken struct {
	recent, former map[string]uint64 // number of the last question, by the id of the sender
}

// sendersMax is above the number of connections that are open at a time.
const sendersMax = 32_768

// IsRepeated reports whether the question of a sender was the last one taken from it. Otherwise it is taken now. With too many senders,
// those are forgotten that have sent nothing for longest.
func (t *Taken) IsRepeated(sender *actor.PID, number uint64) bool {
	last, known := t.recent[sender.Id]
	if !known {
		last, known = t.former[sender.Id]
	}
	if known && last == number {
		return true
	}
	if len(t.recent) >= sendersMax {
		t.former, t.recent = t.recent, nil
	}
	if t.recent == nil {
		t.recent = map[string]uint64{}
	}
	t.recent[sender.Id] = number
	return false
}

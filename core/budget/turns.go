package budget

import "slices"

// Turns bounds how many requests work at the same moment, and decides which waiting one is next. Further ones wait; when one has ended,
// the client begins one that has the fewest at work, and among these the one that has waited for longest since it began its last.
//
// One client never has all turns of several: a request at work is not interrupted and may take a minute, so the last turn stays for
// others.
//
// Invariant: while there is a free turn, only clients wait that may not have it.
type Turns struct {
	limit      int
	waitingMax int
	working    int
	waiting    int
	atWork     map[Client]int
	queues     map[Client][]*Turn
	order      []Client // clients with waiting turns; who begins one goes to the end
}

// Turn is one request. Its fields belong to the Turns that made it.
type Turn struct {
	client Client
	state  turnState
}

type turnState uint8

const (
	turnWaiting turnState = iota
	turnWorking
	turnOver
)

// Working reports whether the request may work.
func (t *Turn) Working() bool { return t.state == turnWorking }

// NewTurns returns Turns of which none is taken: at most limit requests are at work, and at most waitingMax wait.
func NewTurns(limit, waitingMax int) *Turns {
	return &Turns{limit: limit, waitingMax: waitingMax, atWork: map[Client]int{}, queues: map[Client][]*Turn{}}
}

// Ask adds a request. refused is a request that waited and must not any longer, since too many wait: the newest one of the client that
// has most waiting. It may be added itself; nil: none.
func (t *Turns) Ask(c Client) (added, refused *Turn) {
	c = c.Key()
	added = &Turn{client: c}
	if t.working < t.limit && t.mayBegin(c) {
		t.begin(added)
		return added, nil
	}
	if len(t.queues[c]) == 0 {
		t.order = append(t.order, c)
	}
	t.queues[c] = append(t.queues[c], added)
	t.waiting++
	if t.waiting <= t.waitingMax {
		return added, nil
	}
	most := c
	for _, other := range t.order {
		if len(t.queues[other]) > len(t.queues[most]) {
			most = other
		}
	}
	queue := t.queues[most]
	refused = queue[len(queue)-1]
	t.Leave(refused)
	return added, refused
}

// Leave ends a request, whether it works or waits. next is the request that may work now: it has left its queue and counts as working.
// nil: there is none. A second call does nothing.
func (t *Turns) Leave(turn *Turn) (next *Turn) {
	c := turn.client
	switch turn.state {
	case turnOver:
		return nil
	case turnWaiting:
		t.dequeue(turn)
		turn.state = turnOver
		return nil
	case turnWorking:
	}
	turn.state = turnOver
	t.working--
	if t.atWork[c]--; t.atWork[c] == 0 {
		delete(t.atWork, c)
	}
	found := -1
	for i, other := range t.order {
		if t.mayBegin(other) && (found < 0 || t.atWork[other] < t.atWork[t.order[found]]) {
			found = i
		}
	}
	if found < 0 {
		return nil
	}
	first := t.order[found]
	next = t.queues[first][0]
	t.dequeue(next)
	if len(t.queues[first]) > 0 { // to the end
		t.order = append(slices.DeleteFunc(t.order, func(other Client) bool { return other == first }), first)
	}
	t.begin(next)
	return next
}

// mayBegin reports whether a client may have a free turn.
func (t *Turns) mayBegin(c Client) bool { return t.atWork[c] < max(t.limit-1, 1) }

func (t *Turns) begin(turn *Turn) {
	turn.state = turnWorking
	t.working++
	t.atWork[turn.client]++
}

func (t *Turns) dequeue(turn *Turn) {
	c := turn.client
	queue := slices.DeleteFunc(t.queues[c], func(other *Turn) bool { return other == turn })
	t.waiting--
	if len(queue) > 0 {
		t.queues[c] = queue
		return
	}
	delete(t.queues, c)
	t.order = slices.DeleteFunc(t.order, func(other Client) bool { return other == c })
}

// Len is the number of requests at work.
func (t *Turns) Len() int { return t.working }

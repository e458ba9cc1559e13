package sim

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Request is a request of a client: what, when, and the state of the client's dice, which decide
// the details. As text it is "client.number what@nanoseconds:dice".
type Request struct {
	Client int
	Number int // number of the client's request, from 1
	What   requestKind
	At     time.Duration // since the world began
	dice   []byte
}

// requestKind is the kind of a request.
type requestKind string

const (
	requestNone     requestKind = ""
	requestSubmit   requestKind = "submit"
	requestFollowUp requestKind = "follow" // about a job that was submitted just before
	requestChange   requestKind = "change" // of a rule or a setting, or a question why a job waits
	requestDelete   requestKind = "delete" // a rule
	requestConfig   requestKind = "config" // all calls of a session that changes the configuration
	requestBrowse   requestKind = "browse" // all calls of a browser about one session
	requestRead     requestKind = "read"   // all questions of one visit of a reader
)

// String is for messages, and MarshalText for files.
func (a Request) String() string {
	return fmt.Sprintf("client %d: %s at %.3f s", a.Client, a.What, a.At.Seconds())
}

// MarshalText writes the request completely: client.number what@nanoseconds:dice.
func (a Request) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%d.%d %s@%d:%x", a.Client, a.Number, a.What, a.At, a.dice), nil
}

// UnmarshalText reads what MarshalText has written.
func (a *Request) UnmarshalText(text []byte) error {
	head, dice, _ := strings.Cut(string(text), ":")
	_, err := fmt.Sscanf(strings.ReplaceAll(head, "@", " "), "%d.%d %s %d", &a.Client, &a.Number, &a.What, &a.At)
	if err == nil {
		a.dice, err = hex.DecodeString(dice)
	}
	if err == nil {
		err = rand.NewPCG(0, 0).UnmarshalBinary(a.dice)
	}
	if err != nil {
		return fmt.Errorf("%q is not a request of the form client.number what@nanoseconds:dice: %w", text, err)
	}
	return nil
}

// requestLog records the requests of clients, or replays those of a recipe.
type requestLog struct {
	dice      *rand.PCG // of the workload
	recorded  []Request
	pending   map[*client]*Request // the next request of each
	scheduled map[int][]Request    // by client and number; nil: no recipe
}

func newRequestLog(dice *rand.PCG, recipe *Recipe) *requestLog {
	a := &requestLog{dice: dice, pending: map[*client]*Request{}}
	if recipe != nil && recipe.Requests != nil {
		a.scheduled = map[int][]Request{}
		for _, r := range recipe.Requests {
			a.scheduled[r.Client] = append(a.scheduled[r.Client], r)
		}
		for _, list := range a.scheduled {
			slices.SortFunc(list, func(a, b Request) int { return a.Number - b.Number })
		}
	}
	return a
}

// scheduleNext makes the client's next request after a pause, or at the time in the recipe.
func (a *requestLog) scheduleNext(c *client, pause time.Duration, f func()) {
	at := c.world.clock.Elapsed() + pause
	number := 1
	if last := a.pending[c]; last != nil {
		number = last.Number + 1
	}
	due := &Request{Client: c.number, Number: number, At: at}
	if a.scheduled != nil {
		*due = a.pop(c, number, at)
	}
	a.pending[c] = due
	c.world.clock.After(due.At-c.world.clock.Elapsed(), c.world.life, func() { c.rpc.thread.Do(f) })
}

// pop takes the client's next request from the recipe. It skips follow-ups of requests that are
// not made. Without a request it returns requestNone.
func (a *requestLog) pop(c *client, number int, at time.Duration) Request {
	for list := a.scheduled[c.number]; len(list) > 0; list = list[1:] {
		if list[0].Number >= number && list[0].What != requestFollowUp {
			a.scheduled[c.number] = list[1:]
			list[0].At = max(list[0].At, c.world.clock.Elapsed())
			return list[0]
		}
	}
	a.scheduled[c.number] = nil
	return Request{Client: c.number, Number: number, At: at}
}

// begin returns what the pending request is, when it is due, and records it. Without a recipe, think decides; with one it decides
// nothing.
func (a *requestLog) begin(c *client, think func() requestKind) requestKind {
	due := a.pending[c]
	if a.scheduled == nil {
		due.dice, _ = a.dice.MarshalBinary() // never fails
		if due.What = think(); due.What != requestNone {
			a.recorded = append(a.recorded, *due)
		}
		return due.What
	}
	a.restoreDice(due)
	if due.What != requestNone {
		_ = think() // draws from the same dice as without a recipe
	}
	return due.What
}

// followUp reports whether the client makes a request about the answer to its last one: always without a recipe.
func (a *requestLog) followUp(c *client) bool {
	due := &Request{Client: c.number, Number: a.pending[c].Number + 1, What: requestFollowUp, At: c.world.clock.Elapsed()}
	if a.scheduled == nil {
		a.pending[c] = due
		due.dice, _ = a.dice.MarshalBinary()
		a.recorded = append(a.recorded, *due)
		return true
	}
	list := a.scheduled[c.number]
	if len(list) == 0 || list[0].Number != due.Number {
		return false
	}
	*due = list[0]
	a.pending[c], a.scheduled[c.number] = due, list[1:]
	a.restoreDice(due)
	return true
}

// restoreDice restores the dice to their state at the recorded request.
func (a *requestLog) restoreDice(due *Request) {
	if len(due.dice) > 0 {
		_ = a.dice.UnmarshalBinary(due.dice) // UnmarshalText has checked them
	}
}

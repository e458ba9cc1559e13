package sim

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Ask is something that a client asks for: what, when, and what its dice showed then,
// which tell the rest. As text it is "client.number what@nanoseconds:dice".
type Ask struct {
	Client int
	Number int // of the client's, from 1
	What   askKind
	At     time.Duration // since the world began
	dice   []byte
}

// askKind is what is asked for.
type askKind string

const (
	askNothing askKind = ""
	askSubmit  askKind = "submit"
	askFollow  askKind = "follow" // something with a job that was submitted just before
	askChange  askKind = "change" // of a rule or a setting, or a question why
	askDelete  askKind = "delete" // a rule
)

// String is for people, and MarshalText for files.
func (a Ask) String() string {
	return fmt.Sprintf("client %d: %s at %.3f s", a.Client, a.What, a.At.Seconds())
}

// MarshalText writes all of it.
func (a Ask) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%d.%d %s@%d:%x", a.Client, a.Number, a.What, a.At, a.dice), nil
}

// UnmarshalText reads what MarshalText has written.
func (a *Ask) UnmarshalText(text []byte) error {
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

// asks writes down what clients ask for, or has them ask for what a recipe says.
type asks struct {
	dice   *rand.PCG // of the workload
	made   []Ask
	due    map[*client]*Ask // what each is about to do
	recipe map[int][]Ask    // by client, by number; nil: there is none
}

func newAsks(dice *rand.PCG, recipe *Recipe) *asks {
	a := &asks{dice: dice, due: map[*client]*Ask{}}
	if recipe != nil && recipe.Asks != nil {
		a.recipe = map[int][]Ask{}
		for _, ask := range recipe.Asks {
			a.recipe[ask.Client] = append(a.recipe[ask.Client], ask)
		}
		for _, list := range a.recipe {
			slices.SortFunc(list, func(a, b Ask) int { return a.Number - b.Number })
		}
	}
	return a
}

// next has a client do something after a pause; of a recipe when the time has come for
// what the client does next.
func (a *asks) next(c *client, pause time.Duration, f func()) {
	at := c.world.clock.elapsed() + pause
	number := 1
	if last := a.due[c]; last != nil {
		number = last.Number + 1
	}
	due := &Ask{Client: c.number, Number: number, At: at}
	if a.recipe != nil {
		*due = a.pop(c, number, at)
	}
	a.due[c] = due
	c.world.clock.after(due.At-c.world.clock.elapsed(), c.world.life, func() { c.caller.thread.do(f) })
}

// pop takes the client's next request off the recipe that is none of those that follow
// on another, which is not made; nothing, if there is none.
func (a *asks) pop(c *client, number int, at time.Duration) Ask {
	for list := a.recipe[c.number]; len(list) > 0; list = list[1:] {
		if list[0].Number >= number && list[0].What != askFollow {
			a.recipe[c.number] = list[1:]
			list[0].At = max(list[0].At, c.world.clock.elapsed())
			return list[0]
		}
	}
	a.recipe[c.number] = nil
	return Ask{Client: c.number, Number: number, At: at}
}

// begin is when the client does what is due. Without a recipe, think says what.
func (a *asks) begin(c *client, think func() askKind) askKind {
	due := a.due[c]
	if a.recipe == nil {
		due.dice, _ = a.dice.MarshalBinary() // it never fails
		if due.What = think(); due.What != askNothing {
			a.made = append(a.made, *due)
		}
		return due.What
	}
	a.show(due)
	if due.What != askNothing {
		_ = think() // it throws the same dice
	}
	return due.What
}

// follows: the client does something with what it was given.
func (a *asks) follows(c *client) bool {
	due := &Ask{Client: c.number, Number: a.due[c].Number + 1, What: askFollow, At: c.world.clock.elapsed()}
	if a.recipe == nil {
		a.due[c] = due
		due.dice, _ = a.dice.MarshalBinary()
		a.made = append(a.made, *due)
		return true
	}
	list := a.recipe[c.number]
	if len(list) == 0 || list[0].Number != due.Number {
		return false
	}
	*due = list[0]
	a.due[c], a.recipe[c.number] = due, list[1:]
	a.show(due)
	return true
}

// show has the dice show what they showed then.
func (a *asks) show(due *Ask) {
	if len(due.dice) > 0 {
		_ = a.dice.UnmarshalBinary(due.dice) // Ask has seen to it that it is good
	}
}

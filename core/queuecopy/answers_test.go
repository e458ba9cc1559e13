package queuecopy

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/paths"
)

// answers are the answers that wait for candidates, and what is wrong about those that were given. They know the disks and the decisions
// only.
type answers struct {
	last   uint64
	open   map[uint64]promise
	behind map[string]bool
	late   map[string]bool // "node file" of which a node daemon may still write an older state
	wrong  []string
}

// promise is an answer that says that the candidates have a state of a job, or a later one.
type promise struct {
	job     int64
	content int // of the state, see world.content
	begun   time.Time
}

func newAnswers() answers {
	return answers{open: map[uint64]promise{}, behind: map[string]bool{}, late: map[string]bool{}}
}

func (a *answers) ask(w *world, job int64) {
	a.last++
	a.open[a.last] = promise{job, contentOf(w.here[paths.JobPath(job)]), w.now}
	w.tracker.Await(w.now, a.last, []Unit{Unit(job)})
}

func contentOf(text string) (content int) {
	_, _ = fmt.Sscanf(text, "content %d", &content)
	return content
}

func (a *answers) lateCall(c *openCall) {
	for _, u := range c.Units {
		a.late[c.Node.Name+" "+u.Path()] = true
	}
}

// decided checks a decision. An answer is given when each candidate that does not count as behind has what it says. No answer waits longer
// than AllMax, and without one that has waited so long, or a failure, no candidate counts as behind.
func (a *answers) decided(w *world, d Decision) {
	for _, n := range d.CaughtUp {
		delete(a.behind, n.Name)
	}
	for _, n := range d.Behind {
		a.behind[n.Name] = true
		if a.oldest(w.now) < AllMax && w.failed[n.Name] == 0 {
			a.wrong = append(a.wrong, n.Name+" counts as behind without a reason")
		}
	}
	for _, r := range d.Released {
		p := a.open[r.ID]
		delete(a.open, r.ID)
		for node, there := range w.there {
			live, archived := paths.JobPath(p.job), paths.ArchivePath(p.job)
			has := max(contentOf(there[live]), contentOf(there[archived]))
			if !a.behind[node] && has < p.content && !a.late[node+" "+live] {
				a.wrong = append(a.wrong, fmt.Sprintf("%s has state %d of job %d; a client was told that it has %d", node, has, p.job, p.content))
			}
		}
	}
	if a.oldest(w.now) >= AllMax {
		a.wrong = append(a.wrong, "an answer has waited longer than AllMax")
	}
}

// oldest is the age of the oldest open answer.
func (a *answers) oldest(now time.Time) (age time.Duration) {
	for _, p := range a.open {
		age = max(age, now.Sub(p.begun))
	}
	return age
}

// The checks of answers find these bugs.
func TestPlantedBugsOfAnswersAreFound(t *testing.T) {
	everyFlight := func(t *Tracker, f func(*flight, Unit, mark)) {
		for _, open := range t.calls {
			for u, m := range open.taken {
				f(open, u, m)
			}
		}
	}
	for name, plant := range map[string]func(*Tracker){
		"an answer is given when its call begins": func(t *Tracker) {
			everyFlight(t, func(f *flight, u Unit, m mark) {
				f.peer.has(m.awaits)
				m.awaits = nil
				f.taken[u] = m
			})
		},
		"a failed call is forgotten": func(t *Tracker) {
			for _, p := range t.peers {
				for u, m := range p.marks {
					if p.failures > 0 {
						p.has(m.awaits)
						delete(p.marks, u)
					}
				}
			}
		},
		"a candidate counts as behind at its first failure": func(t *Tracker) {
			for _, p := range t.peers {
				p.behind = p.behind || p.failures > 0
			}
		},
		"an answer waits for ever": func(t *Tracker) {
			for _, a := range t.awaits {
				a.deadline = a.deadline.Add(time.Hour)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			runs := rapid.Custom(func(t *rapid.T) []string {
				w := newWorld(t, 2)
				w.plant = plant
				for range 60 {
					w.step()
				}
				return w.answers.wrong
			})
			for seed := range 100 {
				if len(runs.Example(seed)) > 0 {
					return
				}
			}
			require.Fail(t, "the checks find nothing")
		})
	}
}

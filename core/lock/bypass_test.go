package lock

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const limit = 30 * time.Second

// The limit changes nothing while no request is overdue.
func TestALimitThatNobodyReachesChangesNothing(t *testing.T) {
	onBoth(t, func(t *rapid.T, d domain) {
		s := New(Settings{Hierarchy: d.hierarchy, BypassAfter: time.Nanosecond})
		compareWithModel(t, s, d, newModel(d, firstGrantable), 5, func(operation) bool { return true })
	})
}

// clocked is a State with a limit, and a slow model that checks it.
type clocked struct {
	domain
	state *State
	now   time.Time
	since map[Owner]time.Time // of each waiting owner
	order map[Owner]int       // of arrival
	count int

	unpassable map[Owner]bool // waiting owners of which ForbidBypass was said
}

func newClocked(d domain) *clocked {
	return &clocked{domain: d, state: New(Settings{Hierarchy: d.hierarchy, BypassAfter: limit}), now: epoch,
		since: map[Owner]time.Time{}, order: map[Owner]int{}, unpassable: map[Owner]bool{}}
}

func (c *clocked) overdue(o Owner) bool {
	since, waits := c.since[o]
	return waits && (c.unpassable[o] || c.now.Sub(since) > limit)
}

func (c *clocked) conflict(a, b Item) bool {
	m := model{hierarchy: c.hierarchy}
	return a.Mode > None && b.Mode > None && (a.Mode == Exclusive || b.Mode == Exclusive) && m.related(a.Lock, b.Lock)
}

func (c *clocked) conflicts(a, b []Item) bool {
	return slices.ContainsFunc(a, func(i Item) bool {
		return slices.ContainsFunc(b, func(k Item) bool { return c.conflict(i, k) })
	})
}

// mayWaitFor is the owners for which an owner waits in the snapshot, directly or through others: blockers, and owners
// of earlier overdue requests.
func (c *clocked) mayWaitFor(snap Snapshot, o Owner) map[Owner]bool {
	wanted := map[Owner]Request{}
	for _, p := range snap.Pending {
		wanted[p.Owner] = p.Request
	}
	met := map[Owner]bool{}
	for todo := []Owner{o}; len(todo) > 0; {
		from := todo[0]
		todo = todo[1:]
		next := func(to Owner) {
			if to != from && !met[to] {
				met[to] = true
				todo = append(todo, to)
			}
		}
		for _, h := range snap.Holdings {
			if c.conflicts(wanted[from], h.Locks) {
				next(h.Owner)
			}
		}
		for other, req := range wanted {
			if c.overdue(other) && c.order[other] < c.order[from] && c.conflicts(wanted[from], req) {
				next(other)
			}
		}
	}
	return met
}

// do makes one call. It checks that no granted request overtakes an overdue one.
func (c *clocked) do(t *rapid.T, op operation) {
	before := c.state.Snapshot()
	_, _ = c.call(op)
	inspect(t, c.state)
	after := c.state.Snapshot()
	if c.state.HasPending(op.owner) && c.since[op.owner].IsZero() {
		before.Pending = append(before.Pending, Pending{Owner: op.owner, Request: op.items})
		c.count++
		c.order[op.owner] = c.count
	}
	for _, h := range after.Holdings {
		c.checkGrant(t, before, after, h)
	}
	c.note(after)
}

func (c *clocked) call(op operation) (Update, error) {
	p := Pending{op.priority, op.owner, op.items}
	switch op.verb {
	case "try":
		return c.state.TryUpdate(c.now, op.owner, op.items)
	case "release":
		return c.state.Release(c.now, op.owner), nil
	case "remove":
		return c.state.RemovePending(c.now, op.owner), nil
	case "downgrade":
		return c.state.DowngradeLevel(c.now, op.owner, op.items[0].Lock.level), nil
	case "union":
		c.state.OpportunisticUnion(c.now, op.owner, op.items)
		return Update{}, nil
	default:
		return c.state.UpdateWaiting(c.now, p)
	}
}

func (c *clocked) checkGrant(t *rapid.T, before, after Snapshot, now Holding) {
	var held []Item
	for _, h := range before.Holdings {
		if h.Owner == now.Owner {
			held = h.Locks
		}
	}
	anew := slices.DeleteFunc(slices.Clone(now.Locks), func(i Item) bool {
		return slices.ContainsFunc(held, func(k Item) bool { return k.Lock == i.Lock && k.Mode >= i.Mode })
	})
	for _, p := range after.Pending {
		later := c.since[now.Owner].IsZero() || c.order[now.Owner] > c.order[p.Owner]
		if c.overdue(p.Owner) && later && c.conflicts(anew, p.Request) {
			require.True(t, c.mayWaitFor(before, p.Owner)[now.Owner], "%v has overtaken %v, which does not wait for it", now.Owner, p.Owner)
		}
	}
}

// note records for each owner since when it waits.
func (c *clocked) note(after Snapshot) {
	since := map[Owner]time.Time{}
	for _, p := range after.Pending {
		since[p.Owner] = c.now
		if earlier, waited := c.since[p.Owner]; waited {
			since[p.Owner] = earlier
		}
	}
	c.since = since
	maps.DeleteFunc(c.unpassable, func(o Owner, _ bool) bool { return since[o].IsZero() })
}

func (c *clocked) tick(t *rapid.T) {
	c.now = c.now.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "seconds")) * time.Second)
}

// Bounded waiting: no request overtakes an overdue one that does not wait for its owner. No reservation causes a cycle
// of waiting owners: inspect checks this after each call.
func TestNobodyOvertakesWhoWaitsTooLong(t *testing.T) {
	onBoth(t, func(t *rapid.T, d domain) {
		c := newClocked(d)
		t.Repeat(map[string]func(*rapid.T){
			"tick": c.tick,
			"wait": func(t *rapid.T) {
				c.do(t, operation{verb: "wait", owner: drawOwner(t, 6), priority: rapid.IntRange(-1, 1).Draw(t, "priority"), items: drawRequest(t, d, 3)})
			},
			"other": func(t *rapid.T) {
				op := drawOperation(t, d, 6)
				op.verb = rapid.SampledFrom([]string{"try", "release", "remove", "downgrade", "union"}).Draw(t, "verb")
				c.do(t, op)
			},
			"forbid": func(t *rapid.T) {
				o := drawOwner(t, 6)
				c.state.ForbidBypass(o)
				inspect(t, c.state)
				c.unpassable[o] = !c.since[o].IsZero()
			},
			"limit": func(t *rapid.T) {
				after := rapid.SampledFrom([]time.Duration{0, limit, limit}).Draw(t, "after")
				c.state.SetBypassAfter(c.now, after)
				inspect(t, c.state)
				c.state.SetBypassAfter(c.now, limit)
				inspect(t, c.state)
				c.note(c.state.Snapshot())
			},
		})
	})
}

// wide has more locks and fewer conflicts, which gives longer chains of waiting owners.
var wide = domain{"wide", Implied, []Lock{
	Member(Instance, "a"), Member(Instance, "b"), Member(Instance, "c"), Member(Node, "a"), Member(Node, "b"), Member(Node, "c"),
	Member(NodeRes, "a"), Member(NodeRes, "b"), Member(NodeRes, "c"),
}}

// No deadlock, and progress: if every owner without a pending request ends some time, every request is granted. There
// are no upgrades, because two owners that upgrade the same lock wait for each other in Ganeti as well.
func TestEverybodyGetsHisTurn(t *testing.T) {
	for _, d := range []domain{small, production, wide} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				const owners = 7
				c := newClocked(d)
				for id := range owners {
					c.do(t, operation{verb: "try", owner: jobOwner(id), items: Request{{drawLock(t, d), Exclusive}}})
				}
				t.Repeat(map[string]func(*rapid.T){
					"tick":  c.tick,
					"wait":  func(t *rapid.T) { c.waitForMore(t, owners, 2) },
					"wait2": func(t *rapid.T) { c.waitForMore(t, owners, 3) },
					"give": func(t *rapid.T) {
						op := drawOperation(t, d, owners)
						op.verb = rapid.SampledFrom([]string{"release", "remove", "downgrade"}).Draw(t, "verb")
						c.do(t, op)
					},
				})
				c.end(t, owners)
			})
		})
	}
}

// waitForMore asks for locks after all locks of the owner.
func (c *clocked) waitForMore(t *rapid.T, owners, most int) {
	o := drawOwner(t, owners)
	req := drawConsistent(t, c.domain, most)
	if held := c.state.Allocation().Held(o); len(held) > 0 {
		req = slices.DeleteFunc(req, func(i Item) bool { return i.Lock.Compare(held[len(held)-1].Lock) <= 0 })
	}
	if len(req) > 0 {
		c.do(t, operation{verb: "wait", owner: o, priority: rapid.IntRange(-1, 1).Draw(t, "priority"), items: req})
	}
}

// end releases all locks of owners that do not wait, round after round. Each round must end at least one owner.
func (c *clocked) end(t *rapid.T, owners int) {
	for round := 0; len(c.state.Owners()) > 0; round++ {
		require.Less(t, round, owners, "still waiting: %v", c.state.Snapshot())
		c.tick(t)
		ended := false
		for _, o := range c.state.Owners() {
			if !c.state.HasPending(o) {
				ended = true
				c.do(t, operation{verb: "release", owner: o})
			}
		}
		require.True(t, ended, "everybody waits: %v", c.state.Snapshot())
	}
}

// A chain of waiting owners leads from an overdue request to a request behind it. No owner waits for ever, whichever
// link is made last: design.md "Bounded bypass".
func TestChainsAreNoCycles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newClocked(domain{"chain", Implied, nil})
		node := func(k int) Lock { return Member(Node, string(rune('a'+k))) }
		links := rapid.IntRange(0, 4).Draw(t, "links")
		last := Member(Network, "z")
		var steps []operation
		for k := range links + 1 { // Owner k holds node k, and waits for node k+1.
			c.do(t, operation{verb: "try", owner: jobOwner(k), items: Request{{node(k), Exclusive}}})
			wants := node(k + 1)
			if k == links {
				wants = last
			}
			steps = append(steps, operation{verb: "wait", owner: jobOwner(k), priority: rapid.IntRange(-1, 1).Draw(t, "priority"),
				items: Request{{wants, Exclusive}}})
		}
		first := operation{verb: "wait", owner: jobOwner(9), items: Request{{node(0), Exclusive}, {last, Exclusive}}}
		c.do(t, first)
		for _, step := range rapid.Permutation(steps).Draw(t, "steps") {
			c.now = c.now.Add(time.Duration(rapid.SampledFrom([]int{0, 31}).Draw(t, "seconds")) * time.Second)
			c.do(t, step)
		}
		c.end(t, links+3)
	})
}

// starve makes shared owners of a lock follow each other without a gap. It returns the second at which an exclusive
// request from second 0 is granted, -1 if it is not.
func starve(t *testing.T, after time.Duration, seconds int) int {
	s := New(Settings{Hierarchy: Implied, BypassAfter: after})
	node, now := Member(Node, "a"), epoch
	take := func(id int) {
		_, err := s.UpdateWaiting(now, Pending{-20, jobOwner(id), Request{{node, Shared}}})
		require.NoError(t, err)
	}
	waiter := NamedOwner("waiter", "/livelock", 1)
	take(0)
	u, err := s.UpdateWaiting(now, Pending{0, waiter, Request{{node, Exclusive}}})
	require.NoError(t, err)
	require.Equal(t, []Owner{jobOwner(0)}, u.Blockers)
	for second := 1; second <= seconds; second++ {
		now = epoch.Add(time.Duration(second) * time.Second)
		take(second)
		if slices.Contains(s.Release(now, jobOwner(second-1)).Notify, waiter) {
			inspect(t, s)
			require.Equal(t, []Owner{waiter}, s.Blockers(jobOwner(second)))
			require.Equal(t, []Owner{jobOwner(second)}, s.Release(now, waiter).Notify, "who was kept gets his turn")
			return second
		}
	}
	return -1
}

// A stream of shared holders starves an exclusive request for ever, as in Ganeti (locks.md 9.29), unless there is a
// limit.
func TestALimitEndsStarvation(t *testing.T) {
	require.Equal(t, -1, starve(t, 0, 10_000))
	require.Equal(t, 31, starve(t, limit, 10_000))
}

// The age of a restored request starts at 0. A clock that is set back changes nothing.
func TestAgeOfRequests(t *testing.T) {
	a, b, c := jobOwner(1), jobOwner(2), jobOwner(3)
	node := Member(Node, "a")
	s := New(Settings{Hierarchy: Implied, BypassAfter: limit})
	ask := func(s *State, at time.Duration, o Owner, mode Mode) Update {
		u, err := s.UpdateWaiting(epoch.Add(at), Pending{0, o, Request{{node, mode}}})
		require.NoError(t, err)
		return u
	}
	ask(s, 0, a, Shared)
	ask(s, 0, b, Exclusive)
	again, _, err := Restore(Settings{Hierarchy: Implied, BypassAfter: limit}, epoch.Add(20*time.Second), s.Snapshot())
	require.NoError(t, err)
	require.True(t, ask(again, 31*time.Second, c, Shared).Granted)
	s.RemovePending(epoch.Add(31*time.Second), c)
	require.Equal(t, []Owner{b}, ask(s, -time.Hour, c, Shared).Blockers)
	require.Equal(t, limit, s.BypassAfter())
}

package budget_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/budget"
)

func person(name string) budget.Client { return budget.Client{Name: name} }

// model is what a slot is, for the properties.
type model struct {
	client budget.Client
	phase  budget.Phase
	since  int
}

// The number of slots never exceeds the limit. The slot that gives way belongs to the client that has most among those that can give
// one and have no less than the newcomer's client; there to the process that has most; it has the lowest phase there, for the longest time.
func TestWhoGivesWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 8).Draw(t, "limit")
		s := budget.NewSlots(limit)
		open := map[*budget.Slot]model{}
		var order []*budget.Slot
		count := func(c budget.Client, whole bool) (n int) {
			for _, m := range open {
				if m.client == c || whole && m.client.Key() == c.Key() {
					n++
				}
			}
			return n
		}
		for step := range rapid.IntRange(1, 80).Draw(t, "steps") {
			order = slices.DeleteFunc(order, func(slot *budget.Slot) bool { _, isOpen := open[slot]; return !isOpen })
			if len(order) > 0 && rapid.IntRange(0, 2).Draw(t, "what") > 0 {
				slot := rapid.SampledFrom(order).Draw(t, "slot")
				switch m := open[slot]; rapid.IntRange(0, 3).Draw(t, "how") {
				case 0:
					s.Remove(slot)
					delete(open, slot)
				case 1:
					m.client = person(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "becomes"))
					if m.client != open[slot].client {
						m.since = step
					}
					s.Assign(slot, m.client)
					open[slot] = m
				default:
					to := budget.Phase(rapid.IntRange(0, 3).Draw(t, "phase"))
					if to != m.phase {
						m.phase, m.since = to, step
					}
					s.Move(slot, to)
					open[slot] = m
				}
				continue
			}
			c := person(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "client"))
			c.Process = rapid.IntRange(0, 2).Draw(t, "process")
			mine := count(c, true) + 1
			added, evicted := s.Admit(c)
			if evicted != nil {
				require.Len(t, open, limit)
				v := open[evicted]
				require.NotEqual(t, budget.Working, v.phase)
				has := count(v.client, true)
				require.True(t, has >= mine || v.client.Key() == c.Key(), "a client with fewer loses none")
				for _, m := range open {
					if m.phase == budget.Working {
						continue
					}
					if count(m.client, true) >= mine || m.client.Key() == c.Key() {
						require.LessOrEqual(t, count(m.client, true), has, "the client that has most")
					}
					if m.client.Key() == v.client.Key() {
						require.LessOrEqual(t, count(m.client, false), count(v.client, false), "the process that has most")
					}
					if m.client == v.client {
						require.False(t, m.phase < v.phase || m.phase == v.phase && m.since < v.since)
					}
				}
				delete(open, evicted)
			}
			if added == nil {
				require.Len(t, open, limit)
				for _, m := range open {
					require.True(t, m.phase == budget.Working || count(m.client, true) < mine && m.client.Key() != c.Key())
				}
				continue
			}
			open[added] = model{client: c, since: step}
			order = append(order, added)
			require.Len(t, open, s.Len())
			require.LessOrEqual(t, s.Len(), limit)
		}
	})
}

// However many slots one client asks for, another that asks for few keeps all of its, and job processes are not concerned.
func TestAFloodTakesNothingFromOthers(t *testing.T) {
	s := budget.NewSlots(100)
	ada, _ := s.Admit(person("ada"))
	job, _ := s.Admit(budget.Client{Class: budget.Jobs, Name: "uid=0"})
	for i := range 10_000 {
		added, evicted := s.Admit(person("flood"))
		require.NotNil(t, added)
		require.NotSame(t, ada, evicted)
		require.NotSame(t, job, evicted)
		if i%2 == 0 {
			s.Move(added, budget.Idle)
		}
	}
	for range 40 {
		added, _ := s.Admit(person("ada"))
		require.NotNil(t, added)
		s.Move(added, budget.Working)
	}
	require.Equal(t, 101, s.Len())
}

// A client with requests at work only is refused more, and loses none.
func TestWhatIsAtWorkNeverGivesWay(t *testing.T) {
	s := budget.NewSlots(2)
	for range 2 {
		a, _ := s.Admit(person("flood"))
		s.Move(a, budget.Working)
	}
	added, evicted := s.Admit(person("ada"))
	require.Nil(t, added)
	require.Nil(t, evicted)
}

// Of clients that wait, none waits for more than one turn of each other client, however many turns the others ask for.
func TestTurnsGoRound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 4).Draw(t, "limit")
		turns := budget.NewTurns(limit, 1000)
		working := []*budget.Turn{}
		pending := map[*budget.Turn]string{}
		served := map[string]bool{}
		ask := func(name string) {
			added, refused := turns.Ask(person(name))
			require.Nil(t, refused)
			if added.Working() {
				served[name] = true
				working = append(working, added)
			} else {
				pending[added] = name
			}
		}
		for range rapid.IntRange(limit+1, 50).Draw(t, "flood") {
			ask("flood")
		}
		others := rapid.IntRange(1, 4).Draw(t, "others")
		for i := range others {
			ask(fmt.Sprint("u", i))
		}
		for range others + 1 {
			next := turns.Leave(working[0])
			working = working[1:]
			if next == nil {
				break
			}
			require.True(t, next.Working())
			require.LessOrEqual(t, turns.Len(), limit)
			served[pending[next]] = true
			working = append(working, next)
		}
		for i := range others {
			require.True(t, served[fmt.Sprint("u", i)])
		}
	})
}

// The last of several turns stays for other clients, however long the requests of the first are at work.
func TestOneClientNeverHasAllTurns(t *testing.T) {
	turns := budget.NewTurns(3, 1000)
	var flood []*budget.Turn
	for range 10 {
		added, _ := turns.Ask(person("flood"))
		flood = append(flood, added)
	}
	require.Equal(t, 2, turns.Len())
	for range 5 {
		mine, _ := turns.Ask(person("ada"))
		require.True(t, mine.Working())
		require.Nil(t, turns.Leave(mine), "the flood does not get it meanwhile")
	}
	require.Same(t, flood[2], turns.Leave(flood[0]))
	require.Nil(t, turns.Leave(flood[9]))
	require.Equal(t, 2, turns.Len())
}

// When too many wait, the client that has most waiting is refused its newest.
func TestWhoWaitsTooMuchIsRefused(t *testing.T) {
	turns := budget.NewTurns(1, 3)
	at, _ := turns.Ask(person("flood"))
	for range 3 {
		turns.Ask(person("flood"))
	}
	added, refused := turns.Ask(person("flood"))
	require.Same(t, added, refused, "also its own newcomer")
	mine, refused := turns.Ask(person("ada"))
	require.NotSame(t, mine, refused)
	require.NotNil(t, refused)
	next := turns.Leave(at)
	require.True(t, next.Working())
	require.Nil(t, turns.Leave(at))
	turns.Leave(next)
	require.True(t, mine.Working())
	require.Nil(t, turns.Leave(refused))
}

// Memory in use is what the shares have. It exceeds the bound only by what each client may always have.
func TestBytesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := budget.NewBytesOf(100, 40, 5)
		size := map[*budget.Share]int{}
		owner := map[*budget.Share]string{}
		var all []*budget.Share
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			if len(all) == 0 || rapid.IntRange(0, 4).Draw(t, "new") == 0 {
				name := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "client")
				s := b.Share(person(name))
				owner[s] = name
				all = append(all, s)
			}
			s := rapid.SampledFrom(all).Draw(t, "share")
			switch rapid.IntRange(0, 4).Draw(t, "how") {
			case 0:
				b.Release(s)
				size[s] = 0
			case 1:
				b.Receive(s)
			case 2:
				b.Keep(s)
			default:
				to := rapid.IntRange(0, 60).Draw(t, "to")
				evicted, ok := b.Grow(s, to)
				for _, v := range evicted {
					require.NotSame(t, s, v)
					size[v] = 0
				}
				if ok {
					size[s] = to
				}
			}
			total := 0
			each, most := map[string]int{}, map[string]int{}
			for s, n := range size {
				require.Equal(t, n, s.Used())
				total += n
				each[owner[s]] += n
				most[owner[s]] = max(most[owner[s]], n)
			}
			require.Equal(t, total, b.Len())
			require.LessOrEqual(t, total, 100+3*5)
			for name, n := range each {
				require.True(t, n <= 40 || n == most[name], "more than its part only for a single one")
			}
		}
	})
}

// One client that receives or sends as much as it can leaves the others their part, and a client loses the request that it sends for the
// longest time to its next one.
func TestOneClientLeavesMemoryToOthers(t *testing.T) {
	b := budget.NewBytes()
	grow := func(name string, size int, keep bool) (*budget.Share, []*budget.Share, bool) {
		s := b.Share(person(name))
		b.Receive(s)
		evicted, ok := b.Grow(s, size)
		if keep {
			b.Keep(s)
		}
		return s, evicted, ok
	}
	first, _, ok := grow("flood", 40<<20, false)
	require.True(t, ok)
	_, evicted, ok := grow("flood", 40<<20, true)
	require.True(t, ok)
	require.Equal(t, []*budget.Share{first}, evicted)
	_, _, ok = grow("flood", 40<<20, true)
	require.False(t, ok, "an answer does not give way")
	_, _, ok = grow("ada", 200<<20, true)
	require.True(t, ok, "a single one may be larger")
	_, _, ok = grow("bob", budget.BytesOwn, true)
	require.True(t, ok)
	_, _, ok = grow("eve", 20<<20, true)
	require.False(t, ok, "all is used")
}

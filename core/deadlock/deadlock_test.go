package deadlock_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/deadlock"
	"lockstep/core/job"
	"lockstep/core/lock"
)

const jobs = 5

// graph is a graph of waits with all vertices of the jobs 1 to 5.
type graph map[deadlock.Vertex][]deadlock.Wait

func vertices() []deadlock.Vertex {
	var all []deadlock.Vertex
	for id := range job.ID(jobs) {
		all = append(all, deadlock.Vertex{Job: id + 1}, deadlock.Vertex{Job: id + 1, End: true})
	}
	return all
}

func someGraph(t *rapid.T) graph {
	g := graph{}
	all := vertices()
	for range rapid.IntRange(0, 12).Draw(t, "waits") {
		from, to := rapid.SampledFrom(all).Draw(t, "from"), rapid.SampledFrom(all).Draw(t, "to")
		if from.Job != to.Job {
			g[from] = append(g[from], deadlock.Wait{For: to, By: deadlock.Cause(rapid.IntRange(0, 2).Draw(t, "by"))})
		}
	}
	return g
}

// distances are the lengths of the shortest paths of at least one edge, by vertices, as all paths say (Floyd and Warshall).
func (g graph) distances() map[[2]deadlock.Vertex]int {
	d := map[[2]deadlock.Vertex]int{}
	for _, v := range vertices() {
		if v.End {
			d[[2]deadlock.Vertex{v, {Job: v.Job}}] = 1
		}
		for _, w := range g[v] {
			d[[2]deadlock.Vertex{v, w.For}] = 1
		}
	}
	for _, k := range vertices() {
		for _, i := range vertices() {
			for _, j := range vertices() {
				a, first := d[[2]deadlock.Vertex{i, k}]
				b, second := d[[2]deadlock.Vertex{k, j}]
				if c, known := d[[2]deadlock.Vertex{i, j}]; first && second && (!known || a+b < c) {
					d[[2]deadlock.Vertex{i, j}] = a + b
				}
			}
		}
	}
	return d
}

// walk follows the steps from a vertex. It returns the last vertices that they may lead to, each with the number of edges.
func (g graph) walk(from deadlock.Vertex, steps []deadlock.Step) map[deadlock.Vertex]int {
	at := withOpcodes(map[deadlock.Vertex]int{from: 0})
	for _, s := range steps {
		next := map[deadlock.Vertex]int{}
		for v, n := range at {
			for _, w := range g[v] {
				if v.Job == s.Job && w.For.Job == s.On && w.By == s.By {
					keepLeast(next, w.For, n+1)
				}
			}
		}
		at = withOpcodes(next)
	}
	return at
}

// withOpcodes adds the edges from the end of a job to its opcode.
func withOpcodes(at map[deadlock.Vertex]int) map[deadlock.Vertex]int {
	for id := range job.ID(jobs) {
		if n, is := at[deadlock.Vertex{Job: id + 1, End: true}]; is {
			keepLeast(at, deadlock.Vertex{Job: id + 1}, n+1)
		}
	}
	return at
}

func keepLeast(at map[deadlock.Vertex]int, v deadlock.Vertex, n int) {
	if had, is := at[v]; !is || n < had {
		at[v] = n
	}
}

// 1,000 random graphs: a cycle is found if and only if a naive search finds one, it is a shortest one, and its steps are waits.
func TestCyclesOfRandomGraphs(t *testing.T) {
	found, none := 0, 0
	for range 10 { // of 100 draws
		rapid.Check(t, func(t *rapid.T) {
			g := someGraph(t)
			distances := g.distances()
			for _, v := range vertices() {
				s := deadlock.Search{Waits: func(v deadlock.Vertex) []deadlock.Wait { return g[v] }, Budget: 1000}
				cycle := s.Cycle(v)
				length, is := distances[[2]deadlock.Vertex{v, v}]
				require.Equal(t, is, cycle != nil, "%v: %v", v, g)
				if !is {
					none++
					continue
				}
				found++
				require.Equal(t, v.Job, cycle[0].Job)
				require.Equal(t, v.Job, cycle[len(cycle)-1].On)
				require.Equal(t, length, g.walk(v, cycle)[v], "%v: %v", v, cycle)
			}
		})
	}
	require.Positive(t, found)
	require.Positive(t, none)
}

func TestASearchWithoutBudget(t *testing.T) {
	g := graph{}
	for id := range job.ID(10) {
		g[deadlock.Vertex{Job: id}] = []deadlock.Wait{{For: deadlock.Vertex{Job: (id + 1) % 10}}}
	}
	s := deadlock.Search{Waits: func(v deadlock.Vertex) []deadlock.Wait { return g[v] }, Budget: 9}
	require.Nil(t, s.Cycle(deadlock.Vertex{}))
	require.Zero(t, s.Budget)
	s.Budget = 10
	require.Len(t, s.Cycle(deadlock.Vertex{}), 10)
}

func free(name string, mode lock.Mode) lock.Item {
	return lock.Item{Lock: lock.Member(lock.Free, name), Mode: mode}
}

func TestWhoseLocksAJobNeeds(t *testing.T) {
	l := deadlock.NewLocks()
	l.Set(lock.Record{Owner: lock.JobOwner(1, "/l/1", 1), Locks: []lock.Item{free("a", lock.Exclusive), free("b", lock.Exclusive)}})
	l.Set(lock.Record{Owner: lock.JobOwner(2, "/l/2", 2), Locks: []lock.Item{free("c", lock.Shared)}})
	l.Set(lock.Record{Owner: lock.NamedOwner("admin", "/l/3", 3), Locks: []lock.Item{free("d", lock.Exclusive)}})
	needs := func(id job.ID, n lock.RequiredLocks) (on []job.ID) {
		for _, w := range l.Needing(id, n) {
			require.Equal(t, deadlock.Lock, w.By)
			require.False(t, w.For.End, "a lock is free when the opcode has ended")
			on = append(on, w.For.Job)
		}
		return on
	}
	require.Equal(t, []job.ID{1}, needs(3, lock.RequiredLocks{Request: lock.Request{free("a", lock.Shared), free("c", lock.Shared), free("d", lock.Shared)}}))
	require.Equal(t, []job.ID{1, 2}, needs(3, lock.RequiredLocks{Request: lock.Request{free("a", lock.Shared), free("c", lock.Exclusive)}}))
	require.Empty(t, needs(1, lock.RequiredLocks{Request: lock.Request{free("a", lock.Exclusive)}}), "its own")

	anyOf := []lock.Item{free("a", lock.Exclusive), free("b", lock.Exclusive), free("e", lock.Exclusive)}
	require.Empty(t, needs(3, lock.RequiredLocks{AnyOf: anyOf, Count: 1}), "one is free")
	require.Equal(t, []job.ID{1}, needs(3, lock.RequiredLocks{AnyOf: anyOf, Count: 2}), "one of two is enough, and job 1 has both")

	l.Set(lock.Record{Owner: lock.JobOwner(3, "/l/4", 4), Pending: &lock.Pending{Request: lock.Request{free("a", lock.Exclusive)}}})
	require.Equal(t, []deadlock.Wait{{For: deadlock.Vertex{Job: 1}, By: deadlock.Lock, Lock: lock.Member(lock.Free, "a")}}, l.Pending(3))
	l.Set(lock.Record{Owner: lock.JobOwner(1, "/l/1", 1)})
	require.Empty(t, l.Pending(3))
	l.Set(lock.Record{Owner: lock.JobOwner(3, "/l/4", 4), Locks: []lock.Item{free("a", lock.Exclusive)}})
	require.Empty(t, l.Pending(3))
	require.True(t, slices.Equal(needs(2, lock.RequiredLocks{Request: lock.Request{free("a", lock.Shared)}}), []job.ID{3}))
}

package locks

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"lockstep/cmd/internal/term"
	"lockstep/core/answer"
)

// waitGraph has an edge from each waiting owner or job to each that it waits for.
type waitGraph struct {
	vertices map[string]*vertex
}

// vertex is a lock owner or a job that waits or is waited for.
type vertex struct {
	owner   answer.LockOwner
	name    string     // of the job; "": it has none
	waiters []waitEdge // edges from waiting vertices
	blocker *vertex    // one of the vertices that this vertex waits for; nil: none
	idle    string     // text of a request that has no blocker

	seen, open bool // while printing: already shown; on the path to the current vertex
}

type waitEdge struct {
	waiter *vertex
	text   string // "waits 4m00s for node/n1"
}

func newWaitGraph(state lockState) *waitGraph {
	g := &waitGraph{vertices: map[string]*vertex{}}
	held := holdings(state.Locks)
	for _, wait := range state.Waits {
		waiter := g.vertex(wait.Owner)
		since := "waits " + term.Span(time.Duration(wait.Seconds*float64(time.Second))) + " for "
		if wait.Withheld {
			waiter.idle = since + lockNames(wait.Request) + ", which it does not get for now: see lockstep why"
			continue
		}
		if len(wait.Blockers) == 0 {
			waiter.idle = since + lockNames(wait.Request) + ", which is free now"
		}
		for _, blocker := range wait.Blockers {
			g.add(g.vertex(blocker), waiter, since+lockNames(inTheWay(wait.Request, held[blocker.Who])))
		}
	}
	for _, wait := range state.Jobs {
		waiter := g.vertex(answer.LockOwner{Who: answer.Principal{Job: wait.ID}})
		for _, on := range wait.On {
			text := "waits for its end with " + term.Visible(term.Enumerate(Wanted(on.Statuses), "or"))
			if on.Process {
				text = "waits for its end in a process"
			}
			g.add(g.vertex(answer.LockOwner{Who: answer.Principal{Job: on.ID}}), waiter, text)
		}
	}
	for _, v := range g.vertices {
		slices.SortFunc(v.waiters, func(a, b waitEdge) int { return a.waiter.compare(b.waiter) })
	}
	return g
}

// vertex finds or makes the vertex of an owner. A job is one vertex, whatever its process:
// dependencies name no process.
func (g *waitGraph) vertex(owner answer.LockOwner) *vertex {
	key := PrincipalText(owner.Who)
	if owner.Who.Named {
		key = fmt.Sprintf("%q %q %d", owner.Who.Name, owner.Livelock, owner.PID)
	}
	v := g.vertices[key]
	if v == nil {
		v = &vertex{owner: owner}
		g.vertices[key] = v
	}
	return v
}

func (g *waitGraph) add(blocker, waiter *vertex, text string) {
	blocker.waiters = append(blocker.waiters, waitEdge{waiter, text})
	waiter.blocker = blocker
}

func (g *waitGraph) empty() bool { return len(g.vertices) == 0 }

// jobs are the ids of the jobs, in order.
func (g *waitGraph) jobs() (ids []int64) {
	for _, v := range g.vertices {
		if !v.owner.Who.Named {
			ids = append(ids, v.owner.Who.Job)
		}
	}
	slices.Sort(ids)
	return ids
}

func (g *waitGraph) setNames(known map[int64]answer.ListedJob) {
	for _, v := range g.vertices {
		if !v.owner.Who.Named {
			v.name = known[v.owner.Who.Job].Name
		}
	}
}

func (v *vertex) compare(u *vertex) int {
	if c := v.owner.Who.Compare(u.owner.Who); c != 0 {
		return c
	}
	return v.owner.PID - u.owner.PID
}

func (v *vertex) String() string {
	if v.owner.Who.Named {
		return fmt.Sprintf("%s (pid %d)", PrincipalText(v.owner.Who), v.owner.PID)
	}
	if v.name != "" {
		return fmt.Sprintf("%s (%s)", PrincipalText(v.owner.Who), term.Visible(v.name))
	}
	return PrincipalText(v.owner.Who)
}

// print writes a tree for each vertex that does not wait, then one for each remaining cycle. Below each vertex are those that wait for
// it.
func (g *waitGraph) print(out io.Writer, colours term.Palette) {
	ordered := make([]*vertex, 0, len(g.vertices))
	for _, v := range g.vertices {
		ordered = append(ordered, v)
	}
	slices.SortFunc(ordered, (*vertex).compare)
	p := graphPrinter{out: out, colours: colours}
	for _, v := range ordered {
		if v.blocker == nil {
			p.root(v, v.idle)
		}
	}
	for _, v := range ordered {
		if !v.seen {
			p.root(v.inCircle(), "waits for itself, in a cycle")
		}
	}
}

// inCircle follows blockers from a vertex that is not shown yet, and returns a vertex of the cycle.
func (v *vertex) inCircle() *vertex {
	passed := map[*vertex]bool{}
	for ; !passed[v]; v = v.blocker {
		passed[v] = true
	}
	return v
}

type graphPrinter struct {
	out     io.Writer
	colours term.Palette
}

func (p graphPrinter) root(v *vertex, remark string) {
	fmt.Fprintln(p.out, strings.TrimRight(p.colours.Title(v.String())+"  "+remark, " "))
	p.below(v, "")
}

// below writes the vertices that wait for v. A vertex that is already shown gets only its name.
func (p graphPrinter) below(v *vertex, indent string) {
	v.seen, v.open = true, true
	for i, edge := range v.waiters {
		branch, further := "├─ ", "│  "
		if i == len(v.waiters)-1 {
			branch, further = "└─ ", "   "
		}
		line := indent + branch + p.colours.Title(edge.waiter.String()) + "  " + edge.text
		switch {
		case edge.waiter.open:
			fmt.Fprintln(p.out, line+"  (closes the cycle)")
		case edge.waiter.seen:
			fmt.Fprintln(p.out, line+"  (see above)")
		default:
			fmt.Fprintln(p.out, line)
			p.below(edge.waiter, indent+further)
		}
	}
	v.open = false
}

func lockNames(items []answer.LockItem) string {
	const shown = 5
	var names []string
	for _, item := range items {
		if item.Mode != "release" {
			names = append(names, term.Visible(item.Lock))
		}
	}
	return term.FirstFew(names, shown)
}

// holdings maps owners to the locks that they hold, from the rows of the lock monitor.
func holdings(rows []answer.Lock) map[answer.Principal][]answer.LockItem {
	held := map[answer.Principal][]answer.LockItem{}
	for _, row := range rows {
		for _, owner := range row.Owners {
			who := holderOf(owner)
			held[who] = append(held[who], answer.LockItem{Lock: row.Name, Mode: row.Mode})
		}
	}
	return held
}

// inTheWay is the part of a request that conflicts with the locks of one owner, or the whole
// request if no conflict is known.
func inTheWay(request, held []answer.LockItem) []answer.LockItem {
	var blocked []answer.LockItem
	for _, wanted := range request {
		if slices.ContainsFunc(held, func(h answer.LockItem) bool { return conflicts(wanted, h) }) {
			blocked = append(blocked, wanted)
		}
	}
	if len(blocked) == 0 {
		return request
	}
	return blocked
}

// conflicts reports whether two owners cannot hold the locks in these modes. A lock and all of its level conflict, too.
func conflicts(i, held answer.LockItem) bool {
	if i.Mode == "release" || i.Mode == "shared" && held.Mode == "shared" {
		return false
	}
	kind, member, _ := strings.Cut(i.Lock, "/")
	heldKind, heldMember, _ := strings.Cut(held.Lock, "/")
	return i.Lock == held.Lock || kind == heldKind && kind != "cluster" && (member == lockset || heldMember == lockset)
}

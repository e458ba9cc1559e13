package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/core/answer"
	"lockstep/core/lock"
	"lockstep/core/why"
	"lockstep/edge/rapi"
)

// locksView is the data of the locks.
type locksView struct {
	Tree  []treeNode
	Locks []lockRow
	Jobs  []jobWaitRow
}

// treeNode is an owner of locks with those that wait for it.
type treeNode struct {
	Owner    ownerName
	What     string
	Children []treeNode
}

// ownerName is a job or a client.
type ownerName struct {
	Job  int64
	Name string
}

type lockRow struct {
	Name, Mode string
	Owners     []ownerName
	Pending    []pendingOwner
}

type pendingOwner struct {
	Owner ownerName
	Mode  string
}

type jobWaitRow struct {
	ID int64
	On []answer.AwaitedJob
}

func (x *Console) locks(q *request) error {
	found, err := ask[answer.Locks](q, rapi.Large, "LockstepLocks")
	if err != nil {
		return err
	}
	v := locksView{Tree: waitTree(found.Waits)}
	for _, l := range found.Locks {
		if l.Name == lock.BGL.String() && l.IsBeside(found.Locks) {
			continue
		}
		row := lockRow{Name: l.Name, Mode: l.Mode}
		for _, o := range l.Owners {
			row.Owners = append(row.Owners, ownerOf(o))
		}
		for _, p := range l.Waiters(found.Waits) {
			row.Pending = append(row.Pending, pendingOwner{ownerOf(p.Owner), p.Mode})
		}
		if row.Owners != nil || row.Pending != nil {
			v.Locks = append(v.Locks, row)
		}
	}
	slices.SortStableFunc(v.Locks, func(a, b lockRow) int { return cmp.Compare(len(b.Pending), len(a.Pending)) })
	for _, w := range found.Jobs {
		v.Jobs = append(v.Jobs, jobWaitRow{w.ID, w.On})
	}
	return q.show("locks", "Locks", "locks", "locks", v)
}

// ownerOf reads the JSON text of a principal. Any other text is the name.
func ownerOf(text string) ownerName {
	var p answer.Principal
	if json.Unmarshal([]byte(text), &p) != nil {
		return ownerName{Name: text}
	}
	return ownerName{p.Job, p.Name}
}

// waitTree puts each waiting owner below the owners that it waits for. An owner that waits for several is below each of them. The longest
// wait comes first.
func waitTree(waits []answer.LockWait) []treeNode {
	waiting := map[answer.Principal]bool{}
	below := map[answer.Principal][]answer.LockWait{}
	for _, w := range waits {
		waiting[w.Owner.Who] = true
		for _, b := range w.Blockers {
			below[b.Who] = append(below[b.Who], w)
		}
	}
	var roots []answer.Principal
	for who := range below {
		if !waiting[who] {
			roots = append(roots, who)
		}
	}
	longest := func(who answer.Principal) float64 {
		seconds := 0.0
		for _, w := range below[who] {
			seconds = max(seconds, w.Seconds)
		}
		return seconds
	}
	slices.SortFunc(roots, func(a, b answer.Principal) int { return cmp.Or(cmp.Compare(longest(b), longest(a)), a.Compare(b)) })
	var build func(who answer.Principal, what string, path []answer.Principal) treeNode
	build = func(who answer.Principal, what string, path []answer.Principal) treeNode {
		n := treeNode{Owner: ownerName{who.Job, who.Name}, What: what}
		if slices.Contains(path, who) || len(path) > 20 {
			return n
		}
		next := slices.SortedStableFunc(slices.Values(below[who]), func(a, b answer.LockWait) int { return cmp.Compare(b.Seconds, a.Seconds) })
		for _, w := range next {
			n.Children = append(n.Children, build(w.Owner.Who, waitText(w), append(path, who)))
		}
		return n
	}
	var tree []treeNode
	for _, who := range roots {
		tree = append(tree, build(who, "holds locks", nil))
	}
	for _, w := range waits { // those that are about to get their locks
		if len(w.Blockers) == 0 {
			tree = append(tree, treeNode{Owner: ownerName{w.Owner.Who.Job, w.Owner.Who.Name}, What: waitText(w)})
		}
	}
	return tree
}

func waitText(w answer.LockWait) string {
	r := answer.Reason{Locks: w.Request}
	for _, held := range w.Locks {
		r.Blockers = append(r.Blockers, answer.Blocker{Locks: held})
	}
	blocked, _ := why.BlockedLocks(r)
	names := make([]string, len(blocked))
	for i, item := range blocked {
		names[i] = item.Lock + " (" + item.Mode + ")"
	}
	return shorten("waits for "+strings.Join(names, ", "), 200) + fmt.Sprintf(", for %s", span(time.Duration(w.Seconds*float64(time.Second))))
}

package distribution

import (
	"slices"
	"time"
)

// await is an answer that waits for the distribution of the configuration that was the newest one when it began (config.md 8.2).
type await struct {
	id       uint64
	group    string // uuid of a node group; "": all nodes
	force    bool
	deadline time.Time

	resolved bool // version and pending are set
	version  uint64
	pending  []target // nodes that have not got it, and have not been given up
}

// Await begins to wait for the newest configuration. Next releases id when the required nodes have acknowledged that or a newer
// configuration, at the latest after AwaitMax. The required nodes are those of a group, or all nodes if group is "".
//
// Next does not wait for a node that answers with an error, nor for a node whose calls have failed for AwaitMax and that fails
// again. A node that has failed for a shorter time may be restarting, and Next waits for it.
//
// With force the nodes are sent the content even if they have acknowledged it.
func (t *Tracker) Await(now time.Time, id uint64, group string, force bool) {
	t.awaits = append(t.awaits, &await{id: id, group: group, force: force, deadline: now.Add(AwaitMax)})
}

// resolveAwaits determines the required nodes of new awaits. Before the first configuration there are none to determine. The
// pauses of these nodes end.
func (t *Tracker) resolveAwaits() {
	for _, a := range t.awaits {
		if a.resolved {
			continue
		}
		a.resolved, a.version, a.pending = true, t.version, t.sortedTargets(a.group)
		for _, at := range a.pending {
			r := t.records[at]
			r.retryAt = time.Time{}
			if a.force {
				r.forget()
			}
		}
	}
}

// isAwaited reports whether an answer waits for a newer content of a kind.
func (t *Tracker) isAwaited(kind Kind) bool {
	return slices.ContainsFunc(t.awaits, func(a *await) bool {
		return slices.ContainsFunc(a.pending, func(at target) bool {
			return at.kind == kind && (t.contents[kind] == nil || t.contents[kind].Version < a.version)
		})
	})
}

// giveUp lets no answer wait for a target any longer.
func (t *Tracker) giveUp(at target) {
	for _, a := range t.awaits {
		a.pending = slices.DeleteFunc(a.pending, func(other target) bool { return other == at })
	}
}

// releaseAwaits moves the answers that need not wait any longer into the decision.
func (t *Tracker) releaseAwaits(now time.Time, d *Decision) {
	t.awaits = slices.DeleteFunc(t.awaits, func(a *await) bool {
		a.pending = slices.DeleteFunc(a.pending, func(at target) bool {
			r := t.records[at]
			return r == nil || !r.wanted || r.acked != 0 && r.ackedVersion >= a.version
		})
		over := a.resolved && len(a.pending) == 0 || !now.Before(a.deadline)
		if over {
			d.Released = append(d.Released, a.id)
		} else {
			d.wake(a.deadline)
		}
		return over
	})
}

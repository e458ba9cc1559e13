// Package locks has the command locks: the owners of locks, the requests that wait, and the graph
// of waiting owners. It has the texts for locks and owners, which package why also uses.
package locks

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/selection"
	"lockstep/core/answer"
	"lockstep/core/lock"
)

type locksOptions struct {
	Graph bool
}

// NewCommand is the command locks.
func NewCommand(globals *cli.Globals) *cobra.Command {
	opts := locksOptions{}
	command := &cobra.Command{
		Use:   "locks [flags] [NAME...]",
		Short: "Show locks, their owners, and the owners that wait",
		Long: `Show each lock that is held or requested: its mode, its owners, and the owners that
wait for it. A job that waits for the end of another job is shown as if it waited for
a lock with the name job/ID, with the accepted statuses.

A NAME is a lock or a kind of locks: instance, nodegroup, node, node-res, network,
cluster, lock or job. A name that begins with no kind is the lock lock/NAME. A named
lock is shown together with locks that include it: a held node/[lockset], which
is all nodes, and an exclusively held cluster/BGL, which is all locks. Who has any lock
shares cluster/BGL; it is omitted, unless named, if all who share it have other locks.

A request is for all locks of an opcode at once. It is pending at each of them, with
the note "waits for another lock" where it could share the lock. The note "does not get
it for now" says that its job is paused, held or rejected, or waits for a run slot.

--graph shows trees of waiting owners. The roots do not wait; below each owner are
the owners that wait for it, with locks and times. An owner that waits for several
owners appears below each. Owners without waiting owners are omitted.

Exit code: 0, also if there are no such locks; 2 for a kind that does not exist.
With --json, with or without --graph: {"locks": [{"name", "mode": string,
"owners": [WHO], "pending": [{"mode", "owner": WHO}]}],
"waits": [{"owner": OWNER, "priority": number, "request": [{"lock", "mode"}],
"blockers": [OWNER], "seconds": number}],
"jobs": [{"id": number, "on": [{"id": number, "statuses": [string]}]}]}. WHO is
the id of a job, or the name of a client in quotes; OWNER is {"owner": WHO,
"livelock": string, "pid": number}. "mode" is omitted if the lock itself is not
held.`,
		Example: `  lockstep locks
  lockstep locks --graph
  lockstep locks node instance/web1
  lockstep locks --json | jq '.locks[] | select(.pending != []) | .name'`,
		RunE: func(command *cobra.Command, args []string) error {
			return runLocks(command.Context(), opts, globals, args)
		},
	}
	command.Flags().BoolVarP(&opts.Graph, "graph", "g", false, "show trees of waiting owners")
	return command
}

// lockState is the state of the locks, or a part of it.
type lockState answer.Locks

// Wanted are the accepted statuses of a dependency. None means success and error.
func Wanted(statuses []string) []string {
	if len(statuses) == 0 {
		return []string{client.StatusSuccess, client.StatusError}
	}
	return statuses
}

// lockKinds are the kinds that a NAME may have: the levels of locks, and job.
func lockKinds() []string {
	return []string{"cluster", "instance", "nodegroup", "node", "node-res", "network", "lock", "job"}
}

// checkLockNames checks the arguments, and gives names of free locks their full names.
func checkLockNames(names []string) error {
	for i, name := range names {
		if kind, _, _ := strings.Cut(name, "/"); slices.Contains(lockKinds(), kind) {
			continue
		}
		full, err := lock.Meant(name)
		switch {
		case err != nil:
			return cli.Usagef("%s: %v", name, err)
		case full == name:
			return cli.Usagef("%q is not a lock: a name begins with one of %s, like node/n1", name, strings.Join(lockKinds(), ", "))
		}
		names[i] = full
	}
	return nil
}

func runLocks(ctx context.Context, opts locksOptions, globals *cli.Globals, names []string) error {
	if err := checkLockNames(names); err != nil {
		return err
	}
	daemon := globals.Connect()
	defer daemon.Close()
	state := lockState{}
	if err := daemon.Query(ctx, "LockstepLocks", nil, &state); err != nil {
		return err
	}
	for i := range state.Locks {
		state.Locks[i].Pending = state.Locks[i].Waiters(state.Waits) // as in the graph
	}
	if len(names) > 0 {
		state = state.only(names)
	}
	streams := globals.Streams
	if globals.JSON {
		return cli.PrintJSON(streams.Out, state.document())
	}
	all := state.Locks
	state.Locks = slices.DeleteFunc(slices.Clone(all), func(row answer.Lock) bool {
		return isIdle(row) || len(names) == 0 && row.Name == bigLock && row.IsBeside(all)
	})
	switch {
	case opts.Graph:
		graph := newWaitGraph(state)
		if graph.empty() {
			fmt.Fprintln(streams.Err, "no job or client waits for a lock or for another job")
			return nil
		}
		graph.setNames(selection.Known(ctx, daemon, graph.jobs()))
		graph.print(streams.Out, globals.Palette())
	case len(state.Locks) == 0 && len(state.Jobs) == 0 && len(names) == 0:
		fmt.Fprintln(streams.Err, "no lock is held or requested")
	case len(state.Locks) == 0 && len(state.Jobs) == 0:
		fmt.Fprintln(streams.Err, "no such lock is held or requested")
	default:
		fmt.Fprintln(streams.Out, lockTable(state, streams.Width))
	}
	return nil
}

// only is the part of the state about the locks with these names, kinds or job/ID.
func (s lockState) only(names []string) lockState {
	about := func(lock string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return namesLock(name, lock) })
	}
	result := lockState{}
	for _, row := range s.Locks {
		if about(row.Name) || slices.ContainsFunc(names, func(name string) bool { return standsFor(row, name) }) {
			result.Locks = append(result.Locks, row)
		}
	}
	for _, wait := range s.Waits {
		if slices.ContainsFunc(wait.Request, func(item answer.LockItem) bool { return about(item.Lock) }) {
			result.Waits = append(result.Waits, wait)
		}
	}
	for _, wait := range s.Jobs {
		on := slices.DeleteFunc(slices.Clone(wait.On), func(a answer.AwaitedJob) bool { return !about(jobLock(a.ID)) })
		if len(on) > 0 {
			result.Jobs = append(result.Jobs, answer.JobWait{ID: wait.ID, On: on})
		}
	}
	return result
}

// namesLock reports whether an argument is a lock's name or its kind.
func namesLock(argument, lock string) bool {
	kind, _, _ := strings.Cut(lock, "/")
	return argument == lock || strings.TrimSuffix(argument, "/") == kind
}

// Locks that include others.
const (
	bigLock = "cluster/BGL"
	lockset = "[lockset]"
)

// standsFor reports whether the lock includes the lock that an argument names. The big lock does
// so only if it is held exclusively: nearly every job shares it.
func standsFor(r answer.Lock, argument string) bool {
	kind, member, _ := strings.Cut(argument, "/")
	if kind == "job" {
		return false
	}
	if r.Name == bigLock {
		return r.Mode == "exclusive"
	}
	return member != "" && r.Name == kind+"/"+lockset
}

// isIdle reports whether the lock itself is neither held nor requested.
func isIdle(r answer.Lock) bool { return r.Mode == "" && len(r.Owners) == 0 && len(r.Pending) == 0 }

// jobLock is the lock name that stands for a job's end.
func jobLock(id int64) string { return fmt.Sprintf("job/%d", id) }

// lockTable has a row for each lock and for each awaited job. It cuts long lists: the big lock may
// have thousands of owners.
func lockTable(state lockState, width int) string {
	const shown = 8
	rows := make([]table.Row, 0, len(state.Locks)+len(state.Jobs))
	for _, lock := range state.Locks {
		var owners, pending []string
		for _, owner := range lock.Owners {
			owners = append(owners, PrincipalText(holderOf(owner)))
		}
		for _, waiter := range lock.Pending {
			text := term.Visible(waiter.Mode) + ":" + PrincipalText(holderOf(waiter.Owner))
			switch {
			case state.withholds(waiter):
				text += " (does not get it for now)"
			case !state.hinders(lock, waiter):
				text += " (waits for another lock)"
			}
			pending = append(pending, text)
		}
		rows = append(rows, table.Row{term.Visible(lock.Name), term.OrDash(term.Visible(lock.Mode)),
			term.OrDash(term.FirstFew(owners, shown)), term.OrDash(term.FirstFew(pending, shown))})
	}
	for _, awaited := range awaitedRows(state.Jobs) {
		rows = append(rows, table.Row{jobLock(awaited.id), "-", "-", term.FirstFew(awaited.pending(), shown)})
	}
	return term.TextTable(table.Row{"Name", "Mode", "Owner", "Pending"}, rows, []int{0, 2, 3}, width)
}

// withholds reports whether the waiter gets no lock for now, whatever is free: its job is paused, held or rejected, or has no slot.
func (s lockState) withholds(waiter answer.LockWaiter) bool {
	who := holderOf(waiter.Owner)
	return slices.ContainsFunc(s.Waits, func(w answer.LockWait) bool { return w.Withheld && w.Owner.Who == who })
}

// hinders reports whether a waiter can be waiting for this lock. A request is pending at all of its
// locks, also at those that it could share.
func (s lockState) hinders(lock answer.Lock, waiter answer.LockWaiter) bool {
	const exclusive = "exclusive"
	if waiter.Mode == exclusive || lock.Mode == exclusive {
		return true
	}
	kind, _, _ := strings.Cut(lock.Name, "/")
	for _, row := range s.Locks {
		if row.Name != lock.Name && row.Name != kind+"/"+lockset {
			continue
		}
		if row.Mode == exclusive || slices.ContainsFunc(row.Pending, func(w answer.LockWaiter) bool { return w.Mode == exclusive }) {
			return true
		}
	}
	return false
}

// awaitedRow is a job and the jobs that wait for its end.
type awaitedRow struct {
	id      int64
	waiters []answer.AwaitedJob // their ids and accepted statuses, or "process"
}

// awaitedRows returns a row for each awaited job, by id, with the jobs that wait for it.
func awaitedRows(waits []answer.JobWait) []awaitedRow {
	byID := map[int64]int{}
	var jobs []awaitedRow
	for _, wait := range waits {
		for _, on := range wait.On {
			i, known := byID[on.ID]
			if !known {
				i = len(jobs)
				byID[on.ID] = i
				jobs = append(jobs, awaitedRow{id: on.ID})
			}
			statuses := Wanted(on.Statuses)
			if on.Process {
				statuses = []string{"process"}
			}
			jobs[i].waiters = append(jobs[i].waiters, answer.AwaitedJob{ID: wait.ID, Statuses: statuses})
		}
	}
	slices.SortFunc(jobs, func(a, b awaitedRow) int { return int(a.id - b.id) })
	return jobs
}

// pending is the list of waiters in the form of designs.md "Chained jobs".
func (j awaitedRow) pending() []string {
	words := make([]string, len(j.waiters))
	for i, waiter := range j.waiters {
		words[i] = term.Visible(strings.Join(waiter.Statuses, ",")) + ":" + jobLock(waiter.ID)
	}
	return words
}

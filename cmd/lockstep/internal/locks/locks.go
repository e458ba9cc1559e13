// Package locks has the command locks: who holds which lock, who waits for it, and the
// graph of who waits for whom. It owns how locks and their owners are shown, which package
// why shows too.
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
	"lockstep/core/answer"
)

type locksOptions struct {
	Graph bool
}

// NewCommand is the command locks.
func NewCommand(globals *cli.Globals) *cobra.Command {
	opts := locksOptions{}
	command := &cobra.Command{
		Use:   "locks [flags] [NAME...]",
		Short: "Show who holds locks, who waits for them, and for whom",
		Long: `Show each lock that somebody holds or waits for: in which mode it is held, by
whom, and who waits for it. A job that waits for the end of another one is shown
as if it waited for a lock of the name job/ID, with the statuses that it wants.

A NAME is that of a lock, or of a whole kind: instance, nodegroup, node, node-res,
network, cluster or job. A lock is shown with what stands for it and others: a
node/[lockset] that is held, which is all nodes, and a cluster/BGL that is held
exclusively, which is everything.

A request is for all locks of an opcode at once. It is pending at each of them, and
"waits for another lock" stands beside it where it could share this one.

With --graph: who waits for whom, as a tree. At its roots are those who wait for
nobody; below each are those whom it keeps waiting, for what and for how long.
Who waits for several appears below each of them. Who holds locks that nobody
waits for is left out.

Exit code: 0, also if there are no such locks; 2 for a kind that does not exist.
With --json, with or without --graph: {"locks": [{"name", "mode": string,
"owners": [WHO], "pending": [{"mode", "owner": WHO}]}],
"waits": [{"owner": OWNER, "priority": number, "request": [{"lock", "mode"}],
"blockers": [OWNER], "seconds": number}],
"jobs": [{"id": number, "on": [{"id": number, "statuses": [string]}]}]}. WHO is
the id of a job, or the name of a client in quotes; OWNER is {"owner": WHO,
"livelock": string, "pid": number}. "mode" is left out where nobody holds the
lock itself.`,
		Example: `  lockstep locks
  lockstep locks --graph
  lockstep locks node instance/web1
  lockstep locks --json | jq '.locks[] | select(.pending != []) | .name'`,
		RunE: func(command *cobra.Command, args []string) error {
			return runLocks(command.Context(), opts, globals, args)
		},
	}
	command.Flags().BoolVarP(&opts.Graph, "graph", "g", false, "show who waits for whom, as a tree")
	return command
}

// lockState is what the daemon says of the locks, or a part of it.
type lockState answer.Locks

// Wanted is the statuses with which a wait for the end of a job ends well.
func Wanted(statuses []string) []string {
	if len(statuses) == 0 {
		return []string{client.StatusSuccess, client.StatusError}
	}
	return statuses
}

// lockKinds are the kinds of locks that a NAME may have, and that of jobs.
func lockKinds() []string {
	return []string{"cluster", "instance", "nodegroup", "node", "node-res", "network", "job"}
}

func checkLockNames(names []string) error {
	for _, name := range names {
		if kind, _, _ := strings.Cut(name, "/"); !slices.Contains(lockKinds(), kind) {
			return cli.Usagef("%q is no lock: a name begins with one of %s, like node/n1", name, strings.Join(lockKinds(), ", "))
		}
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
	if len(names) > 0 {
		state = state.only(names)
	}
	streams := globals.Streams
	if globals.JSON {
		return cli.PrintJSON(streams.Out, state.document())
	}
	state.Locks = slices.DeleteFunc(state.Locks, isIdle)
	switch {
	case opts.Graph:
		graph := newWaitGraph(state)
		if graph.empty() {
			fmt.Fprintln(streams.Err, "nobody waits for a lock or for another job")
			return nil
		}
		graph.print(streams.Out, globals.Palette())
	case len(state.Locks) == 0 && len(state.Jobs) == 0 && len(names) == 0:
		fmt.Fprintln(streams.Err, "nobody holds a lock or waits for one")
	case len(state.Locks) == 0 && len(state.Jobs) == 0:
		fmt.Fprintln(streams.Err, "nobody holds such a lock or waits for one")
	default:
		fmt.Fprintln(streams.Out, lockTable(state, streams.Width))
	}
	return nil
}

// only is the part of the state that is about some locks.
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

// namesLock tells whether an argument is a lock's name, or that of its kind.
func namesLock(argument, lock string) bool {
	kind, _, _ := strings.Cut(lock, "/")
	return argument == lock || strings.TrimSuffix(argument, "/") == kind
}

// Locks that stand for others.
const (
	bigLock = "cluster/BGL"
	lockset = "[lockset]"
)

// standsFor tells whether the owners of the lock, or its waiters, concern the lock that an
// argument names. Nearly every job has the big lock shared, which hinders only the jobs
// that want it exclusively.
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

// isIdle tells whether the lock is only in the list because one that it stands for is held.
func isIdle(r answer.Lock) bool { return r.Mode == "" && len(r.Owners) == 0 && len(r.Pending) == 0 }

// jobLock is the name of a job's end, as if it were a lock.
func jobLock(id int64) string { return fmt.Sprintf("job/%d", id) }

// lockTable has a row for each lock and for each job that is waited for. Of long lists
// it shows the first few: the big lock can have thousands of owners.
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
			if !state.hinders(lock, waiter) {
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

// hinders tells whether a lock can be what a waiter waits for. A request names all locks
// of an opcode at once, so that it is also pending at those that it could share at once.
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

// awaitedRow is a job and those who wait for its end.
type awaitedRow struct {
	id      int64
	waiters []answer.AwaitedJob // their ids, and the statuses that they want
}

// awaitedRows turns who waits for whom round: one for each job that is waited for, by id.
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
			jobs[i].waiters = append(jobs[i].waiters, answer.AwaitedJob{ID: wait.ID, Statuses: Wanted(on.Statuses)})
		}
	}
	slices.SortFunc(jobs, func(a, b awaitedRow) int { return int(a.id - b.id) })
	return jobs
}

// pending is the waiters as designs.md "Chained jobs" shows them.
func (j awaitedRow) pending() []string {
	words := make([]string, len(j.waiters))
	for i, waiter := range j.waiters {
		words[i] = term.Visible(strings.Join(waiter.Statuses, ",")) + ":" + jobLock(waiter.ID)
	}
	return words
}

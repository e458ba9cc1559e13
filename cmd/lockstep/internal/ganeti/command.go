// Package ganeti has the commands ganeti check, swap and back: they put lockstep in the place of Ganeti's daemons on this node, and
// take it out again.
//
// A swap and a return are lists of steps. Each step is recorded in lockstep-swap.json in Ganeti's data directory before it is
// done, and can be repeated; so after a crash the same command goes on where it was, and the other one turns round. At no moment
// may two daemons of one kind run: the programs are exchanged while none of them runs and the watcher is paused.
package ganeti

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/accounts"
	"lockstep/cmd/internal/places"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/core/paths"
)

// NewCommand is the command ganeti.
func NewCommand(globals *cli.Globals) *cobra.Command {
	command := &cobra.Command{
		Use:   "ganeti check|swap|back",
		Short: "Put lockstep in the place of Ganeti's daemons, and back",
		Long: `On a node of a Ganeti cluster, lockstep can take the place of ganeti-luxid and
ganeti-wconfd, and of ganeti-rapi, ganeti-confd and ganeti-mond. Run these commands as root: on the
master first, then on each other master candidate, since a failover starts the daemons of that
node. ganeti-confd and ganeti-mond run on every node.`,
		Example: `  lockstep ganeti check
  lockstep ganeti swap
  lockstep ganeti back`,
		Args: func(_ *cobra.Command, args []string) error {
			const all = "check, swap or back"
			if len(args) > 0 {
				return cli.Usagef("ganeti %s, not %q", all, args[0])
			}
			return cli.Usagef("say one of %s", all)
		},
		RunE: func(*cobra.Command, []string) error { return nil }, // without RunE cobra ignores Args
	}
	command.AddCommand(newCheckCommand(globals), newSwapCommand(globals), newBackCommand(globals))
	return command
}

func newCheckCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "Say whether and why not lockstep can take the place of Ganeti's daemons here",
		Long: `Look at this node: the version of Ganeti, users and groups, the configuration, the
programs, free space, running jobs. Nothing is changed.

Exit code: 0 if a swap can begin, 1 if not.
With --json: {"reasons": [string], "notes": [string], "swapped": bool, "rapi": bool,
"confd": bool, "mond": bool, "interrupted_at": string}`,
		Example: "  lockstep ganeti check",
		Args:    cli.WantArgs(0, 0, "ganeti check takes no arguments"),
		RunE: func(*cobra.Command, []string) error {
			n, err := thisNode(globals)
			if err != nil {
				return err
			}
			return report(globals, n.check(extras{}))
		},
	}
}

func report(globals *cli.Globals, f findings) error {
	out := globals.Streams.Out
	if globals.JSON {
		f.Reasons, f.Notes = cli.OrEmpty(f.Reasons), cli.OrEmpty(f.Notes)
		if err := cli.PrintJSON(out, f); err != nil {
			return err
		}
	} else {
		for _, reason := range f.Reasons {
			fmt.Fprintf(out, "refused: %s\n", reason)
		}
		for _, note := range f.Notes {
			fmt.Fprintf(out, "note: %s\n", note)
		}
		if f.Step != "" {
			fmt.Fprintf(out, "interrupted at: %s\n", f.Step)
		}
		place := "Ganeti's daemons are in their place"
		if f.Swapped {
			place = "lockstep is in the place of Ganeti's daemons"
		}
		fmt.Fprintln(out, place)
		for _, name := range f.names() {
			fmt.Fprintln(out, "lockstep is in the place of "+name)
		}
	}
	if len(f.Reasons) > 0 {
		return &cli.ExitError{Code: cli.ExitFailure}
	}
	return nil
}

func newSwapCommand(globals *cli.Globals) *cobra.Command {
	var wanted extras
	command := &cobra.Command{
		Use:   "swap",
		Short: "Put lockstep in the place of ganeti-luxid and ganeti-wconfd on this node",
		Long: `Check the node, pause ganeti-watcher, drain the queue, stop ganeti-luxid and
ganeti-wconfd, save a copy of queue and configuration, divert the two programs, so that
an upgrade of the package leaves lockstep in place, start lockstep under their names,
and undo drain and pause. Running jobs go on.

With --rapi also in the place of ganeti-rapi, at once or later. lockstep's has all
resources of Ganeti's, and its own below /3. With --confd and --mond also in the place
of ganeti-confd and ganeti-mond, on every node: on one that is no master candidate, only
of these. On a node that is not the master only the daemons that run there are stopped.

After a crash the same command goes on, and "lockstep ganeti back" turns round.

Exit code: 0; 1 if the node refuses, or a step has failed.`,
		Example: "  lockstep ganeti swap\n  lockstep ganeti swap --rapi\n  lockstep ganeti swap --confd --mond",
		Args:    cli.WantArgs(0, 0, "ganeti swap takes no arguments"),
		RunE: func(*cobra.Command, []string) error {
			n, err := thisNode(globals)
			if err != nil {
				return err
			}
			return n.swap(wanted)
		},
	}
	command.Flags().BoolVar(&wanted.Rapi, "rapi", false, "also in the place of ganeti-rapi")
	command.Flags().BoolVar(&wanted.Confd, "confd", false, "also in the place of ganeti-confd")
	command.Flags().BoolVar(&wanted.Mond, "mond", false, "also in the place of ganeti-mond")
	return command
}

func newBackCommand(globals *cli.Globals) *cobra.Command {
	startHeld := false
	command := &cobra.Command{
		Use:   "back",
		Short: "Put Ganeti's daemons in their place again",
		Long: `Pause ganeti-watcher, drain the queue, stop lockstep, complete config.data, locks.data
and the serial of the queue, save a copy, remove the diversions, start Ganeti's daemons,
and undo drain and pause. Running jobs of Ganeti's opcodes go on. ganeti-rapi,
ganeti-confd and ganeti-mond are among the daemons if lockstep is in their place.

Refused while a job with opcodes of lockstep is not final, and while a job is held or
not due: Ganeti has neither holds nor start times, so its daemons start such a job at
once. With --start-held they may.

Filter rules that Ganeti's programs cannot read, such as those with an end, do not
apply while Ganeti's daemons run. They are named, and stay for the next swap.

Exit code: 0; 1 if a step has failed.`,
		Example: "  lockstep ganeti back\n  lockstep ganeti back --start-held",
		Args:    cli.WantArgs(0, 0, "ganeti back takes no arguments"),
		RunE: func(*cobra.Command, []string) error {
			n, err := thisNode(globals)
			if err != nil {
				return err
			}
			return n.back(startHeld)
		},
	}
	command.Flags().BoolVar(&startHeld, "start-held", false,
		"go back although Ganeti's daemons start held jobs, and jobs that are not due, at once")
	return command
}

// swap puts lockstep in place, also in that of the wanted extras. It completes an interrupted swap, and does nothing if lockstep is in
// place.
func (n *node) swap(wanted extras) error {
	f := n.check(wanted)
	if len(f.Reasons) > 0 {
		return errors.New(strings.Join(f.Reasons, "; "))
	}
	switch {
	case f.Step == "" && (f.Swapped || f.plain) && f.extras == f.with(wanted):
		n.say("lockstep is in the place of Ganeti's daemons already")
		return nil
	case f.Step == "":
		n.state.Plain, n.state.extras = f.plain, f.with(wanted)
	case n.state.extras != n.state.with(wanted): // the programs may be linked already
		missing := wanted.options(n.state.extras)
		return fmt.Errorf("a %s without %s was interrupted at: %s; lockstep ganeti swap completes it, then say %s again",
			n.state.Action, missing, f.Step, missing)
	}
	return n.perform("swap", swapSteps)
}

// back puts Ganeti's daemons in place. It refuses while jobs have opcodes of lockstep, and while jobs are held or not due unless startHeld.
// It completes an interrupted back.
func (n *node) back(startHeld bool) error {
	n.startHeld = startHeld
	if err := n.load(); err != nil {
		return err
	}
	plain := !n.isLinked(wconfd) && !n.isLinked(luxid)
	if n.state.Step == "" && plain && n.linked() == (extras{}) {
		n.say("Ganeti's daemons are in their place already")
		return nil
	}
	if n.state.Step == "" {
		n.state.Plain, n.state.extras = plain, n.linked()
		if err := n.refuseJobs(); err != nil {
			return err
		}
	}
	return n.perform("back", backSteps)
}

// thisNode is the node that the program runs on. The user must be root.
func thisNode(globals *cli.Globals) (*node, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("this command changes the programs of the machine: run it as root")
	}
	owners, err := accounts.Resolve(accounts.Ganeti)
	if err != nil {
		return nil, fmt.Errorf("%w; Ganeti's packages make it", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	n := &node{system: machine{}, owners: owners, program: places.Daemon(filepath.Dir(self)),
		say: func(format string, args ...any) { fmt.Fprintf(globals.Streams.Err, format+"\n", args...) }}
	n.isMaster = n.isMasterName(host)
	return n, nil
}

// isMasterName reports whether ssconf names the machine as the master. A name without its domain is enough.
func (n *node) isMasterName(host string) bool {
	content, err := os.ReadFile(n.path(dataDir, paths.SsconfPrefix+"master_node"))
	master := strings.TrimSpace(string(content))
	short, _, _ := strings.Cut(master, ".")
	return err == nil && (host == master || host == short)
}

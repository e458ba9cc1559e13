package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"lockstep/core/wire"
	"lockstep/edge/luxiclient"
)

// nodeChange is a wish of the daemon about one node.
type nodeChange struct {
	method string
	done   string // "node n2: " + done
	failed string // "node n2 " + failed
	name   string
}

func newNodeRemoveCommand(globals *globalOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "Take a node out of the cluster",
		Long: `Take a node out of the cluster: it has no vote any more, gets no more changes, and
the others do not listen to it. It need not be up. To use its machine again, stop
lockstepd there, move the directory raft in its data directory aside, and add it
anew.

The master is not removed: promote another node first.

Exit code: 0; 1 if the node was not removed.
` + nodeAnswerHelp,
		Example: `  lockstep node remove n3`,
		Args:    wants(1, 1, "name one node"),
		RunE: func(command *cobra.Command, args []string) error {
			return runNodeChange(command.Context(), globals, nodeChange{"LockstepNodeRemove", "removed", "was not removed", args[0]})
		},
	}
}

func newNodePromoteCommand(globals *globalOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "promote NAME",
		Short: "Make a candidate the master",
		Long: `Make a candidate the master in place of the one that is. Queued jobs are run by the
new master; what runs on the old one is ended and fails, unless its daemon was
started with --leave-jobs. A node that does not answer is not promoted, and nothing
changes. One that answers and still does not become master, which is rare, may
have cost the jobs that ran.

Exit code: 0; 1 if the node did not become master.
` + nodeAnswerHelp,
		Example: `  lockstep node promote n2`,
		Args:    wants(1, 1, "name one node"),
		RunE: func(command *cobra.Command, args []string) error {
			return runNodeChange(command.Context(), globals, nodeChange{"LockstepNodePromote", promoted, "did not become master", args[0]})
		},
	}
}

func runNodeChange(ctx context.Context, globals *globalOptions, change nodeChange) error {
	if err := checkNodeName(change.name); err != nil {
		return err
	}
	daemon := globals.connect()
	defer daemon.close()
	err := daemon.call(ctx, change.method, []any{change.name}, nil)
	var lost *luxiclient.ConnectionLost
	if errors.As(err, &lost) && lost.Sent && change.done == promoted {
		// As by a master that is one no more: that is what was asked for.
		err = awaitMaster(ctx, daemon, change.name, err)
	}
	if errors.As(err, &lost) && lost.Sent {
		return fmt.Errorf(`the daemon's answer about node %s was lost; "lockstep node list" shows what has become of it (%w)`, change.name, err)
	}
	var refused *wire.Error
	if err != nil && (!errors.As(err, &refused) || !globals.JSON) {
		return fmt.Errorf("node %s %s: %w", change.name, change.failed, err)
	}
	if !globals.JSON {
		fmt.Fprintf(globals.streams.Out, "node %s: %s\n", change.name, change.done)
		return nil
	}
	answer := nodeAnswer{change.name, true, change.done}
	if refused != nil {
		answer.Done, answer.Message = false, refused.Error()
	}
	if err := printJSON(globals.streams.Out, answer); err != nil {
		return err
	}
	if refused != nil {
		return &exitError{code: exitFailure}
	}
	return nil
}

const (
	// promoted is what a node is that was promoted.
	promoted = "master"
	// masterPause and masterTries are for an election, which takes a second or two.
	masterPause = 250 * time.Millisecond
	masterTries = 40
)

// awaitMaster returns nil when the node is the master, else lost.
func awaitMaster(ctx context.Context, daemon *session, name string, lost error) error {
	for range masterTries {
		cluster := clusterNodes{}
		if daemon.call(ctx, "LockstepNodes", []any{}, &cluster) == nil && cluster.Master == name {
			return nil
		}
		select {
		case <-ctx.Done():
			return lost
		case <-daemon.after(masterPause):
		}
	}
	return lost
}

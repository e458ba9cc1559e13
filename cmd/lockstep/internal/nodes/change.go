package nodes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/core/answer"
	"lockstep/core/wire"
	"lockstep/edge/luxiclient"
)

// change is an order about one node: the method of the daemon, and the words for its success and failure.
type change struct {
	method string
	done   string // "node n2: " + done
	failed string // "node n2 " + failed
	name   string
}

func newRemoveCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a node from the cluster",
		Long: `Remove a node from the cluster: it loses its vote, gets no further changes, and the
other nodes ignore it. It need not be up. To add its machine again, stop lockstepd
there, move the directory raft of its data directory aside, and use "node add".

The master cannot be removed: promote another node first.

Exit code: 0; 1 if the node was not removed.
` + outcomeHelp,
		Example: `  lockstep node remove n3`,
		Args:    cli.WantArgs(1, 1, "name one node"),
		RunE: func(command *cobra.Command, args []string) error {
			return runChange(command.Context(), globals, change{"LockstepNodeRemove", "removed", "was not removed", args[0]})
		},
		ValidArgsFunction: completion.Nodes(globals),
	}
}

func newPromoteCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "promote NAME",
		Short: "Make a candidate the master",
		Long: `Make a candidate the master. The new master runs the queued jobs; jobs running on
the old master are ended and fail, unless its daemon was started with --leave-jobs.
A node that does not answer is not promoted, and nothing changes. In rare cases a
node answers and does not become master; running jobs may then have failed.

Exit code: 0; 1 if the node did not become master.
` + outcomeHelp,
		Example: `  lockstep node promote n2`,
		Args:    cli.WantArgs(1, 1, "name one node"),
		RunE: func(command *cobra.Command, args []string) error {
			return runChange(command.Context(), globals, change{"LockstepNodePromote", promoted, "did not become master", args[0]})
		},
		ValidArgsFunction: completion.Nodes(globals),
	}
}

func runChange(ctx context.Context, globals *cli.Globals, change change) error {
	if err := checkName(change.name); err != nil {
		return err
	}
	daemon := globals.Connect()
	defer daemon.Close()
	err := daemon.Call(ctx, change.method, []any{change.name}, nil)
	var lost *luxiclient.ConnectionLostError
	if errors.As(err, &lost) && lost.Sent && change.done == promoted {
		// A master that has handed over answers so: the promotion was carried out.
		err = awaitMaster(ctx, daemon, change.name, err)
	}
	if errors.As(err, &lost) && lost.Sent {
		return fmt.Errorf(`the daemon's answer about node %s was lost; "lockstep node list" shows its state (%w)`, change.name, err)
	}
	var refused *wire.Error
	if err != nil && (!errors.As(err, &refused) || !globals.JSON) {
		return fmt.Errorf("node %s %s: %w", change.name, change.failed, err)
	}
	if !globals.JSON {
		fmt.Fprintf(globals.Streams.Out, "node %s: %s\n", change.name, change.done)
		return nil
	}
	result := outcome{change.name, true, change.done}
	if refused != nil {
		result.Done, result.Message = false, refused.Error()
	}
	if err := cli.PrintJSON(globals.Streams.Out, result); err != nil {
		return err
	}
	if refused != nil {
		return &cli.ExitError{Code: cli.ExitFailure}
	}
	return nil
}

const (
	// promoted is the result of a promotion.
	promoted = "master"
	// masterPause and masterTries are for an election, which takes a second or two.
	masterPause = 250 * time.Millisecond
	masterTries = 40
)

// awaitMaster waits until the node is the master. It returns lost if that does not happen.
func awaitMaster(ctx context.Context, daemon *client.Session, name string, lost error) error {
	for range masterTries {
		cluster := answer.Nodes{}
		if daemon.Call(ctx, "LockstepNodes", []any{}, &cluster) == nil && cluster.Master == name {
			return nil
		}
		select {
		case <-ctx.Done():
			return lost
		case <-daemon.After(masterPause):
		}
	}
	return lost
}

// Package nodes has the commands node list, check, init, add, token, promote, remove and recover,
// and the texts about the state of nodes and cluster. init, add, token and recover work on the
// data directory of a node, without its daemon.
package nodes

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/edge/peer"
)

// NewCommand is the command node.
func NewCommand(globals *cli.Globals) *cobra.Command {
	command := &cobra.Command{
		Use:   "node init|add|token|list|check|promote|remove|recover",
		Short: "Set up and manage nodes that share the queue",
		Long: `Several nodes, each with a lockstepd, share one queue. One of them is the master,
which runs the jobs; the others have copies of all files. Candidates are nodes with a
vote: while more than half of them are up, one of them is master, and nothing
acknowledged is lost. Copies have no vote and never become master.

"init" makes the first node, "add" on another machine adds a node. Both work on the
data directory, while no lockstepd uses it.`,
		Example: `  lockstep node init --address 10.0.0.1:7400
  lockstep node add --address 10.0.0.2:7400 --join 10.0.0.1:7400
  lockstep node list
  lockstep node promote n2`,
		Args: func(_ *cobra.Command, args []string) error {
			const all = "init, add, token, list, check, promote, remove or recover"
			if len(args) > 0 {
				return cli.Usagef("node %s, not %q", all, args[0])
			}
			return cli.Usagef("say one of %s", all)
		},
		RunE: func(*cobra.Command, []string) error { return nil }, // without RunE cobra ignores Args
	}
	command.AddCommand(
		newInitCommand(globals),
		newAddCommand(globals),
		newTokenCommand(globals),
		newListCommand(globals),
		newCheckCommand(globals),
		newPromoteCommand(globals),
		newRemoveCommand(globals),
		newRecoverCommand(globals),
	)
	return command
}

// makeDataDir creates the data directory of a new node, as its daemon would.
func makeDataDir(dataDir string) error {
	const directoryMode = 0o750
	if err := os.MkdirAll(dataDir, directoryMode); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	return nil
}

// outcome is the JSON output of an order about one node.
type outcome struct {
	Name    string `json:"name"`
	Done    bool   `json:"done"`
	Message string `json:"message"`
}

const outcomeHelp = `With --json: {"name": string, "done": bool, "message": string}`

func checkName(name string) error {
	if err := peer.CheckName(name); err != nil {
		return cli.Usagef("%v", err)
	}
	return nil
}

func checkAddress(flag, address string) error {
	if address == "" {
		return cli.Usagef("%s HOST:PORT is missing", flag)
	}
	if err := peer.CheckAddress(address); err != nil {
		return cli.Usagef("%s: %v", flag, err)
	}
	return nil
}

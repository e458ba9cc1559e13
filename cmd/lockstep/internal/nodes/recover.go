package nodes

import (
	"fmt"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/edge/peer"
)

// recoverText is what people must know before they make one node a cluster of its own.
const recoverText = `This is for when more than half of the voting nodes are lost for ever. If they can be
brought back, even one by one, bring them back instead: nothing is lost then.

At its next start lockstepd makes this node the only voting member of the cluster,
with the queue as it is on its disk:
  - What was acknowledged but has not reached this node is lost: jobs that were
    submitted, canceled or have ended may be missing or stand as they did before.
  - Jobs that ran on another node are failed; they may run there still.
  - Choose the node that is furthest ahead, of those that are left; do this on one only.
  - Lost nodes must never come back with their data: they would be a second cluster
    that runs the same jobs. Move their data directories' raft aside, and add them anew.`

func newRecoverCommand(globals *cli.Globals) *cobra.Command {
	var dataDir string
	var sure bool
	command := &cobra.Command{
		Use:   "recover --yes-i-know",
		Short: "Go on with this node alone when most are lost for ever",
		Long: recoverText + `

lockstepd must not run meanwhile. Run this as the user that it runs as.

Exit code: 0; 1 if this node belongs to no cluster, or a daemon runs; 2 without
--yes-i-know.
` + outcomeHelp,
		Example: `  lockstep node recover --yes-i-know`,
		Args:    cli.WantArgs(0, 0, "node recover takes no arguments: it is about this node"),
		RunE: func(*cobra.Command, []string) error {
			return runRecover(globals, dataDirectory(dataDir), sure)
		},
	}
	command.Flags().StringVar(&dataDir, "data-dir", "", dataDirHelp)
	command.Flags().BoolVar(&sure, "yes-i-know", false, "do it: what is said above is understood")
	return command
}

func runRecover(globals *cli.Globals, dataDir string, sure bool) error {
	if !sure {
		return &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("nothing was done.\n%s\nWith --yes-i-know it is done", recoverText)}
	}
	name := ""
	err := whileStopped(dataDir, func() error {
		identity, err := peer.LoadIdentity(dataDir)
		if err != nil {
			return err
		}
		name = identity.Name
		return peer.RequestRecovery(dataDir, globals.Streams.Now())
	})
	if err != nil {
		return err
	}
	text := "from the next start of lockstepd on it is the only voting member"
	if globals.JSON {
		return cli.PrintJSON(globals.Streams.Out, outcome{name, true, text})
	}
	fmt.Fprintf(globals.Streams.Out, "node %s: %s.\nStart lockstepd here now, look at \"lockstep list\", and add the other nodes anew.\n", name, text)
	return nil
}

package nodes

import (
	"fmt"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/datadir"
	"lockstep/edge/peer"
)

// recoverText is the warning before a recovery.
const recoverText = `Use this only if more than half of the voting nodes are lost for ever. If they can
return, even one by one, restore them instead: then nothing is lost.

At its next start lockstepd makes this node the only voting member of the cluster,
with the queue as it is on its disk:
  - Acknowledged changes that have not reached this node are lost: submitted jobs may
    be missing, and canceled or ended jobs may have their earlier status.
  - Jobs that ran on another node fail; they may still run there.
  - Choose the remaining node that is furthest ahead; do this on one node only.
  - Lost nodes must never return with their data: they would be a second cluster that
    runs the same jobs. Move their data directories' raft aside, and add them again.`

func newRecoverCommand(globals *cli.Globals) *cobra.Command {
	var dataDir string
	var sure bool
	command := &cobra.Command{
		Use:   "recover --yes-i-know",
		Short: "Continue with this node alone after the permanent loss of a majority",
		Long: recoverText + `

lockstepd must not run during the command. Run this as the user of lockstepd.

Exit code: 0; 1 if this node belongs to no cluster, or a daemon runs; 2 without
--yes-i-know.
` + outcomeHelp,
		Example: `  lockstep node recover --yes-i-know`,
		Args:    cli.WantArgs(0, 0, "node recover takes no arguments: it is about this node"),
		RunE: func(*cobra.Command, []string) error {
			return runRecover(globals, datadir.Choose(dataDir), sure)
		},
	}
	command.Flags().StringVar(&dataDir, "data-dir", "", datadir.Help)
	command.Flags().BoolVar(&sure, "yes-i-know", false, "confirm the recovery")
	return command
}

func runRecover(globals *cli.Globals, dataDir string, sure bool) error {
	if !sure {
		return &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("nothing was done.\n%s\nAdd --yes-i-know to proceed", recoverText)}
	}
	name := ""
	err := datadir.WhileStopped(dataDir, func() error {
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
	fmt.Fprintf(globals.Streams.Out, "node %s: %s.\nStart lockstepd here now, check \"lockstep list\", and add the other nodes again.\n",
		name, text)
	return nil
}

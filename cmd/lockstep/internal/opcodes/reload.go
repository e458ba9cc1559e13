package opcodes

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/core/answer"
)

func newReloadCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "reload",
		Short: "Make the daemon read the declared opcodes again",
		Long: `Make the daemon read the files of its directory opcodes.d again, as SIGHUP does. After
a mistake in a file the former opcodes stay in force, and the mistake is printed.

In a cluster each node reads its own files; the command prints what each node has
declared, or why its former opcodes stay in force. A job runs with the opcodes of the
node that is master then, so the files should be the same on all nodes.

Exit code: 0; 1 after a mistake, or if a node does not answer.
With --json: {"declared": number, "nodes": [{"node": string, "declared": number,
"error": string}]}; "nodes" only in a cluster, "error" only after a mistake`,
		Example: `  lockstep opcode check && lockstep opcode reload`,
		Args:    cli.WantArgs(0, 0, "opcode reload takes no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			return runReload(command.Context(), globals)
		},
		ValidArgsFunction: completion.Nothing,
	}
}

func runReload(ctx context.Context, globals *cli.Globals) error {
	daemon := globals.Connect()
	defer daemon.Close()
	var done answer.OpcodesReloaded
	if err := daemon.Call(ctx, "LockstepReloadOpcodes", []any{}, &done); err != nil {
		return err
	}
	failed := slices.ContainsFunc(done.Nodes, func(n answer.NodeOpcodes) bool { return n.Error != "" })
	switch {
	case globals.JSON:
		if err := cli.PrintJSON(globals.Streams.Out, done); err != nil {
			return err
		}
	case len(done.Nodes) > 0:
		printNodes(globals.Streams, done.Nodes)
	default:
		fmt.Fprintf(globals.Streams.Out, "%s declared\n", term.Count(done.Declared, "opcode"))
	}
	if failed {
		return &cli.ExitError{Code: cli.ExitFailure}
	}
	return nil
}

// printNodes prints one line for each node about its reload, and a warning if they have different numbers of opcodes.
func printNodes(streams cli.Streams, nodes []answer.NodeOpcodes) {
	for _, n := range nodes {
		if n.Error != "" {
			fmt.Fprintf(streams.Out, "%s: not reloaded, the former opcodes stay in force: %s\n", term.Visible(n.Node), term.Visible(n.Error))
			continue
		}
		fmt.Fprintf(streams.Out, "%s: %s declared\n", term.Visible(n.Node), term.Count(n.Declared, "opcode"))
	}
	if slices.ContainsFunc(nodes, func(n answer.NodeOpcodes) bool {
		return n.Declared != nodes[0].Declared && n.Error == "" && nodes[0].Error == ""
	}) {
		cli.PrintError(streams.Err, "the nodes have different numbers of opcodes; copy the files to all nodes")
	}
}

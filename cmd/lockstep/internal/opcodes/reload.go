package opcodes

import (
	"context"
	"fmt"

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

In a cluster this is done by the master. The other nodes read their files when they
start, and on SIGHUP.

Exit code: 0; 1 after a mistake.
With --json: {"declared": number}`,
		Example: `  lockstep opcode check /var/lib/lockstep/opcodes.d && lockstep opcode reload`,
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
	if globals.JSON {
		return cli.PrintJSON(globals.Streams.Out, done)
	}
	fmt.Fprintf(globals.Streams.Out, "%s declared\n", term.Count(done.Declared, "opcode"))
	return nil
}

package nodes

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/core/answer"
)

func newCheckCommand(globals *cli.Globals) *cobra.Command {
	var repair bool
	command := &cobra.Command{
		Use:   "check",
		Short: "Compare the files of all nodes with the master's",
		Long: `Compare the files of the queue on all nodes with the master's, and list the
differences. Files differ only after a manual change, after a disk error, or while a
node catches up.
With --repair the master's files replace differing files.

Exit code: 0 if the files of all nodes are equal or were repaired; 1 if some still
differ, or a node could not be compared.
With --json: {"files": number, "nodes": [{"name": string, "answers": bool, "error":
string, "differs": [{"path", "what": string}], "repaired": number}]}`,
		Example: `  lockstep node check
  lockstep node check --repair`,
		Args: cli.WantArgs(0, 0, "node check takes no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			return runCheck(command.Context(), globals, repair)
		},
	}
	command.Flags().BoolVar(&repair, "repair", false, "replace differing files by the master's")
	return command
}

// checkTimeout bounds the wait for the answer: all nodes read all of their files.
const checkTimeout = time.Hour

// good reports whether the node answers and no difference is left.
func good(n answer.NodeCheck) bool {
	return n.Answers && n.Error == "" && n.Repaired >= int64(len(n.Differs))
}

func runCheck(ctx context.Context, globals *cli.Globals, repair bool) error {
	daemon := globals.Connect()
	defer daemon.Close()
	daemon.AnswerTimeout = checkTimeout
	check := answer.NodesCheck{}
	if err := daemon.Call(ctx, "LockstepNodeCheck", []any{repair}, &check); err != nil {
		return err
	}
	bad := false
	for i := range check.Nodes {
		bad = bad || !good(check.Nodes[i])
		if check.Nodes[i].Differs == nil {
			check.Nodes[i].Differs = []answer.FileDifference{}
		}
	}
	if globals.JSON {
		if check.Nodes == nil {
			check.Nodes = []answer.NodeCheck{}
		}
		if err := cli.PrintJSON(globals.Streams.Out, check); err != nil {
			return err
		}
	} else {
		printNodeCheck(globals.Streams, check, repair)
	}
	if bad {
		return &cli.ExitError{Code: cli.ExitFailure}
	}
	return nil
}

func printNodeCheck(streams cli.Streams, check answer.NodesCheck, repair bool) {
	for _, node := range check.Nodes {
		name := term.Visible(node.Name)
		for _, file := range node.Differs {
			fmt.Fprintf(streams.Out, "node %s: %s: %s\n", name, term.Visible(file.Path), term.Visible(file.What))
		}
		differ := fmt.Sprintf("%d files differ", len(node.Differs))
		if len(node.Differs) == 1 {
			differ = "1 file differs"
		}
		switch {
		case !node.Answers:
			cli.PrintError(streams.Err, fmt.Sprintf("node %s does not answer and was not compared%s", name, term.AfterColon(node.Error)))
		case node.Error != "":
			cli.PrintError(streams.Err, fmt.Sprintf("node %s: %s", name, node.Error))
		case len(node.Differs) == 0:
			fmt.Fprintf(streams.Out, "node %s: all %d files equal the master's\n", name, check.Files)
		case repair:
			fmt.Fprintf(streams.Out, "node %s: %s, %d repaired\n", name, differ, node.Repaired)
		default:
			fmt.Fprintf(streams.Out, "node %s: %s; --repair replaces them\n", name, differ)
		}
	}
}

package nodes

import (
	"context"
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/core/answer"
)

func newListCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Show the nodes of the cluster, and how they stand",
		Long: `Show the nodes of the cluster: which one is the master, which ones are candidates
(with a vote) and which ones copies, whether they answer, and how many entries of
the log they are behind if these are many; and how many more nodes may fail. A node
that is joining gets its vote when it has caught up, or has not been reached by the
master yet.

Exit code: 0; 1 if no daemon answers.
With --json: {"self", "master", "master_address": string, "nodes": [{"name",
"address": string, "voter", "master", "answers": bool, "applied", "behind":
number, "error": string, "joining": bool}]}`,
		Example: `  lockstep node list
  lockstep node list --json | jq -r '.nodes[] | select(.answers | not).name'`,
		Args: cli.WantArgs(0, 0, "node list takes no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			return runList(command.Context(), globals)
		},
	}
}

func runList(ctx context.Context, globals *cli.Globals) error {
	daemon := globals.Connect()
	defer daemon.Close()
	cluster := answer.Nodes{}
	if err := daemon.Query(ctx, "LockstepNodes", []any{}, &cluster); err != nil {
		return err
	}
	streams := globals.Streams
	if globals.JSON {
		if cluster.Nodes == nil {
			cluster.Nodes = []answer.Node{}
		}
		return cli.PrintJSON(streams.Out, cluster)
	}
	if len(cluster.Nodes) == 0 && cluster.Self != "" || len(cluster.Nodes) == 1 && cluster.Nodes[0].Address == "" {
		fmt.Fprintf(streams.Out, "This node, %s, is joining a cluster: it belongs to one, and the master has not reached it yet.\n"+
			"If that takes longer than a minute, see whether a majority of the other nodes is up.\n", term.Visible(cluster.Self))
		return nil
	}
	if len(cluster.Nodes) == 0 {
		fmt.Fprintln(streams.Out, `This node belongs to no cluster; "lockstep node init --help" says how to make one.`)
		return nil
	}
	colours := globals.Palette()
	header := table.Row{"Name", "Address", "Role", "State"}
	rows := make([]table.Row, 0, len(cluster.Nodes))
	joining, soon := joiners(cluster.Nodes)
	for _, node := range cluster.Nodes {
		node.Joining = node.Joining && soon
		rows = append(rows, table.Row{term.Visible(node.Name), term.Visible(node.Address), Role(node), State(node, colours)})
	}
	fmt.Fprintln(streams.Out, term.TextTable(header, rows, []int{len(header) - 1}, streams.Width))
	fmt.Fprintln(streams.Out, "\n"+Majority(cluster.Nodes, colours))
	switch names := term.Visible(strings.Join(joining, " and ")); {
	case len(joining) > 1:
		fmt.Fprintf(streams.Out, "%s are joining: each gets its vote within seconds, when it has caught up.\n", names)
	case len(joining) == 1 && soon:
		fmt.Fprintf(streams.Out, "%s is joining: it gets its vote within seconds, when it has caught up.\n", names)
	case len(joining) == 1:
		fmt.Fprintf(streams.Out, "%s gets a vote together with the next node that joins: the number of votes is kept odd.\n", names)
	}
	return nil
}

// joiners are the names of the nodes that are to have a vote and have none. Votes are
// handed out such that their number is odd: soon is false where one node waits for
// another that joins with it.
func joiners(nodes []answer.Node) (names []string, soon bool) {
	for _, node := range nodes {
		if node.Joining {
			names = append(names, node.Name)
		}
	}
	return names, len(names) > 1 || Voters(nodes)%2 == 0
}

// behindMax is how far a node may be behind that keeps up with the others: what was
// just committed reaches it with the next word of the master.
const behindMax = 100

// Role is what the node is in the cluster: master, candidate and so on.
func Role(n answer.Node) string {
	switch {
	case n.Master:
		return "master"
	case n.Voter:
		return "candidate"
	}
	return "copy"
}

// State says how the node stands, and what is wrong with it.
func State(n answer.Node, colours term.Palette) string {
	because := ""
	if n.Error != "" {
		because = ": " + term.Visible(n.Error)
	}
	switch {
	case !n.Answers:
		return colours.Paint("1;31", "no answer") + because
	case n.Behind > behindMax:
		return colours.Paint("33", fmt.Sprintf("behind %d", n.Behind)) + because
	case because != "":
		return "up, but" + strings.TrimPrefix(because, ":")
	case n.Joining:
		return colours.Paint("33", "joining")
	}
	return "up"
}

// Majority says whether enough nodes with a vote are there, and what is lost with more
// of them.
func Majority(nodes []answer.Node, colours term.Palette) string {
	all, up := Voters(nodes), 0
	hasMaster := false
	for _, node := range nodes {
		hasMaster = hasMaster || node.Master && node.Answers
		if node.Voter && node.Answers {
			up++
		}
	}
	needed := all/2 + 1
	if up < needed {
		return colours.Paint("1;31", fmt.Sprintf("There is no majority: %d of %d voting nodes answer, %d must.", up, all, needed)) +
			"\nUntil then no job is taken or started. If nodes are lost for ever, see \"lockstep node recover --help\"."
	}
	spare := "none may fail"
	if up > needed {
		spare = fmt.Sprintf("%d more may fail", up-needed)
	}
	text := fmt.Sprintf("A majority is there: %d of %d voting nodes answer, %s.", up, all, spare)
	if !hasMaster {
		text += " None is master yet."
	}
	return text
}

// Spare is how many more nodes with a vote may fail; less than 0: too many have.
func Spare(nodes []answer.Node) int {
	up := 0
	for _, node := range nodes {
		if node.Voter && node.Answers {
			up++
		}
	}
	return up - (Voters(nodes)/2 + 1)
}

// Voters is how many nodes have a vote.
func Voters(nodes []answer.Node) int {
	n := 0
	for _, node := range nodes {
		if node.Voter {
			n++
		}
	}
	return n
}

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
		Short: "Show the nodes of the cluster and their states",
		Long: `Show the nodes of the cluster: the master, the candidates (with a vote) and the
copies; whether each answers, and how many log entries it is behind, if many; and how
many more nodes may fail. A joining node gets its vote when the master has reached it
and it has caught up.

In Ganeti mode it shows what the node daemons have acknowledged: the serial numbers of
config.data (master candidates) and of the ssconf files, how many changes a node is
behind, why, and when the next call is made.

Exit code: 0; 1 if no daemon answers.
With --json: {"self", "master", "master_address": string, "nodes": [{"name",
"address": string, "voter", "master", "answers": bool, "applied", "behind":
number, "error": string, "joining": bool}]}; from a master that has compared the files
of the nodes with "files": {"at_ts": time, "compared", "repaired": number,
"contested": [{"path": string, "nodes": [string]}]}; in Ganeti mode with "distribution":
{"serial_no": number, "nodes": [{"uuid", "name", "address", "role": string, "config",
"ssconf": {"serial_no", "behind": number, "sending": bool, "failures": number, "error":
string, "failed_ts", "retry_ts": time} or null}]}, times as RFC 3339 or null.`,
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
	cluster := listed{}
	if err := daemon.Query(ctx, "LockstepNodes", []any{}, &cluster.Nodes); err != nil {
		return err
	}
	if len(cluster.Nodes.Nodes) == 0 && cluster.Self == "" {
		if err := daemon.Query(ctx, "LockstepDistribution", []any{}, &cluster.Distribution); err != nil {
			return err
		}
	}
	streams := globals.Streams
	if globals.JSON {
		if cluster.Nodes.Nodes == nil {
			cluster.Nodes.Nodes = []answer.Node{}
		}
		document, err := cli.Document(cluster, nil)
		if err != nil {
			return err
		}
		return cli.PrintJSON(streams.Out, document)
	}
	if cluster.Distribution != nil {
		printDistribution(streams, globals.Palette(), *cluster.Distribution)
		return nil
	}
	return printNodes(streams, globals.Palette(), cluster.Nodes)
}

func printNodes(streams cli.Streams, colours term.Palette, cluster answer.Nodes) error {
	if len(cluster.Nodes) == 0 && cluster.Self != "" || len(cluster.Nodes) == 1 && cluster.Nodes[0].Address == "" {
		fmt.Fprintf(streams.Out, "This node, %s, is joining a cluster; the master has not reached it yet.\n"+
			"If that takes longer than a minute, check that a majority of the other nodes is up.\n", term.Visible(cluster.Self))
		return nil
	}
	if len(cluster.Nodes) == 0 {
		fmt.Fprintln(streams.Out, `This node belongs to no cluster; "lockstep node init --help" describes how to make one.`)
		return nil
	}
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

// joiners are the names of the nodes that wait for their vote. The number of votes is kept odd:
// soon is false if a single node waits for another node to join.
func joiners(nodes []answer.Node) (names []string, soon bool) {
	for _, node := range nodes {
		if node.Joining {
			names = append(names, node.Name)
		}
	}
	return names, len(names) > 1 || Voters(nodes)%2 == 0
}

// behindMax is the lag, in log entries, of a node that keeps up: recent commits reach it with the
// next message of the master.
const behindMax = 100

// Role is the role of the node in the cluster: master, candidate and so on.
func Role(n answer.Node) string {
	switch {
	case n.Master:
		return "master"
	case n.Voter:
		return "candidate"
	}
	return "copy"
}

// State is the state of the node, with the error if there is one.
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

// Majority is a text about the majority of voting nodes, and how many more may fail.
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
			"\nUntil then no job is accepted or started. If nodes are lost for ever, see \"lockstep node recover --help\"."
	}
	spare := "none may fail"
	if up > needed {
		spare = fmt.Sprintf("%d more may fail", up-needed)
	}
	text := fmt.Sprintf("A majority is there: %d of %d voting nodes answer, %s.", up, all, spare)
	if !hasMaster {
		text += " No node is master yet."
	}
	return text
}

// Spare is the number of further voting nodes that may fail; negative: too many have failed.
func Spare(nodes []answer.Node) int {
	up := 0
	for _, node := range nodes {
		if node.Voter && node.Answers {
			up++
		}
	}
	return up - (Voters(nodes)/2 + 1)
}

// Voters is the number of nodes with a vote.
func Voters(nodes []answer.Node) int {
	n := 0
	for _, node := range nodes {
		if node.Voter {
			n++
		}
	}
	return n
}

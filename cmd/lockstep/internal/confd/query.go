package confd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/datadir"
	"lockstep/core/confd"
	edge "lockstep/edge/confd"
)

// options are the flags of confd query.
type options struct {
	DataDir   string
	Addresses []string
	Link      string
	Timeout   time.Duration
}

func newQueryCommand(globals *cli.Globals) *cobra.Command {
	var o options
	command := &cobra.Command{
		Use:   "query QUERY [ARGUMENT]",
		Short: "Ask all nodes about the configuration and print the freshest answer",
		Long: `Ask all nodes at the same time, and print the answer of the node whose configuration
has the highest serial number. A node that is down delays the answer by half a second at
most. The queries, and the types of ganeti-confd that they are:

  ping                0  the version of the configuration
  role NODE           1  0 master, 1 candidate, 2 offline, 3 drained, 4 regular
  node-of ADDRESS     2  address of the primary node of the instance with the address
  master              3  the name of the master
  node-ips            4  addresses of all nodes
  candidate-ips       5  addresses of the master candidates
  instance-ips [LINK] 6  addresses of instances on a link
  minors NODE         7  DRBD minors
  instances NODE      8  primary and secondary instances
  disks INSTANCE      9  disks
  path PATH          10  a value of the configuration; a PATH alone is enough
  collectors         11  settings of the data collectors

Secrets in answers are "<redacted>". The key is hmac.key in the data directory, which the
user of lockstepd can read.

Exit code: 0; 1 if no node has answered, or the query cannot be served.
With --json: {"answer": value, "status": 0 or 1, "serial": number, "config_serial":
number, "from": address, "nodes": [{"address", "status", "serial", "config_serial",
"agrees": bool, "error"}]}`,
		Example: `  lockstep confd query master
  lockstep confd query /serial_no
  lockstep confd query role node2 --json
  lockstep confd query node-of 198.51.100.11 --link br1
  lockstep confd query ping --address 10.0.0.1:1814 --address 10.0.0.2:1814`,
		Args: cli.WantArgs(1, 2, "confd query needs a query, such as master or /serial_no"),
		RunE: func(command *cobra.Command, args []string) error { return o.run(command.Context(), globals, args) },
	}
	o.register(command)
	return command
}

// node is what a node has answered, in the JSON output.
type node struct {
	Address      string `json:"address"`
	Status       int    `json:"status"`
	Serial       int64  `json:"serial"`
	ConfigSerial int64  `json:"config_serial"`
	Agrees       bool   `json:"agrees"` // its answer is the one that is printed
	Error        string `json:"error,omitempty"`
}

// result is the JSON output.
type result struct {
	Answer       json.RawMessage `json:"answer"`
	Status       int             `json:"status"`
	Serial       int64           `json:"serial"`
	ConfigSerial int64           `json:"config_serial"`
	From         string          `json:"from"`
	Nodes        []node          `json:"nodes"`
}

func (o *options) run(ctx context.Context, globals *cli.Globals, args []string) error {
	q, err := queryOf(args, o.Link)
	if err != nil {
		return err
	}
	if o.Timeout <= 0 {
		return cli.Usagef("--timeout must be more than 0")
	}
	dataDir := datadir.Choose(o.DataDir)
	key, err := readKey(dataDir)
	if err != nil {
		return err
	}
	if len(o.Addresses) == 0 {
		if o.Addresses, err = nodesOf(dataDir); err != nil {
			return fmt.Errorf("find the nodes of the cluster: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	answers := edge.AskAll(ctx, key, o.Addresses, q)
	best := edge.Freshest(answers)
	if best < 0 {
		for _, a := range answers {
			cli.PrintError(globals.Streams.Err, fmt.Sprintf("%s: %v", a.Address, a.Err))
		}
		return errors.New("no node has answered")
	}
	r := resultOf(answers, best)
	if globals.JSON {
		if err := cli.PrintJSON(globals.Streams.Out, r); err != nil {
			return err
		}
	} else {
		r.print(globals.Streams.Out, globals.Streams.Err)
	}
	if r.Status != confd.StatusOK {
		return &cli.ExitError{Code: cli.ExitFailure}
	}
	return nil
}

func resultOf(answers []edge.Answer, best int) result {
	a := answers[best]
	r := result{Answer: a.Reply.Answer, Status: a.Reply.Status, Serial: a.Reply.Serial, ConfigSerial: a.ConfigSerial, From: a.Address}
	for _, other := range answers {
		n := node{Address: other.Address, Status: other.Reply.Status, Serial: other.Reply.Serial, ConfigSerial: other.ConfigSerial}
		if other.Err != nil {
			n.Error = other.Err.Error()
		}
		n.Agrees = other.Err == nil && n.Status == r.Status && string(other.Reply.Answer) == string(r.Answer)
		r.Nodes = append(r.Nodes, n)
	}
	return r
}

// print prints the answer to out, and to err a refusal and the nodes that have not given this answer.
func (r *result) print(out, err io.Writer) {
	text := plain(r.Answer)
	if r.Status == confd.StatusOK {
		fmt.Fprintln(out, text)
	} else {
		cli.PrintError(err, refusalText(text))
	}
	for _, n := range r.Nodes {
		switch {
		case n.Error != "":
			fmt.Fprintf(err, "%s: %s\n", n.Address, n.Error)
		case !n.Agrees:
			fmt.Fprintf(err, "%s has another answer: its configuration has serial number %d, that of %s has %d\n",
				n.Address, n.ConfigSerial, r.From, r.ConfigSerial)
		}
	}
}

// plain returns a JSON text without its quotes, and any other value as JSON.
func plain(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

// refusalText returns the text of an error of a node, which is a text or a code.
func refusalText(answer string) string {
	switch answer {
	case fmt.Sprint(confd.CodeUnknownEntry):
		return "the configuration does not have that"
	case fmt.Sprint(confd.CodeArgument):
		return "the argument of the query is wrong: there is nothing at that path, or it is no path"
	}
	return answer
}

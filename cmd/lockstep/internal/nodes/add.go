package nodes

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/datadir"
	"lockstep/edge/peer"
)

const tokenVariable = "LOCKSTEP_JOIN_TOKEN"

// tokenMax bounds the length of a token's line, in bytes.
const tokenMax = 4096

// addOptions are the flags of node add.
type addOptions struct {
	initOptions
	Join         string
	NonVoting    bool
	DiscardQueue bool
	TokenFile    string
}

func newAddCommand(globals *cli.Globals) *cobra.Command {
	var opts addOptions
	command := &cobra.Command{
		Use:   "add --address HOST:PORT --join HOST:PORT",
		Short: "Add this node to a cluster",
		Long: `Add this node, on which the command runs, to a cluster, through the node named by
--join, with a join token made there. The token is read from --token-file, else from
$` + tokenVariable + `, else from standard input; it is no argument, because all users
can see arguments.

The node gets a copy of the cluster's queue and must have no queue: --discard-queue
moves an existing queue aside, to queue.before-join-TIME.

A missing data directory is created. lockstepd must not run on this node during the
command; start it afterwards, when no earlier job runs on this node. The lockstepd of
the other node must run. Run this as the user of lockstepd.

Exit code: 0; 1 if the node was not added; it then belongs to no cluster.
With --json: {"name", "address", "data_dir": string}`,
		Example: `  lockstep node add --address 10.0.0.2:7400 --join 10.0.0.1:7400
  lockstep node add --address 10.0.0.3:7400 --join 10.0.0.1:7400 --non-voting --token-file token`,
		Args: cli.WantArgs(0, 0, "node add takes no arguments; it reads the token from a file, the environment or standard input"),
		RunE: func(command *cobra.Command, _ []string) error {
			return runAdd(command.Context(), globals, opts)
		},
	}
	opts.register(command)
	flags := command.Flags()
	flags.StringVar(&opts.Join, "join", "", "`HOST:PORT` of the node that made the token")
	flags.BoolVar(&opts.NonVoting, "non-voting", false, "make the node a copy, which has no vote and never becomes master")
	flags.BoolVar(&opts.DiscardQueue, "discard-queue", false, "move this node's own queue aside")
	flags.StringVar(&opts.TokenFile, "token-file", "", "`FILE` with the join token")
	return command
}

func runAdd(ctx context.Context, globals *cli.Globals, opts addOptions) error {
	if err := opts.complete(); err != nil {
		return err
	}
	if err := checkAddress("--join", opts.Join); err != nil {
		return err
	}
	token, err := opts.token(globals.Streams)
	if err != nil {
		return err
	}
	if err := makeDataDir(opts.DataDir); err != nil {
		return err
	}
	err = datadir.WhileStopped(opts.DataDir, func() error {
		return peer.Join(ctx, opts.DataDir, peer.JoinOptions{
			Name: opts.Name, Address: opts.Address, Voting: !opts.NonVoting, From: opts.Join, Token: token,
			DiscardQueue: opts.DiscardQueue, Now: globals.Streams.Now(),
		})
	})
	if err != nil {
		return fmt.Errorf("this node was not added: %w", err)
	}
	if globals.JSON {
		return cli.PrintJSON(globals.Streams.Out, newNode{Name: opts.Name, Address: opts.Address, DataDir: opts.DataDir})
	}
	vote := ", and gets its vote within seconds\n(a second node gets it together with the third: the number of votes is kept odd)"
	if opts.NonVoting {
		vote = ""
	}
	fmt.Fprintf(globals.Streams.Out, `This node, %s, belongs to the cluster now.
Start lockstepd here: it asks to be a member and fetches the queue%s.
"lockstep node list" shows it as joining until then.
`, opts.Name, vote)
	return nil
}

// token returns the join token: the one that a start secret determines, else the one that an operator gives.
func (o *addOptions) token(streams cli.Streams) (string, error) {
	secret, err := o.startSecret(streams.Err)
	switch {
	case err != nil:
		return "", err
	case secret == nil:
		return joinToken(streams, o.TokenFile)
	case o.TokenFile != "":
		return "", cli.Usagef("--token-file and --start-secret-file both admit this node: give one of them")
	}
	return peer.StartToken(secret)
}

// joinToken reads the token from a source that other users cannot read: a file, the environment, standard input or the terminal.
func joinToken(streams cli.Streams, path string) (string, error) {
	if path != "" {
		file, err := os.Open(path)
		if err != nil {
			return "", fmt.Errorf("read the join token: %w", err)
		}
		defer file.Close()
		return readToken(file)
	}
	if token, _ := streams.LookupEnv(tokenVariable); token != "" {
		return token, nil
	}
	if !streams.InTerminal {
		return readToken(streams.In)
	}
	fmt.Fprint(streams.Err, "Join token: ")
	terminal, ok := streams.In.(*os.File)
	if !ok {
		return readToken(streams.In)
	}
	token, err := term.ReadPassword(int(terminal.Fd()))
	fmt.Fprintln(streams.Err)
	return string(token), err
}

// readToken reads to the end of the first line, and no further. At tokenMax bytes it stops.
func readToken(r io.Reader) (string, error) {
	var text strings.Builder
	one := make([]byte, 1)
	for text.Len() < tokenMax {
		n, err := r.Read(one)
		if n > 0 {
			if one[0] == '\n' {
				break
			}
			text.WriteByte(one[0])
			continue
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return "", fmt.Errorf("read the join token: %w", err)
		}
	}
	return text.String(), nil
}

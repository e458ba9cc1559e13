package nodes

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/datadir"
	"lockstep/edge/peer"
)

// initOptions are the flags for the identity of a node.
type initOptions struct {
	Name    string
	Address string
	DataDir string
	// SecretFile has the start secret; "": there is none.
	SecretFile string
}

func (o *initOptions) register(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&o.Address, "address", "", "`HOST:PORT` at which other nodes reach this node")
	flags.StringVar(&o.Name, "name", "", "`NAME` of this node (default its host name)")
	flags.StringVar(&o.SecretFile, "start-secret-file", "",
		"`FILE` with a start secret: at least 32 random bytes, the same for all nodes, in place of the join token")
	flags.StringVar(&o.DataDir, "data-dir", "", datadir.Help)
}

// startSecret reads the start secret, without white space at its ends; nil: there is none. A file that other users can read is a
// warning and no error, because container runtimes mount secrets so.
func (o *initOptions) startSecret(warnings io.Writer) ([]byte, error) {
	if o.SecretFile == "" {
		return nil, nil
	}
	file, err := os.Open(o.SecretFile)
	if err != nil {
		return nil, fmt.Errorf("read the start secret: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("read the start secret: %w", err)
	}
	const ofOthers = 0o004
	if info.Mode().IsRegular() && info.Mode()&ofOthers != 0 {
		fmt.Fprintf(warnings, "lockstep: all users of this machine can read %s and so become a member of the cluster: chmod o= %s\n",
			o.SecretFile, o.SecretFile)
	}
	content, err := io.ReadAll(io.LimitReader(file, peer.StartSecretMax+1))
	if err != nil {
		return nil, fmt.Errorf("read the start secret: %w", err)
	}
	if secret := bytes.TrimSpace(content); len(secret) > 0 {
		return secret, nil
	}
	return nil, fmt.Errorf("the file of the start secret, %s, is empty", o.SecretFile)
}

// complete sets missing options and validates all. The error is a *UsageError.
func (o *initOptions) complete() error {
	if o.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			return cli.Usagef("--name is missing, and the host's name is unknown: %v", err)
		}
		o.Name = strings.ToLower(host)
	}
	if err := checkName(o.Name); err != nil {
		return err
	}
	o.DataDir = datadir.Choose(o.DataDir)
	return checkAddress("--address", o.Address)
}

func newInitCommand(globals *cli.Globals) *cobra.Command {
	var opts initOptions
	command := &cobra.Command{
		Use:   "init --address HOST:PORT",
		Short: "Make this node the first node of a cluster",
		Long: `Make this node the first node of a cluster. Its queue becomes the cluster's. The
command prints the commands for the other nodes, and a join token. The token permits
any machine to join, and so to read and run everything. It is valid at this node
only, for 24 hours; "lockstep node token" makes another.

A missing data directory is created. lockstepd must not run during the command; start
it afterwards, when no earlier job runs. Run this as the user of lockstepd.

Exit code: 0; 1 if this node belongs to a cluster already, of lockstep or of Ganeti,
or a daemon runs.
With --json: {"name", "address", "data_dir", "token": string}, without token if
there is a start secret`,
		Example: `  lockstep node init --address 10.0.0.1:7400
  lockstep node init --address n1.example.com:7400 --name n1 --data-dir ./var/lib`,
		Args: cli.WantArgs(0, 0, "node init takes no arguments"),
		RunE: func(*cobra.Command, []string) error { return runInit(globals, opts) },
	}
	opts.register(command)
	return command
}

// newNode is the JSON output about a new node.
type newNode struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	DataDir string `json:"data_dir"`
	Token   string `json:"token,omitempty"`
}

func runInit(globals *cli.Globals, opts initOptions) error {
	if err := opts.complete(); err != nil {
		return err
	}
	token := ""
	secret, err := opts.startSecret(globals.Streams.Err)
	if err != nil {
		return err
	}
	if err := makeDataDir(opts.DataDir); err != nil {
		return err
	}
	err = datadir.WhileStopped(opts.DataDir, func() (err error) {
		options := peer.InitOptions{Name: opts.Name, Address: opts.Address, Now: globals.Streams.Now(), StartSecret: secret}
		token, err = peer.Init(opts.DataDir, options)
		return err
	})
	if err != nil {
		return err
	}
	if secret != nil {
		token = "" // the other nodes have the secret; output may be a log
	}
	if globals.JSON {
		return cli.PrintJSON(globals.Streams.Out, newNode{opts.Name, opts.Address, opts.DataDir, token})
	}
	if secret != nil {
		fmt.Fprintf(globals.Streams.Out, `This node, %s, is the first one of a new cluster.

1. Start lockstepd here.
2. On each other node, with its own address, while no lockstepd runs there, within %d hours:
     lockstep node add --address HOST:PORT --join %s --start-secret-file FILE
3. Start lockstepd there. "lockstep node list" shows the state of the nodes.
`, opts.Name, peer.TokenLifetime/time.Hour, opts.Address)
		return nil
	}
	fmt.Fprintf(globals.Streams.Out, `This node, %s, is the first one of a new cluster.

1. Start lockstepd here.
2. On each other node, with its own address, while no lockstepd runs there:
     lockstep node add --address HOST:PORT --join %s
   It asks for this join token, which is good for %d hours:
     %s
3. Start lockstepd there. "lockstep node list" shows the state of the nodes.
`, opts.Name, opts.Address, peer.TokenLifetime/time.Hour, token)
	return nil
}

func newTokenCommand(globals *cli.Globals) *cobra.Command {
	var dataDir string
	lifetime := peer.TokenLifetime
	command := &cobra.Command{
		Use:   "token",
		Short: "Make a token for joining at this node",
		Long: `Make a token with which any number of nodes can join at this node until it expires.
Other nodes do not accept it. The token permits to read and run everything: protect
it like a password.

lockstepd may run. Run this as the user of lockstepd.

Exit code: 0; 1 if this node belongs to no cluster.
With --json: {"token": string, "expires_ts": time}, the time as RFC 3339`,
		Example: `  lockstep node token
  lockstep node token --lifetime 1h > token`,
		Args: cli.WantArgs(0, 0, "node token takes no arguments"),
		RunE: func(*cobra.Command, []string) error {
			now := globals.Streams.Now()
			token, err := peer.NewToken(datadir.Choose(dataDir), lifetime, now)
			if err != nil {
				return err
			}
			if globals.JSON {
				return cli.PrintJSON(globals.Streams.Out, struct {
					Token   string    `json:"token"`
					Expires time.Time `json:"expires_ts"`
				}{token, now.Add(lifetime)})
			}
			fmt.Fprintln(globals.Streams.Out, token)
			return nil
		},
	}
	command.Flags().StringVar(&dataDir, "data-dir", "", datadir.Help)
	command.Flags().Var(term.DurationFlag{Value: &lifetime}, "lifetime", "`DURATION` for which the token is valid, 1m to 720h")
	return command
}

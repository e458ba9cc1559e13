// Package confd is the command lockstep confd: signed queries about the configuration to the nodes of a cluster, and the rotation of
// their key. It owns nothing.
package confd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/datadir"
	"lockstep/core/answer"
	"lockstep/core/confd"
	"lockstep/core/paths"
	"lockstep/edge/peer"
)

// NewCommand makes the command confd.
func NewCommand(globals *cli.Globals) *cobra.Command {
	command := &cobra.Command{
		Use:   "confd",
		Short: "Ask the nodes about the configuration, also without a master",
		Long: `Every node of a cluster answers signed queries about the configuration from its own
copy, over UDP, in the protocol of ganeti-confd, whether there is a master or not. The
key of the signatures is hmac.key in the data directory.`,
		Example: `  lockstep confd query master
  lockstep confd query /serial_no
  lockstep confd rotate-key`,
		Args: cli.WantArgs(0, 0, "confd needs a command: query or rotate-key"),
		RunE: func(*cobra.Command, []string) error { return cli.Usagef("confd needs a command: query or rotate-key") },
	}
	command.AddCommand(newQueryCommand(globals), newRotateCommand(globals))
	return command
}

func newRotateCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "rotate-key",
		Short: "Replace the key of queries about the configuration",
		Long: `Replace hmac.key on all nodes of the cluster, or make it if there is none. The command
takes a few seconds: first all nodes accept the new key, then it replaces the old one.
The old key stays valid for ten minutes, in which programs can read the new one.

A node that is down gets the new key when it is back. In a Ganeti cluster
"gnt-cluster renew-crypto --new-confd-hmac-key" replaces the key.

Exit code: 0; 1 if the key was not replaced. The command can then be repeated.
With --json: {"first": bool, "overlap": seconds for which the old key stays valid}`,
		Example: `  lockstep confd rotate-key`,
		Args:    cli.WantArgs(0, 0, "confd rotate-key takes no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			daemon := globals.Connect()
			defer daemon.Close()
			rotated := answer.KeyRotated{}
			if err := daemon.Call(command.Context(), "LockstepRotateConfdKey", []any{}, &rotated); err != nil {
				return err
			}
			switch out := globals.Streams.Out; {
			case globals.JSON:
				return cli.PrintJSON(out, rotated)
			case rotated.First:
				fmt.Fprintf(out, "%s was made. There was no key before.\n", paths.ConfdKeyPath)
			default:
				overlap := time.Duration(rotated.OverlapSeconds) * time.Second
				fmt.Fprintf(out, "%s has a new key. The old one stays valid for %v.\n", paths.ConfdKeyPath, overlap)
			}
			return nil
		},
	}
}

// kind is a query that the command can make, chosen by a word on the command line ("role NODE").
type kind struct {
	word     string
	of       confd.Type
	argument string // what the argument is; "": there is none
	optional bool   // the argument may be left out
}

var kinds = []kind{
	{word: "ping", of: confd.Ping},
	{word: "role", of: confd.NodeRoleByName, argument: "NODE"},
	{word: "node-of", of: confd.NodePrimaryIPByInstanceIP, argument: "ADDRESS"},
	{word: "master", of: confd.ClusterMaster},
	{word: "node-ips", of: confd.NodePrimaryIPs},
	{word: "candidate-ips", of: confd.CandidatePrimaryIPs},
	{word: "instance-ips", of: confd.InstanceIPs, argument: "LINK", optional: true},
	{word: "minors", of: confd.NodeDRBD, argument: "NODE"},
	{word: "instances", of: confd.NodeInstances, argument: "NODE"},
	{word: "disks", of: confd.InstanceDisks, argument: "INSTANCE"},
	{word: "path", of: confd.ConfigPath, argument: "PATH"},
	{word: "collectors", of: confd.DataCollectors},
}

// queryOf returns the query that the arguments describe. link is a link for node-of, "" for the default.
func queryOf(args []string, link string) (confd.Query, error) {
	if len(args) == 1 && strings.HasPrefix(args[0], "/") {
		args = []string{"path", args[0]}
	}
	at := slices.IndexFunc(kinds, func(k kind) bool { return k.word == args[0] })
	if at < 0 {
		return confd.Query{}, cli.Usagef("there is no query %q", args[0])
	}
	k := kinds[at]
	switch {
	case len(args) > 1 && k.argument == "":
		return confd.Query{}, cli.Usagef("the query %s takes no argument", k.word)
	case len(args) < 2 && k.argument != "" && !k.optional:
		return confd.Query{}, cli.Usagef("the query %s needs an argument: %s", k.word, k.argument)
	case link != "" && k.of != confd.NodePrimaryIPByInstanceIP:
		return confd.Query{}, cli.Usagef("--link is for the query node-of")
	case len(args) < 2:
		return confd.Query{Type: k.of}, nil
	}
	var argument any = args[1]
	if k.of == confd.NodePrimaryIPByInstanceIP {
		options := map[string]string{"1": args[1]}
		if link != "" {
			options["0"] = link
		}
		argument = options
	}
	encoded, err := json.Marshal(argument)
	return confd.Query{Type: k.of, Argument: encoded}, err
}

// port is the one at which nodes answer unless they are told otherwise.
const port = "1814"

// nodesOf returns the addresses of the ConfDs of the nodes that a data directory knows: those of a cluster of lockstep, else the master
// candidates of ssconf, else this node.
func nodesOf(dataDir string) ([]string, error) {
	var hosts []string
	identity, err := peer.LoadIdentity(dataDir)
	switch {
	case err == nil:
		for _, address := range append([]string{identity.Address}, identity.Peers...) {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			hosts = append(hosts, host)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	default:
		content, err := os.ReadFile(filepath.Join(dataDir, paths.SsconfPrefix+"master_candidates_ips"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		hosts = strings.Fields(string(content))
	}
	if len(hosts) == 0 {
		hosts = []string{"127.0.0.1"}
	}
	var addresses []string
	for _, host := range hosts {
		if address := net.JoinHostPort(host, port); !slices.Contains(addresses, address) {
			addresses = append(addresses, address)
		}
	}
	return addresses, nil
}

// readKey reads the key that signs queries from the data directory of a node. A missing or unfit key is an error that names the remedy.
func readKey(dataDir string) ([]byte, error) {
	path := filepath.Join(dataDir, paths.ConfdKeyPath)
	key, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing: lockstep confd rotate-key makes it", path)
	}
	if err == nil {
		err = confd.CheckKey(key)
	}
	if err != nil {
		return nil, fmt.Errorf("read the key of configuration queries: %w", err)
	}
	return key, nil
}

// register adds the flags of the command.
func (o *options) register(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&o.DataDir, "data-dir", "", datadir.Help)
	flags.StringArrayVar(&o.Addresses, "address", nil,
		"`HOST:PORT` of a node to ask; may be repeated (default: port "+port+" of all nodes that this node knows)")
	flags.StringVar(&o.Link, "link", "", "with node-of: `LINK` of the address (default: that of the cluster)")
	flags.DurationVar(&o.Timeout, "timeout", 3*time.Second, "`TIME` in which a node must answer")
}

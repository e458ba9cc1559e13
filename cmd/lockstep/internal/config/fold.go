package config

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"lockstep/actors/config/configstore"
	"lockstep/cmd/internal/accounts"
	"lockstep/cmd/internal/opcodefiles"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/datadir"
	"lockstep/core/opcode"
	"lockstep/core/ownership"
	"lockstep/core/paths"
	"lockstep/edge/peer"
	"lockstep/persistence"
)

// folded is the JSON output of config fold.
type folded struct {
	Serial  int64  `json:"serial"`
	Records int    `json:"changes"`
	Aside   string `json:"set_aside,omitempty"`
}

func newFoldCommand(globals *cli.Globals) *cobra.Command {
	opts := foldOptions{accounts: accounts.Ganeti}
	command := &cobra.Command{
		Use:   "fold",
		Short: "Complete config.data after a crash, without starting lockstepd",
		Long: `Write all answered changes of the cluster's configuration to config.data, and remove
config.journal. A lockstepd that stops in order does this itself; after a crash the
next lockstepd does it. Before any other program uses the directory this command must
do it: without it config.data lacks the last changes.

If config.journal is damaged, lockstepd does not start. With --discard-rest the changes
before the damage are kept, the rest is lost, and the journal is kept under another
name.

lockstepd must not run during the command, nor ganeti-wconfd on a Ganeti node. Run this as the user of lockstepd, or as
root. In the data directory of a Ganeti node the files get the owners of Ganeti mode;
set the accounts as for lockstepd if they are others than those of Ganeti's packages.

The history gets the changes. Name the --opcodes-dir of lockstepd if it is not
opcodes.d in the data directory: it declares which parameters are secret.

Exit code: 0; 1 if a daemon runs or a file cannot be used.
With --json: {"serial": number, "changes": number, "set_aside": string}`,
		Example: `  lockstep config fold
  lockstep config fold --discard-rest`,
		Args: cli.WantArgs(0, 0, "config fold takes no arguments"),
		RunE: func(*cobra.Command, []string) error {
			return runFold(globals, datadir.Choose(opts.dataDir), opts)
		},
	}
	command.Flags().StringVar(&opts.dataDir, "data-dir", "", datadir.Help)
	command.Flags().BoolVar(&opts.discardRest, "discard-rest", false, "go on without the changes after damage of the journal")
	command.Flags().StringVar(&opts.opcodesDir, "opcodes-dir", "",
		"`DIR` of the declared opcodes; without it, opcodes.d in the data directory")
	command.Flags().StringVar(&opts.accounts.Daemon, "ganeti-user", opts.accounts.Daemon,
		"`USER` of the files of a Ganeti node, by name or number")
	command.Flags().StringVar(&opts.accounts.ConfdGroup, "ganeti-confd-group", opts.accounts.ConfdGroup,
		"`GROUP` of config.data of a Ganeti node, by name or number")
	command.Flags().StringVar(&opts.accounts.DaemonsGroup, "ganeti-daemons-group", opts.accounts.DaemonsGroup,
		"`GROUP` of the queue of a Ganeti node, by name or number")
	return command
}

// foldOptions are the flags of config fold.
type foldOptions struct {
	dataDir, opcodesDir string
	discardRest         bool
	accounts            ownership.Accounts
}

// whileStopped calls do with the owners of the files of a data directory, while no daemon uses it.
func (o foldOptions) whileStopped(dataDir string, do func(owners ownership.Rules) error) error {
	isGaneti, err := peer.IsGanetiDirectory(dataDir)
	switch {
	case err != nil:
		return err
	case !isGaneti:
		return datadir.WhileStopped(dataDir, func() error { return do(ownership.Rules{}) })
	}
	owners, err := accounts.Resolve(o.accounts)
	if err != nil {
		return err
	}
	return datadir.WhileGanetiStopped(dataDir, owners, func() error { return do(owners) })
}

// secrets returns the names of the parameters of opcodes that are declared secret.
func (o foldOptions) secrets(dataDir string) ([]string, error) {
	dir := o.opcodesDir
	if dir == "" {
		dir = filepath.Join(dataDir, "opcodes.d")
	}
	definitions, err := opcodefiles.Load(dir)
	if err != nil {
		return nil, err
	}
	catalogue, err := opcode.Builtin().With(definitions)
	if err != nil {
		return nil, err
	}
	return catalogue.SecretNames(), nil
}

func runFold(globals *cli.Globals, dataDir string, opts foldOptions) error {
	secrets, err := opts.secrets(dataDir)
	if err != nil {
		return err
	}
	var result configstore.Result
	err = opts.whileStopped(dataDir, func(owners ownership.Rules) (err error) {
		files, err := persistence.OpenFiles(dataDir, owners)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, files.Close()) }()
		result, err = configstore.Offline{Files: files, Secrets: func() []string { return secrets }}.Fold(opts.discardRest)
		return err
	})
	if err != nil {
		return errors.New(configstore.Explain(err, dataDir))
	}
	out := globals.Streams.Out
	if globals.JSON {
		return cli.PrintJSON(out, folded(result))
	}
	if result.Aside != "" {
		fmt.Fprintf(out, "%s has changes that %s does not have: it is now %s.\n", paths.ConfigJournalPath, paths.ConfigPath, result.Aside)
	}
	fmt.Fprintf(out, "%s has serial number %d; %d changes were written to it.\n", paths.ConfigPath, result.Serial, result.Records)
	return nil
}

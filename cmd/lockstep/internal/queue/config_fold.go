package queue

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"lockstep/actors/configstore"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/datadir"
	"lockstep/core/ownership"
	"lockstep/core/paths"
	"lockstep/persistence"
)

// folded is the JSON output of config fold.
type folded struct {
	Serial  int64  `json:"serial"`
	Records int    `json:"changes"`
	Aside   string `json:"set_aside,omitempty"`
}

func newConfigFoldCommand(globals *cli.Globals) *cobra.Command {
	var dataDir string
	var discardRest bool
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

lockstepd must not run during the command. Run this as the user of lockstepd.

Exit code: 0; 1 if a daemon runs or a file cannot be used.
With --json: {"serial": number, "changes": number, "set_aside": string}`,
		Example: `  lockstep config fold
  lockstep config fold --discard-rest`,
		Args: cli.WantArgs(0, 0, "config fold takes no arguments"),
		RunE: func(*cobra.Command, []string) error {
			return runConfigFold(globals, datadir.Choose(dataDir), discardRest)
		},
	}
	command.Flags().StringVar(&dataDir, "data-dir", "", datadir.Help)
	command.Flags().BoolVar(&discardRest, "discard-rest", false, "go on without the changes after damage of the journal")
	return command
}

func runConfigFold(globals *cli.Globals, dataDir string, discardRest bool) error {
	var result configstore.Result
	err := datadir.WhileStopped(dataDir, func() (err error) {
		files, err := persistence.OpenFiles(dataDir, ownership.Rules{})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, files.Close()) }()
		result, err = configstore.Offline{Files: files}.Fold(discardRest)
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

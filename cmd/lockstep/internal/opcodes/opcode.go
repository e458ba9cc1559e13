// Package opcodes has the commands opcode list, show and check. Fetch returns the daemon's
// catalogue, also for other packages.
package opcodes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/core/answer"
)

// NewCommand is the command opcode.
func NewCommand(globals *cli.Globals) *cobra.Command {
	command := &cobra.Command{
		Use:   "opcode list|show|check|reload",
		Short: "Show the opcodes, or check or reload files that declare opcodes",
		Long: `An opcode is one step of a job: a kind and its parameters. A few kinds are built in.
Others can be declared in files of the daemon's directory opcodes.d:
  name: OP_SITE_DRAIN
  doc: Moves the work of some nodes away.
  params:
    - {name: nodes, type: List of NonEmptyString, required: true}
  command: [/usr/local/sbin/drain, "${nodes}"]
  locks:
    node/${nodes}: exclusive
"lockstep opcode check" checks such files. The daemon reads them at its start, for
"lockstep opcode reload" and on SIGHUP; "list" and "show" print its catalogue.`,
		Example: `  lockstep opcode list
  lockstep opcode show OP_RUN_COMMAND
  lockstep opcode check`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.Usagef("opcode list, show, check or reload, not %q", args[0])
			}
			return cli.Usagef("say one of list, show, check and reload")
		},
		RunE: func(*cobra.Command, []string) error { return nil }, // without RunE cobra ignores Args
	}
	command.AddCommand(newListCommand(globals), newShowCommand(globals), newCheckCommand(globals), newReloadCommand(globals))
	return command
}

// Opcode is an opcode of the daemon's catalogue.
type Opcode struct{ answer.Opcode }

// MarshalJSON returns what --json prints of an opcode.
func (o Opcode) MarshalJSON() ([]byte, error) {
	return cli.EncodeJSON(struct {
		Name    string               `json:"name"`
		Doc     string               `json:"doc"`
		Defined bool                 `json:"defined"`
		Runs    bool                 `json:"runs"`
		Params  []answer.OpcodeParam `json:"params"`
	}{o.Name, o.Doc, o.Defined, o.Runs, o.Params})
}

// jsonHelp describes an opcode in JSON output.
const jsonHelp = `{"name": string, "doc": string, "defined": bool, "runs": bool, "params":
[{"name": string, "type": string, "required": bool, "default": any, "doc": string,
"secret": bool}]}; "defined" is true for declared opcodes, "runs" false for opcodes
without an executor`

// IsBuiltin reports whether jobs of every daemon can have the opcode, without a declaration: lockstep's job process has an executor for
// it. In Ganeti mode Ganeti's job process executes these opcodes, all but OP_RUN_COMMAND.
func IsBuiltin(name string) bool { return builtinOpcodes()[name] != "" }

// builtinOpcodes describes the opcodes that lockstep's job process executes itself (execute.go of lockstep-job), by OP_ID.
func builtinOpcodes() map[string]string {
	return map[string]string{
		"OP_CLUSTER_QUERY":       "Queries the daemon about the cluster.",
		"OP_CLUSTER_REDIST_CONF": "Does nothing: the configuration is distributed already.",
		"OP_CLUSTER_SET_PARAMS":  `Changes settings of the queue, as "lockstep config" does.`,
		"OP_QUERY":               "Queries the daemon about jobs, locks and other objects.",
		"OP_QUERY_FIELDS":        "Queries the fields of OP_QUERY.",
		"OP_RUN_COMMAND":         `Runs a command; "lockstep run" submits it.`,
		"OP_TEST_DELAY":          "Waits, for tests.",
		"OP_TEST_JQUEUE":         "Tests the queue: it logs, calls back and fails on request.",
		"OP_TEST_OS_PARAMS":      "Logs the names of the secret parameters, for tests.",
	}
}

// CheckRuns returns an error for the user if the opcode has no executor.
func (o Opcode) CheckRuns() error {
	if o.Runs {
		return nil
	}
	return fmt.Errorf(`this daemon cannot execute %s, an opcode of Ganeti; "lockstep opcode list" lists those that it executes`, o.Name)
}

// kind names the origin of the opcode, or says that this daemon cannot execute it.
func (o Opcode) kind() string {
	switch {
	case o.Defined:
		return "declared"
	case IsBuiltin(o.Name):
		return "built in"
	case o.Runs:
		return "Ganeti's"
	}
	return "not run"
}

// Fetch returns the catalogue, or with a name at most one opcode: declared opcodes first, then
// built-in ones, those that a node of a Ganeti cluster executes, and the rest.
func Fetch(ctx context.Context, daemon client.Querier, names ...any) ([]Opcode, error) {
	var known []answer.Opcode
	if err := daemon.Query(ctx, "LockstepOpcodes", append([]any{}, names...), &known); err != nil {
		return nil, err
	}
	builtin := builtinOpcodes()
	opcodes := make([]Opcode, len(known))
	for i := range opcodes {
		o := &opcodes[i]
		o.Opcode = known[i]
		doc, known := builtin[o.Name]
		o.Runs = o.Runs || known || o.Defined // daemons of earlier versions do not say it
		o.Doc = cmp.Or(o.Doc, doc)
		if o.Params == nil {
			o.Params = []answer.OpcodeParam{}
		}
	}
	rank := func(o Opcode) int {
		return slices.Index([]string{"declared", "built in", "Ganeti's", "not run"}, o.kind())
	}
	slices.SortFunc(opcodes, func(a, b Opcode) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.Name, b.Name))
	})
	return opcodes, nil
}

type opcodeListOptions struct{ All bool }

func newListCommand(globals *cli.Globals) *cobra.Command {
	opts := opcodeListOptions{}
	command := &cobra.Command{
		Use:   "list [--all]",
		Short: "List the opcodes",
		Long: `List the opcodes with an executor: the declared ones, then the built-in ones.
"Required" names the parameters without default.

With --all also Ganeti's other opcodes. They have no executor in this daemon: "lockstep
submit" refuses them, and the jobs of other clients fail.

With --json: a list of
` + jsonHelp + ".",
		Example: `  lockstep opcode list
  lockstep opcode list --all
  lockstep opcode list --json | jq -r '.[] | select(.defined).name'`,
		Args: cli.WantArgs(0, 0, "opcode list takes no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			return runList(command.Context(), opts, globals)
		},
	}
	command.Flags().BoolVarP(&opts.All, "all", "a", false, "include opcodes without an executor")
	return command
}

func runList(ctx context.Context, opts opcodeListOptions, globals *cli.Globals) error {
	daemon := globals.Connect()
	defer daemon.Close()
	opcodes, err := Fetch(ctx, daemon)
	if err != nil {
		return err
	}
	shown := []Opcode{}
	for _, o := range opcodes {
		if o.Runs || opts.All {
			shown = append(shown, o)
		}
	}
	if globals.JSON {
		return cli.PrintJSON(globals.Streams.Out, shown)
	}
	fmt.Fprintln(globals.Streams.Out, opcodeTable(shown, globals.Streams.Width))
	return nil
}

func newShowCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show an opcode, its parameters and how to submit it",
		Long: `Show an opcode, its parameters, and a submission with the required ones. The name may
be in small letters, and without OP_.

The values of secret parameters are neither stored nor shown.

Exit code: 0; 1 if there is no such opcode.
With --json:
` + jsonHelp + ".",
		Example: `  lockstep opcode show OP_RUN_COMMAND
  lockstep opcode show test_delay`,
		Args: cli.WantArgs(1, 1, "name one opcode"),
		RunE: func(command *cobra.Command, args []string) error {
			return runShow(command.Context(), globals, args[0])
		},
		ValidArgsFunction: completion.Opcodes(globals),
	}
}

func runShow(ctx context.Context, globals *cli.Globals, name string) error {
	name = "OP_" + strings.TrimPrefix(strings.ToUpper(name), "OP_")
	daemon := globals.Connect()
	defer daemon.Close()
	opcodes, err := Fetch(ctx, daemon, name)
	if err != nil {
		return err
	}
	if len(opcodes) == 0 {
		return fmt.Errorf(`there is no opcode %s; "lockstep opcode list --all" lists all opcodes`, name)
	}
	if globals.JSON {
		return cli.PrintJSON(globals.Streams.Out, opcodes[0])
	}
	printOpcode(globals, opcodes[0])
	return nil
}

package config

import (
	"context"
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/core/answer"
	"lockstep/core/config/view"
)

func newShowCommand(globals *cli.Globals) *cobra.Command {
	from := source{globals: globals}
	command := &cobra.Command{
		Use:   "show [PATH]",
		Short: "Show a part of the configuration of the cluster",
		Long: `Show a part of the configuration of the cluster, config.data. Without PATH the parts
are listed. PATH is
  cluster, nodes, nodegroups, instances, networks, disks or filters,
  after a slash the name or uuid of an object,
  after further slashes keys and indexes of values.
Objects are listed as a table, and one object is shown with indented values. Secrets
are shown as <redacted>: parameters of osparams_private, secrets of DRBD, and
parameters that a declared opcode marks as secret; --file does not know the latter.

Exit code: 0; 1 if there is no such part.
With --json: the value; without PATH the whole configuration.`,
		Example: `  lockstep config show
  lockstep config show instances
  lockstep config show instances/web1
  lockstep config show instances/web1/hvparams
  lockstep config show cluster/beparams --json
  lockstep config show nodes --file /var/lib/ganeti/config.data`,
		Args: cli.WantArgs(0, 1, "show one PATH, or none"),
		RunE: func(command *cobra.Command, args []string) error {
			return runShow(command.Context(), &from, append(args, "")[0])
		},
	}
	from.addFlag(command, "read the config.data at `PATH`; no daemon is asked")
	return command
}

func runShow(ctx context.Context, from *source, path string) error {
	form := view.AsTable
	if from.globals.JSON {
		form = view.AsJSON
	}
	part, err := from.show(ctx, path, form)
	if err != nil {
		return err
	}
	streams := from.globals.Streams
	switch {
	case from.globals.JSON:
		return cli.PrintJSON(streams.Out, part.Value)
	case part.Table == nil:
		fmt.Fprint(streams.Out, valueText(part.Value, streams.Now()))
		return nil
	}
	fmt.Fprintln(streams.Out, tableText(part.Table, streams.Width))
	if part.Path == "" {
		fmt.Fprintf(streams.Out, "Serial number %d, last changed %s\n", part.Serial, clock(part.Time, streams.Now()))
	}
	return nil
}

// tableText shows the objects of a container as a table, at most width columns wide.
func tableText(t *answer.ConfigTable, width int) string {
	header := table.Row{}
	for _, column := range t.Columns {
		header = append(header, term.Visible(column))
	}
	rows := []table.Row{}
	for _, cells := range t.Rows {
		row := table.Row{}
		for _, cell := range append(cells, make([]string, max(0, len(header)-len(cells)))...)[:len(header)] {
			row = append(row, term.OrDash(term.Visible(cell)))
		}
		rows = append(rows, row)
	}
	return term.TextTable(header, rows, []int{0}, width)
}

package config

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/core/config/history"
	"lockstep/core/words"
)

// limitDefault is the number of changes that config history shows.
const limitDefault = 50

// entryHelp describes changes in JSON output.
const entryHelp = `With --json:
[{"time": string, "serial_no", "before": number, "client": {"job": number, "opcode",
"name": string, "pid", "uid": number, "unknown": bool}, "method": string, "objects":
[{"kind", "uuid", "name", "operation": string, "paths": [{"path": string, "old", "new":
any, "old_length", "new_length": number}], "unlocked": bool}], "more_objects", "more_paths": number}];
what does not apply is absent; a value with a length is the start of a longer one`

type historyOptions struct {
	since  time.Duration
	object string
	limit  int
	// unlocked selects changes without locks.
	unlocked bool
}

func newHistoryCommand(globals *cli.Globals) *cobra.Command {
	from := source{globals: globals}
	opts := historyOptions{}
	command := &cobra.Command{
		Use:   "history",
		Short: "List the changes of the configuration of the cluster",
		Long: `List the changes of the configuration of the cluster, the newest last: the serial
number of the configuration after the change, the time, the job or program, its call,
and the changed objects. "lockstep config diff" shows one change completely. The
daemon keeps the newest changes, about 4 to 8 MB.

A client of WConfD should hold the lock of an object in exclusive mode when it changes
it; that of the instance for its disks. A change without it is marked (unlocked), and
refused if the setting config_lock_check is "refuse".

Exit code: 0.
` + entryHelp,
		Example: `  lockstep config history
  lockstep config history --since 2d --object web1
  lockstep config history --object nodes --limit 5
  lockstep config history --unlocked`,
		Args: cli.WantArgs(0, 0, "config history takes no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			return runHistory(command.Context(), &from, opts)
		},
	}
	flags := command.Flags()
	flags.Var(term.DurationFlag{Value: &opts.since}, "since", "only changes of the last `DURATION`: "+words.DurationHelp)
	flags.StringVar(&opts.object, "object", "", "only changes of the object with this `NAME` or uuid, or of a kind, like nodes")
	flags.IntVar(&opts.limit, "limit", limitDefault, "at most `N` changes; 0 means all")
	flags.BoolVar(&opts.unlocked, "unlocked", false, "only changes of objects whose lock the client did not have")
	from.addFlag(command, historyFileUsage)
	return command
}

const historyFileUsage = "read the history beside the config.data at `PATH`; no daemon is asked"

func runHistory(ctx context.Context, from *source, opts historyOptions) error {
	if opts.limit < 0 {
		return cli.Usagef("--limit is a number of changes, not %d", opts.limit)
	}
	streams := from.globals.Streams
	q := history.Query{Object: opts.object, Limit: opts.limit, Unlocked: opts.unlocked}
	if opts.since > 0 {
		q.Since = float64(streams.Now().Add(-opts.since).UnixMilli()) / 1000
	}
	h, err := from.history(ctx, q)
	if err != nil {
		return err
	}
	if from.globals.JSON {
		return cli.PrintJSON(streams.Out, documents(h.Entries))
	}
	if len(h.Entries) == 0 {
		fmt.Fprintln(streams.Out, "no changes")
		return nil
	}
	rows := []table.Row{}
	for _, e := range h.Entries {
		rows = append(rows, table.Row{fmt.Sprint(e.Serial), term.WallClock(streams.Now(), timeOf(e)), clientText(e.Client),
			term.OrDash(term.Visible(e.Method)), summary(e)})
	}
	fmt.Fprintln(streams.Out, term.PlainTable(table.Row{"Serial", "Time", "Client", "Call", "Changes"}, rows, []int{4}, streams.Width))
	return nil
}

// document is a change in JSON output. Its time is RFC 3339.
type document struct {
	Time string `json:"time"`
	history.Entry
}

func documents(entries []history.Entry) []document {
	all := []document{}
	for _, e := range entries {
		all = append(all, document{timeOf(e).UTC().Format(time.RFC3339Nano), e})
	}
	return all
}

// timeOf is the time of a change, to the microsecond.
func timeOf(e history.Entry) time.Time { return time.UnixMicro(int64(math.Round(e.Time * 1e6))) }

// clientText names the origin of a change: a job, a user's program, or the daemon; "-": it is not known.
func clientText(c history.Client) string {
	switch {
	case c.Job != 0 && c.Opcode != "":
		return fmt.Sprintf("job %d (%s)", c.Job, term.Visible(c.Opcode))
	case c.Job != 0:
		return fmt.Sprintf("job %d", c.Job)
	case c.UID != nil:
		return fmt.Sprintf("%s (pid %d, uid %d)", term.OrDash(term.Visible(c.Name)), c.PID, *c.UID)
	case c.Name != "" && c.PID == 0: // the daemon's own change, for the user that the name has
		return term.Visible(c.Name)
	case c.Name != "":
		return fmt.Sprintf("%s (pid %d)", term.Visible(c.Name), c.PID)
	}
	return "-"
}

// shownMax is the number of objects, and of paths of an object, in a line of the list.
const shownMax = 3

// summary names the first changed objects of a change with their changed values, and counts the others.
func summary(e history.Entry) string {
	var parts []string
	for i, d := range e.Objects[:min(len(e.Objects), shownMax)] {
		part := fmt.Sprintf("%s %s", term.Visible(string(d.Operation)), objectText(d))
		if d.Unlocked {
			part += " (unlocked)"
		}
		var paths []string
		for _, p := range d.Paths {
			paths = append(paths, term.Visible(p.Path))
		}
		if len(paths) > 0 {
			part += ": " + term.FirstFew(paths, shownMax)
		}
		if i == 0 {
			part = strings.ToUpper(part[:1]) + part[1:]
		}
		parts = append(parts, part)
	}
	if more := len(e.Objects) - len(parts) + e.MoreObjects; more > 0 {
		parts = append(parts, "and "+term.Count(more, "more object"))
	}
	return term.OrDash(strings.Join(parts, "; "))
}

// objectText is the path of an object: its kind, and its name or uuid if it has one.
func objectText(d history.Difference) string {
	switch {
	case d.UUID == "":
		return term.Visible(d.Kind)
	case d.Name == "":
		return term.Visible(d.Kind + "/" + d.UUID)
	}
	return term.Visible(d.Kind + "/" + d.Name)
}

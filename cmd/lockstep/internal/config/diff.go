package config

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/core/config/history"
)

func newDiffCommand(globals *cli.Globals) *cobra.Command {
	from := source{globals: globals}
	command := &cobra.Command{
		Use:   "diff SERIAL|FROM..TO",
		Short: "Show what a change of the configuration did",
		Long: `Show what the change to the configuration with this serial number did, or what all
changes after FROM up to TO did, one after the other. Each changed value is shown as
before and after. Secrets are shown as <redacted>, and long values are cut.

Exit code: 0; 1 if the history has no such change.
` + entryHelp,
		Example: `  lockstep config diff 4711
  lockstep config diff 4700..4711`,
		Args: cli.WantArgs(1, 1, "name one serial number, or two as FROM..TO"),
		RunE: func(command *cobra.Command, args []string) error {
			return runDiff(command.Context(), &from, args[0])
		},
	}
	from.addFlag(command, historyFileUsage)
	return command
}

// parseRange reads the argument of diff: N is the change that leads to serial number N, and N..M the changes after N up to M.
func parseRange(text string) (q history.Query, err error) {
	first, last, isRange := strings.Cut(text, "..")
	if !isRange {
		last = first
	}
	from, wrongFrom := strconv.ParseInt(first, 10, 64)
	to, wrongTo := strconv.ParseInt(last, 10, 64)
	switch {
	case wrongFrom != nil || wrongTo != nil || from < 0 || to < 1:
		return q, cli.Usagef("%q is not a serial number like 12, or two like 12..15", text)
	case isRange && from >= to:
		return q, cli.Usagef("%s: the first serial number must be less than the second", text)
	case isRange:
		from++
	}
	return history.Query{From: from, To: to}, nil
}

func runDiff(ctx context.Context, from *source, serials string) error {
	q, err := parseRange(serials)
	if err != nil {
		return err
	}
	h, err := from.history(ctx, q)
	switch {
	case err != nil:
		return err
	case len(h.Entries) == 0 && h.Oldest == 0:
		return fmt.Errorf("the history is empty")
	case len(h.Entries) == 0:
		return fmt.Errorf("the history has no change to serial number %s; its oldest is %d", serials, h.Oldest)
	}
	streams := from.globals.Streams
	if from.globals.JSON {
		return cli.PrintJSON(streams.Out, documents(h.Entries))
	}
	for i, e := range h.Entries {
		if i > 0 {
			fmt.Fprintln(streams.Out)
		}
		fmt.Fprintf(streams.Out, "%s\n", from.globals.Palette().Title(fmt.Sprintf("Serial number %d, was %d", e.Serial, e.Before)))
		fmt.Fprintf(streams.Out, "Time: %s\nClient: %s\nCall: %s\n",
			term.FullClock(streams.Now(), timeOf(e)), clientText(e.Client), term.OrDash(term.Visible(e.Method)))
		printObjects(streams.Out, e)
	}
	return nil
}

// printObjects shows the objects of a change, with their changed values, and counts what the history has left out.
func printObjects(w io.Writer, e history.Entry) {
	for _, d := range e.Objects {
		object := objectText(d)
		if d.Name != "" && d.UUID != "" {
			object += " (" + term.Visible(d.UUID) + ")"
		}
		fmt.Fprintf(w, "%s %s\n", term.Visible(string(d.Operation)), object)
		for _, p := range d.Paths {
			fmt.Fprintf(w, "  %s: %s\n", term.Visible(p.Path), changeText(p))
		}
	}
	if e.MorePaths > 0 {
		fmt.Fprintf(w, "and %s of these objects\n", term.Count(e.MorePaths, "more value"))
	}
	if e.MoreObjects > 0 {
		fmt.Fprintf(w, "and %s\n", term.Count(e.MoreObjects, "more object"))
	}
}

// changeText shows a value before and after. If both look alike, it says why they differ.
func changeText(p history.PathChange) string {
	text := partText(p.Old, p.OldLength) + " -> " + partText(p.New, p.NewLength)
	switch {
	case !bytes.Equal(p.Old, p.New):
		return text
	case p.OldLength > 0:
		return text + " (they differ after the cut or in a secret)"
	}
	return text + " (they differ in a secret)"
}

// partText shows a value, or the start of one that is cut, whose whole length is then more than 0 bytes.
func partText(value json.RawMessage, length int) string {
	if value == nil {
		return "none"
	}
	var start string
	if length > 0 && json.Unmarshal(value, &start) == nil {
		return fmt.Sprintf("%s… (%d bytes)", term.Visible(start), length)
	}
	return term.Visible(string(value))
}

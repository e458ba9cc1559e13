package config

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/core/words"
)

func newGetCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "get [KEY...]",
		Short: "Show settings of the queue",
		Long: `Show the settings of the queue, all or the named ones. For a single named setting
only the value is printed.

Exit code: 0; 1 if there is no such setting.
With --json: {KEY: value}`,
		Example: `  lockstep config get
  lockstep config get max_running_jobs
  lockstep config get --json | jq .predictive`,
		RunE: func(command *cobra.Command, args []string) error {
			return runGet(command.Context(), globals, args)
		},
		ValidArgsFunction: completion.Settings(globals, ""),
	}
}

func newSetCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "set KEY=VALUE...",
		Short: "Change settings of the queue",
		Long: `Change settings of the queue: all named settings, or, after a mistake, none. A VALUE
is JSON, such as 40, 0.5, true or null; other values are strings. A time is a
number with a unit: 45s, 1m30s or 2h.

Exit code: 0, also if no value changes; 1 if the daemon refuses.
With --json: {KEY: value}, all current settings.`,
		Example: `  lockstep config set max_running_jobs=40
  lockstep config set predictive=true predictive_tick=45s`,
		Args: cli.WantArgs(1, -1, "say at least one KEY=VALUE"),
		RunE: func(command *cobra.Command, args []string) error {
			return runSet(command.Context(), globals, args)
		},
		ValidArgsFunction: completion.Settings(globals, "="),
	}
}

// settings are the values of the queue's settings, as received.
type settings map[string]json.RawMessage

func (s settings) keys() []string { return slices.Sorted(maps.Keys(s)) }

func (s settings) errUnknown(key string) error {
	return fmt.Errorf("there is no setting %q; there are %s", key, strings.Join(s.keys(), ", "))
}

func getSettings(ctx context.Context, daemon client.Querier) (settings, error) {
	all := settings{}
	err := daemon.Query(ctx, "LockstepGetSettings", nil, &all)
	return all, err
}

func runGet(ctx context.Context, globals *cli.Globals, keys []string) error {
	daemon := globals.Connect()
	defer daemon.Close()
	all, err := getSettings(ctx, daemon)
	if err != nil {
		return err
	}
	shown := all
	if len(keys) > 0 {
		shown = settings{}
	}
	for _, key := range keys {
		value, known := all[key]
		if !known {
			return all.errUnknown(key)
		}
		shown[key] = value
	}
	switch {
	case globals.JSON:
		return cli.PrintJSON(globals.Streams.Out, shown)
	case len(keys) == 1:
		fmt.Fprintln(globals.Streams.Out, term.Visible(words.FormatSetting(keys[0], shown[keys[0]])))
	default:
		fmt.Fprintln(globals.Streams.Out, settingTable(shown, globals.Streams.Width))
	}
	return nil
}

func settingTable(shown settings, width int) string {
	rows := make([]table.Row, 0, len(shown))
	for _, key := range shown.keys() {
		value := term.Visible(words.FormatSetting(key, shown[key]))
		rows = append(rows, table.Row{term.Visible(key), value, term.OrDash(words.SettingOf(key).Text)})
	}
	return term.TextTable(table.Row{"Setting", "Value", "Meaning"}, rows, []int{1, 2}, width)
}

func runSet(ctx context.Context, globals *cli.Globals, args []string) error {
	pairs, err := splitPairs(args)
	if err != nil {
		return err
	}
	daemon := globals.Connect()
	defer daemon.Close()
	before, err := getSettings(ctx, daemon)
	if err != nil {
		return err
	}
	change := settings{}
	for _, pair := range pairs {
		have, known := before[pair.key]
		if !known {
			return before.errUnknown(pair.key)
		}
		if change[pair.key], err = words.ParseSetting(pair.key, pair.value, have); err != nil {
			return cli.Usagef("%v", err)
		}
	}
	after := settings{}
	if err := daemon.Call(ctx, "LockstepSetSettings", []any{change}, &after); err != nil {
		return err
	}
	if globals.JSON {
		return cli.PrintJSON(globals.Streams.Out, after)
	}
	for _, pair := range pairs {
		was := term.Visible(words.FormatSetting(pair.key, before[pair.key]))
		is := term.Visible(words.FormatSetting(pair.key, after[pair.key]))
		if was == is {
			fmt.Fprintf(globals.Streams.Out, "%s: %s, as before\n", pair.key, is)
		} else {
			fmt.Fprintf(globals.Streams.Out, "%s: %s, was %s\n", pair.key, is, was)
		}
	}
	return nil
}

type settingPair struct{ key, value string }

func splitPairs(args []string) ([]settingPair, error) {
	pairs := make([]settingPair, 0, len(args))
	for _, arg := range args {
		key, value, given := strings.Cut(arg, "=")
		if !given || key == "" {
			return nil, cli.Usagef("a setting is changed by KEY=VALUE, not by %q", arg)
		}
		if slices.ContainsFunc(pairs, func(p settingPair) bool { return p.key == key }) {
			return nil, cli.Usagef("the setting %s is given twice", key)
		}
		pairs = append(pairs, settingPair{key, value})
	}
	return pairs, nil
}

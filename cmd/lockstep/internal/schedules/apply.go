package schedules

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/doctree"
	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/jobfile"
	"lockstep/cmd/lockstep/internal/submit"
	"lockstep/core/access"
	"lockstep/core/answer"
	"lockstep/core/wire"
	"lockstep/edge/zones"
)

type applyOptions struct{ Plan, Prune bool }

const fileHelp = `A file of schedules, YAML or JSON:
  schedules:
    - name: nightly
      cron: '0 3 * * *'
      tz: Europe/Berlin        # without it: the zone of this machine
      overlap: skip            # queue, replace, allow
      catch_up: last           # none, all
      catch_up_within: 1d
      job: {run: [./backup], cwd: /srv, lock: backup, timeout: 2h}
    - name: poll
      every: 90m
      jitter: 10m
      as: postgres             # it needs the role admin
      jobs:
        - {name: fetch, run: [./fetch]}
        - {after: fetch, run: [./load]}
Jobs have the form of those in a file for "lockstep submit".`

func newApplyCommand(globals *cli.Globals) *cobra.Command {
	opts := applyOptions{}
	command := &cobra.Command{
		Use:   "apply FILE|DIRECTORY [--plan] [--prune]",
		Short: "Make schedules be as files say",
		Long: `Add the schedules of a file that do not exist, and change those that differ. Of a
directory all files *.yaml, *.yml and *.json are taken, - is standard input. To apply a
file again changes nothing. A schedule that is changed keeps its history and its pause;
if its times are changed, they count from now.

With --plan nothing is changed, and the output says what would be. With --prune the
schedules that you have added or applied before, and that are not in the files, are
removed, whoever they run as, and without a question: --plan lists them.

` + fileHelp + `

All mistakes of the files are lines FILE:LINE:COLUMN: on standard error; then nothing is
changed. What only the daemon refuses is reported for each schedule, and the others are
changed.

Exit code: 0; 1 if the daemon refuses a schedule; 2 after mistakes in the files.
With --json: {"added": [name], "changed": [{"name", "what": [key]}], "removed": [name],
"unchanged": [name]}. Each mistake in a file is {"event": "mistake", "line", "column", "error"}.`,
		Example: `  lockstep schedule apply --plan schedules.yaml
  lockstep schedule apply schedules.yaml
  lockstep schedule apply --prune /etc/schedules.d`,
		Args: cli.WantArgs(1, 1, "name one file or directory, or - for standard input"),
		RunE: func(command *cobra.Command, args []string) error {
			return runApply(command.Context(), opts, globals, args[0])
		},
	}
	command.Flags().BoolVar(&opts.Plan, "plan", false, "change nothing, and say what would be changed")
	command.Flags().BoolVar(&opts.Prune, "prune", false,
		"remove the schedules that you have added or applied before and that are not in the files")
	return command
}

// wanted is a schedule of a file.
type wanted struct {
	jobfile.Schedule
	file  string
	as    *access.Submitter // nil: the caller
	isNew bool
	what  []string // keys that are changed
}

// changeOf is a changed schedule with --json.
type changeOf struct {
	Name string   `json:"name"`
	What []string `json:"what"`
}

// plan is what is to be done, and with --json what was done.
type plan struct {
	Added     []string   `json:"added"`
	Changed   []changeOf `json:"changed"`
	Removed   []string   `json:"removed"`
	Unchanged []string   `json:"unchanged"`
}

func runApply(ctx context.Context, opts applyOptions, globals *cli.Globals, path string) error {
	daemon := globals.Connect()
	defer daemon.Close()
	all, err := readSchedules(ctx, globals, daemon, path)
	if err != nil {
		return err
	}
	todo, remove, unchanged, err := compare(ctx, daemon, all, opts.Prune)
	if err != nil {
		return err
	}
	globals.SayWhose(daemon)
	done := plan{[]string{}, []changeOf{}, []string{}, unchanged}
	failed := false
	report := func(err error, place string) error {
		var refused *wire.Error
		switch {
		case errors.As(err, &refused):
			failed = true
			cli.PrintError(globals.Streams.Err, place+client.Explain(err))
			return nil
		default:
			return err
		}
	}
	for _, w := range todo {
		if !opts.Plan {
			if err := put(ctx, daemon, w.Definition, w.as, !w.isNew); err != nil {
				if err := report(err, fmt.Sprintf("%s:%d: ", w.file, w.At.Line)); err != nil {
					return err
				}
				continue
			}
		}
		if w.isNew {
			done.Added = append(done.Added, w.Definition.Name)
		} else {
			done.Changed = append(done.Changed, changeOf{w.Definition.Name, w.what})
		}
	}
	for _, name := range remove {
		if !opts.Plan {
			if _, err := give(ctx, daemon, name, "remove", time.Time{}); err != nil {
				if err := report(err, ""); err != nil {
					return err
				}
				continue
			}
		}
		done.Removed = append(done.Removed, name)
	}
	if err := done.print(globals, opts.Plan); err != nil || !failed {
		return err
	}
	return &cli.ExitError{Code: cli.ExitFailure}
}

func (p plan) print(globals *cli.Globals, only bool) error {
	if globals.JSON {
		return cli.PrintJSON(globals.Streams.Out, p)
	}
	verb := func(done, planned string) string {
		if only {
			return planned
		}
		return done
	}
	out := globals.Streams.Out
	for _, name := range p.Added {
		fmt.Fprintln(out, verb("added", "would add"), term.Visible(name))
	}
	for _, c := range p.Changed {
		fmt.Fprintf(out, "%s %s: %s\n", verb("changed", "would change"), term.Visible(c.Name), term.Enumerate(c.What, "and"))
	}
	for _, name := range p.Removed {
		fmt.Fprintln(out, verb("removed", "would remove"), term.Visible(name))
	}
	fmt.Fprintln(out, len(p.Unchanged), "unchanged")
	return nil
}

// readSchedules reads the schedules of a file, or of the files of a directory. Mistakes are printed.
func readSchedules(ctx context.Context, globals *cli.Globals, daemon client.Querier, path string) ([]wanted, error) {
	files := []string{path}
	if info, err := os.Stat(path); path != "-" && err == nil && info.IsDir() {
		files = nil
		for _, pattern := range []string{"*.yaml", "*.yml", "*.json"} {
			found, _ := filepath.Glob(filepath.Join(filepath.Clean(path), pattern)) // the pattern is right, or matches nothing
			files = append(files, found...)
		}
		slices.Sort(files)
		if len(files) == 0 {
			return nil, fmt.Errorf("%s has no file *.yaml, *.yml or *.json", path)
		}
	}
	local := func() (string, error) { return zones.Local(globals.Streams.LookupEnv) }
	var all []wanted
	var wrong error
	first := map[string]wanted{}
	for _, file := range files {
		data, directory, err := submit.ReadFile(file, globals.Streams.In)
		if err != nil {
			return nil, err
		}
		read, err := jobfile.ParseSchedules(file, directory, data, local)
		ofFile := make([]wanted, len(read))
		for i := 0; i < len(read) && err == nil; i++ {
			ofFile[i] = wanted{Schedule: read[i], file: file}
			name := read[i].Definition.Name
			if other, twice := first[name]; twice {
				err = doctree.Errorf(read[i].At, "the schedule %q is in %s:%d, too", name, other.file, other.At.Line)
				break
			}
			first[name] = ofFile[i]
			err = ofFile[i].check(ctx, daemon)
		}
		if err != nil {
			var exit *cli.ExitError
			if wrong = submit.FileError(globals, file, err); !errors.As(wrong, &exit) {
				return nil, wrong
			}
		}
		all = append(all, ofFile...)
	}
	return all, wrong
}

// check finds the account of a schedule, and mistakes in its jobs about opcodes that only the daemon knows.
func (w *wanted) check(ctx context.Context, daemon client.Querier) (err error) {
	if w.as, err = submit.AccountNamed(w.As); err != nil {
		return doctree.Errorf(w.At, "%v", err)
	}
	return submit.CheckDeclared(ctx, daemon, w.Jobs)
}

// compare compares the schedules of files with those of the daemon. remove are those that the caller
// has defined and that are in no file, if they are to be removed.
func compare(ctx context.Context, daemon client.Querier, all []wanted, prune bool) (todo []wanted, remove, unchanged []string, err error) {
	var who answer.WhoAmI
	var have answer.Schedules
	err = daemon.Query(ctx, "LockstepWhoAmI", []any{}, &who)
	if err == nil {
		err = daemon.Query(ctx, "LockstepSchedules", []any{nil}, &have)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	known := map[string]answer.Schedule{}
	for _, s := range have.Schedules {
		known[s.Name] = s
	}
	unchanged = []string{}
	for _, w := range all {
		name := w.Definition.Name
		had, exists := known[name]
		delete(known, name)
		if w.isNew = !exists; w.isNew {
			todo = append(todo, w)
			continue
		}
		s, _, err := fetch(ctx, daemon, name)
		if err != nil {
			return nil, nil, nil, err
		}
		w.what = differences(w, s)
		by := who.User
		if w.as != nil {
			by = w.as.String()
		}
		if had.Owner != by {
			w.what = append(w.what, fmt.Sprintf("its owner, from %s to %s", had.Owner, by))
		} else if maker(had) != who.User {
			w.what = append(w.what, fmt.Sprintf("who has applied it, from %s to %s", maker(had), who.User))
		}
		if len(w.what) == 0 {
			unchanged = append(unchanged, name)
		} else {
			todo = append(todo, w)
		}
	}
	for _, s := range have.Schedules {
		if _, left := known[s.Name]; left && prune && maker(s) == who.User {
			remove = append(remove, s.Name)
		}
	}
	return todo, remove, unchanged, nil
}

// maker is who has defined a schedule; of a daemon that does not say so the owner.
func maker(s answer.Schedule) string { return cmp.Or(s.MadeBy, s.Owner) }

// differences are the keys in which a schedule of a file differs from that of the daemon.
func differences(w wanted, s answer.Schedule) (keys []string) {
	d, have := w.Definition, definitionOf(s)
	differs := func(key string, is bool) {
		if is {
			keys = append(keys, key)
		}
	}
	differs("cron", d.Cron != have.Cron)
	differs("tz", d.Zone != have.Zone)
	differs("every", d.EveryUs != have.EveryUs)
	differs("overlap", d.Overlap != have.Overlap)
	differs("catch_up", d.CatchUp != have.CatchUp)
	differs("catch_up_within", d.WithinUs != have.WithinUs)
	differs("jitter", d.JitterUs != have.JitterUs)
	differs("jobs", !equalJSON(d.Jobs, s.Jobs))
	return keys
}

// equalJSON reports whether two values have the same JSON, whatever the order of keys.
func equalJSON(a, b any) bool {
	var decoded [2]any
	for i, value := range []any{a, b} {
		encoded, err := cli.EncodeJSON(value)
		if err != nil || json.Unmarshal(encoded, &decoded[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(decoded[0], decoded[1])
}

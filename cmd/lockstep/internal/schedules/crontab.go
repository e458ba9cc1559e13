package schedules

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/core/crontab"
)

// planned is a schedule of a plan, as "schedule apply" reads it.
type planned struct {
	Name string     `json:"name" yaml:"name"`
	Cron string     `json:"cron" yaml:"cron"`
	Zone string     `json:"tz" yaml:"tz"`
	As   string     `json:"as,omitempty" yaml:"as,omitempty"`
	Job  plannedJob `json:"job" yaml:"job"`
}

// plannedJob has keys of a job in a file of jobs.
type plannedJob struct {
	Run   []string          `json:"run" yaml:"run,flow"`
	Cwd   string            `json:"cwd" yaml:"cwd"`
	Stdin string            `json:"stdin,omitempty" yaml:"stdin,omitempty"`
	Env   map[string]string `json:"env" yaml:"env"`
}

type importOptions struct {
	System bool
	Zone   string
}

func newImportCommand(globals *cli.Globals) *cobra.Command {
	opts := importOptions{}
	command := &cobra.Command{
		Use:   "import-crontab FILE [flags]",
		Short: "Make a plan of schedules of a crontab",
		Long: `Read a crontab and print a plan of schedules, YAML: for each line with a command its
name, times, zone and job, with the shell, the environment, the directory and the input
(after a %) that cron would give it. FILE can be - for standard input. Nothing is
changed, and no daemon is needed.

Lines of /etc/crontab and of files in /etc/cron.d have a column with the user, as those of
any file with --system. Without it the commands are of who runs this command, or of the
user whose name a file in cron's spool directory has.

Lines that cannot be schedules are named on standard error, with the reason, and so are
the lines to disable in the crontab, so that nothing runs twice.

Exit code: 0 if all lines with a command are in the plan, 1 otherwise.
With --json: {"plan": {"schedules": [{"name", "cron", "tz", "as": string, "job":
{"run": [string], "cwd": string, "stdin": string, "env": {NAME: string}}}]},
"refused": [{"line": number, "text": string}], "warnings": [the same],
"disable": [number]}; "as" and "stdin" only if they are given`,
		Example: `  crontab -l | lockstep schedule import-crontab - > plan.yaml
  lockstep schedule import-crontab /etc/crontab --tz Europe/Berlin`,
		Args: cli.WantArgs(1, 1, "name one crontab, or - for standard input"),
		RunE: func(_ *cobra.Command, args []string) error { return runImport(globals, opts, args[0]) },
	}
	command.Flags().BoolVar(&opts.System, "system", false, "lines have a column with the user, as in /etc/crontab")
	zoneFlag(command, &opts.Zone)
	return command
}

func runImport(globals *cli.Globals, opts importOptions, path string) error {
	text, err := readCrontab(globals, path)
	if err != nil {
		return err
	}
	zone, err := zoneOf(globals, opts.Zone)
	if err != nil {
		return err
	}
	owner, as, err := ownerOf(path)
	if err != nil {
		return err
	}
	system := opts.System || isSystems(path)
	file := crontab.Read(text, crontab.Options{System: system, User: owner, Zone: zone.String(), Home: homeOf})
	plan, disable := planOf(file, system, as)
	show := printPlan
	if globals.JSON {
		show = printPlanJSON
	}
	if err := show(globals, path, file, plan, disable); err != nil {
		return err
	}
	if len(file.Refused) > 0 {
		return &cli.ExitError{Code: cli.ExitFailure}
	}
	return nil
}

// planOf returns the schedules of a crontab, and the numbers of their lines. as is their user without a column of users, "" for the caller.
func planOf(file crontab.File, system bool, as string) (plan []planned, lines []int) {
	plan, lines = make([]planned, len(file.Entries)), make([]int, len(file.Entries))
	for i, entry := range file.Entries {
		lines[i] = entry.Line
		plan[i] = planned{entry.Name, entry.Cron, entry.Zone, as, plannedJob{entry.Run, entry.Directory, entry.Input, entry.Env}}
		if system {
			plan[i].As = entry.User
		}
	}
	return plan, lines
}

// readCrontab reads a file, or standard input for "-". A file that is too large is refused by the reader.
func readCrontab(globals *cli.Globals, path string) (string, error) {
	in := globals.Streams.In
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, crontab.SizeMax+1))
	if err != nil {
		return "", fmt.Errorf("read the crontab: %w", err)
	}
	return string(text), nil
}

// isSystems reports whether cron reads a column with the user in a file.
func isSystems(path string) bool {
	absolute, err := filepath.Abs(path)
	return err == nil && path != "-" && (absolute == "/etc/crontab" || filepath.Dir(absolute) == "/etc/cron.d")
}

// ownerOf is the user whose crontab a file without a column of users is. as is the user to be named in the plan, if it is not the
// one who runs this command: a file in cron's spool directory has the name of its owner.
func ownerOf(path string) (owner, as string, err error) {
	me, err := user.Current()
	if err != nil {
		return "", "", fmt.Errorf("whose crontab is it: %w", err)
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", "", err
	}
	for _, spool := range []string{"/var/spool/cron", "/var/spool/cron/crontabs", "/var/spool/cron/tabs", "/var/cron/tabs"} {
		if name := filepath.Base(absolute); filepath.Dir(absolute) == spool && name != me.Username {
			return name, name, nil
		}
	}
	return me.Username, "", nil
}

func homeOf(name string) (string, bool) {
	account, err := user.Lookup(name)
	if err != nil || !filepath.IsAbs(account.HomeDir) {
		return "", false
	}
	return account.HomeDir, true
}

func printPlan(globals *cli.Globals, path string, file crontab.File, plan []planned, disable []int) error {
	root := &yaml.Node{Kind: yaml.MappingNode}
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for i, schedule := range plan {
		one := &yaml.Node{}
		if err := one.Encode(schedule); err != nil {
			return err
		}
		one.HeadComment = "line " + strconv.Itoa(disable[i])
		list.Content = append(list.Content, one)
	}
	root.Content = []*yaml.Node{{Kind: yaml.ScalarNode, Value: "schedules"}, list}
	encoder := yaml.NewEncoder(globals.Streams.Out)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(root), encoder.Close()); err != nil {
		return err
	}
	for _, note := range file.Warnings {
		cli.PrintError(globals.Streams.Err, fmt.Sprintf("line %d: %s", note.Line, note.Text))
	}
	for _, note := range file.Refused {
		cli.PrintError(globals.Streams.Err, fmt.Sprintf("line %d is not in the plan: %s", note.Line, note.Text))
	}
	if len(disable) > 0 {
		from := map[bool]string{true: "the crontab", false: path}[path == "-"]
		cli.PrintError(globals.Streams.Err,
			"so that nothing runs twice, put a # before these lines of "+from+" when the plan is applied: "+ranges(disable))
	}
	return nil
}

// ranges are numbers in ascending order, in few words: 3, 5-7, 12.
func ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		end := i
		for end+1 < len(numbers) && numbers[end+1] == numbers[end]+1 {
			end++
		}
		part := strconv.Itoa(numbers[i])
		if end > i {
			part += "-" + strconv.Itoa(numbers[end])
		}
		parts = append(parts, part)
		i = end + 1
	}
	return strings.Join(parts, ", ")
}

func printPlanJSON(globals *cli.Globals, _ string, file crontab.File, plan []planned, disable []int) error {
	type schedules struct {
		Schedules []planned `json:"schedules"`
	}
	return cli.PrintJSON(globals.Streams.Out, struct {
		Plan     schedules      `json:"plan"`
		Refused  []crontab.Note `json:"refused"`
		Warnings []crontab.Note `json:"warnings"`
		Disable  []int          `json:"disable"`
	}{schedules{plan}, cli.OrEmpty(file.Refused), cli.OrEmpty(file.Warnings), disable})
}

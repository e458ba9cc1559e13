package jobfile

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"lockstep/cmd/internal/doctree"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/jobs"
	"lockstep/core/demand"
)

// Field is a key of a job file, for documentation.
type Field struct{ Name, Text string }

// JobFields are the keys of a job, beside those of a command, which a job with "run" has too.
func JobFields() []Field {
	return []Field{
		{"name", "the name of the job. Later jobs of the file, and commands of lockstep, may refer to it"},
		{"after",
			"the jobs that must have ended before: names of earlier jobs of the file, ids or names of existing jobs, one or a list. " +
				"\"NAME:success,error\", in quotes in a list, names the statuses with which it may end, and so does " +
				"{job: NAME, status: [success, error]}; " +
				"without them it must succeed"},
		{"at", "the job starts no earlier than this time, as run --at takes it, in the zone of the client: tomorrow 03:00"},
		{"delay", "the job starts no earlier than this duration after its submission, like 90s, 1h30m or 2d"},
		{"run", "the command, if the job has one step; see below"},
		{"steps", "a list of commands, each with the keys below, and of opcodes, each with OP_ID and its parameters"},
		{"ops", "a list of opcodes"},
		{"priority", "low, normal or high (10, 0, -10), of all steps that do not have their own"},
	}
}

// CommandFields are the keys of a command: three, and the parameters of OP_RUN_COMMAND that they, or those of a job, do not replace.
func CommandFields() []Field {
	fields := []Field{
		{"run", `a list: the program and its arguments. With "shell: true" a text, which sh -c interprets`},
		{"shell", "true: run is a text for the shell"},
		{"lock", "a lock that is held while the command runs: NAME, or NAME:shared; or a list of locks"},
	}
	for _, p := range builtinParams(demand.RunCommand) {
		switch p.Name {
		case "argv", "locks", "depends", "debug_level":
		default:
			fields = append(fields, Field{p.Name, p.Doc})
		}
	}
	return fields
}

func names(fields []Field) []string {
	all := make([]string, len(fields))
	for i, field := range fields {
		all[i] = field.Name
	}
	return all
}

// isCommand reports whether a step is a command in the short form.
func isCommand(n doctree.Node) bool {
	_, run := n.Field("run")
	_, isOpcode := n.Field("OP_ID")
	return n.Kind == doctree.Object && run && !isOpcode
}

// command returns the opcode of a command: the one that "lockstep run" submits. Keys of beside belong to the job, not to the command.
func (r *reader) command(from doctree.Node, beside ...string) doctree.Node {
	run, _ := from.Field("run")
	op := doctree.Node{Kind: doctree.Object, At: from.At}
	set := func(name string, at doctree.Position, value doctree.Node) {
		op.Keys, op.Values = append(op.Keys, doctree.Key{Name: name, At: at}), append(op.Values, value)
	}
	set("OP_ID", from.At, doctree.Node{At: from.At, Scalar: demand.RunCommand})
	for i, key := range from.Keys {
		value := from.Values[i]
		switch {
		case slices.Contains(beside, key.Name):
		case key.Name == "run":
			shell, _ := from.Field("shell")
			set("argv", key.At, r.argv(run, shell.Scalar == true))
		case key.Name == "shell":
			if _, isBool := value.Scalar.(bool); !isBool {
				r.wrong(value, "shell is true or false, not %s", quoted(value))
			}
		case key.Name == "lock":
			set("locks", key.At, r.locks(value))
		case key.Name == "env" || key.Name == "secret_env":
			set(key.Name, key.At, r.environment(value))
		case key.Name == "priority":
			set(key.Name, key.At, r.priority(value))
		case key.Name == "cwd":
			set(key.Name, key.At, r.cwd(value))
		case slices.Contains(r.commandKeys, key.Name):
			set(key.Name, key.At, value)
		case slices.Contains([]string{"name", "after", "at", "delay"}, key.Name):
			r.addf(key.At, "%q belongs to the job, not to a step", key.Name)
		default:
			r.addf(key.At, "unknown key %q of a command%s", key.Name, didYouMean(key.Name, slices.Concat(r.commandKeys, beside), ""))
		}
	}
	if _, given := from.Field("cwd"); !given {
		set("cwd", from.At, doctree.Node{At: from.At, Scalar: r.directory})
	}
	return op
}

// argv reads the program and its arguments. Numbers and the like become texts, as they are spelled.
func (r *reader) argv(run doctree.Node, shell bool) doctree.Node {
	result := doctree.Node{Kind: doctree.List, At: run.At}
	text, isText := run.Scalar.(string)
	switch {
	case shell && isText:
		for _, arg := range []string{"sh", "-c", text} {
			result.Values = append(result.Values, doctree.Node{At: run.At, Scalar: arg})
		}
		return result
	case shell:
		r.wrong(run, `with "shell: true" run is a text, not %s`, run.Describe())
	case run.Kind != doctree.List:
		r.wrong(run, `run is a list, like [rsync, -a, /srv/], not %s; a text needs "shell: true"`, run.Describe())
	case len(run.Values) == 0:
		r.addf(run.At, "run is empty; it begins with the program")
	default:
		for _, arg := range run.Values {
			result.Values = append(result.Values, r.text(arg, "an argument of run"))
		}
		return result
	}
	return invalid(run.At)
}

// text reads a scalar as it is spelled.
func (r *reader) text(n doctree.Node, what string) doctree.Node {
	_, isText := n.Scalar.(string)
	switch {
	case n.Kind != doctree.Scalar || n.Scalar == nil:
		r.wrong(n, "%s is a text, not %s", what, n.Describe())
		return invalid(n.At)
	case isText:
	case n.Text != "":
		n.Scalar = n.Text
	default:
		n.Scalar = fmt.Sprint(n.Scalar)
	}
	return n
}

func (r *reader) environment(from doctree.Node) doctree.Node {
	if from.Kind != doctree.Object {
		r.wrong(from, "the environment has lines NAME: value, this is %s", from.Describe())
		return invalid(from.At)
	}
	result := from
	result.Values = make([]doctree.Node, len(from.Values))
	for i, value := range from.Values {
		result.Values[i] = r.text(value, "a variable")
	}
	return result
}

// cwd makes a directory absolute: the job does not run in the caller's. It need not exist yet, because an earlier job may make it.
func (r *reader) cwd(from doctree.Node) doctree.Node {
	text, isText := from.Scalar.(string)
	if !isText || text == "" {
		r.wrong(from, "cwd is a directory, not %s", quoted(from))
		return invalid(from.At)
	}
	if !filepath.IsAbs(text) {
		from.Scalar = filepath.Join(r.directory, text)
	}
	return from
}

func (r *reader) priority(from doctree.Node) doctree.Node {
	priority, err := ParsePriority(fmt.Sprint(from.Scalar))
	switch {
	case from.Kind != doctree.Scalar:
		r.wrong(from, "a priority is low, normal or high, not %s", from.Describe())
	case err != nil:
		r.addf(from.At, "%v", err)
	default:
		from.Scalar = json.Number(strconv.Itoa(priority))
		return from
	}
	return invalid(from.At)
}

// ParsePriority reads the priority of a new job; Ganeti permits three values. The error is a *UsageError.
func ParsePriority(text string) (int, error) {
	priority, err := jobs.ParseLevel(text)
	if err != nil {
		return 0, err
	}
	if !slices.Contains([]int{cli.PriorityHigh, cli.PriorityNormal, cli.PriorityLow}, priority) {
		return 0, cli.Usagef("a new job has priority low, normal or high (10, 0 or -10), not %d; "+
			"\"lockstep priority %d ID\" can change it afterwards",
			priority, priority)
	}
	return priority, nil
}

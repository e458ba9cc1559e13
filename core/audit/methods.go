package audit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// arguments are those of a call, as the client has sent them. They may be any JSON.
type arguments []json.RawMessage

// changes are the methods of LUXI that change something, with what they do in words; "": nothing, with these arguments. Submissions are not
// among them: their jobs say who has submitted them. Neither are the calls that only processes of the daemon make.
var changes = map[string]func(args arguments) string{
	"CancelJob": func(args arguments) string {
		if args.text(1) == "true" {
			return "kill job " + args.text(0)
		}
		return "cancel job " + args.text(0)
	},
	"ChangeJobPriority": func(args arguments) string {
		return "set the priority of job " + args.text(0) + " to " + args.text(1)
	},
	"LockstepHoldJob": func(args arguments) string {
		if args.text(1) == "true" {
			return "hold job " + args.text(0)
		}
		return "release job " + args.text(0)
	},
	"LockstepOrderJobs": orderJobs,
	"LockstepPutSchedule": func(args arguments) string {
		if len(args) == 0 {
			return ""
		}
		var d struct{ Name string }
		_ = json.Unmarshal(args[0], &d) // a definition without a name is refused
		return fmt.Sprintf("define schedule %.80s", d.Name)
	},
	"LockstepOrderSchedule": func(args arguments) string { return args.text(1) + " schedule " + args.text(0) },
	"ArchiveJob":            func(args arguments) string { return "archive job " + args.text(0) },
	"AutoArchiveJobs":       autoArchive,
	"SetDrainFlag": func(args arguments) string {
		if args.text(0) == "false" {
			return "undrain the queue"
		}
		return "drain the queue"
	},
	"SetWatcherPause":        watcherPause,
	"ReplaceFilter":          replaceFilter,
	"LockstepReplaceFilter":  replaceFilter,
	"DeleteFilter":           func(args arguments) string { return "delete filter rule " + args.text(0) },
	"LockstepSetSettings":    setSettings,
	"LockstepReloadOpcodes":  always("read the files of declared opcodes"),
	"LockstepConfigAdopt":    always("make the content of config.data by another program the configuration"),
	"LockstepConfigDiscard":  always("discard the content of config.data by another program"),
	"LockstepRotateConfdKey": always("replace the key of queries about the configuration"),
	"LockstepLoginLink":      always("make a login link for the console"),
	"LockstepGrant":          func(args arguments) string { return "grant the role " + args.text(0) + " to " + args.text(1) },
	"LockstepRevoke":         func(args arguments) string { return "revoke the role " + args.text(0) + " of " + args.text(1) },
	"LockstepNodeRemove":     func(args arguments) string { return "remove node " + args.text(0) + " from the cluster" },
	"LockstepNodePromote":    func(args arguments) string { return "make node " + args.text(0) + " the master" },
	"LockstepNodeCheck": func(args arguments) string {
		if args.text(0) == "false" {
			return ""
		}
		return "repair the files of the nodes"
	},
}

// Change says in words what a call changes. ok is false if it changes nothing that the audit log has.
func Change(method string, args []json.RawMessage) (what string, ok bool) {
	if describe := changes[method]; describe != nil {
		what = describe(args)
	}
	return what, what != ""
}

// Methods are the names of the methods with entries, in order.
func Methods() []string { return slices.Sorted(maps.Keys(changes)) }

// GoesOn reports whether a call is carried out also if its entry cannot be written. Someone must be able to end a job that has filled the
// disk.
func GoesOn(method string, args []json.RawMessage) bool {
	order := arguments(args).text(0)
	return method == "CancelJob" || method == "LockstepOrderJobs" && (order == "cancel" || order == "kill")
}

// argumentMax bounds the text of one argument, in bytes.
const argumentMax = 200

// text is the argument with that index for people: a string without its quotes; "?" if there is none.
func (args arguments) text(i int) string {
	if i >= len(args) {
		return "?"
	}
	var s string
	if json.Unmarshal(args[i], &s) != nil || string(args[i]) == "null" {
		s = string(args[i])
	}
	return bounded(s, argumentMax)
}

func always(what string) func(arguments) string { return func(arguments) string { return what } }

func autoArchive(args arguments) string {
	age, err := strconv.ParseInt(args.text(0), 10, 64)
	switch {
	case err != nil:
		return "archive jobs"
	case age < 0:
		return "archive all ended jobs"
	default:
		return fmt.Sprintf("archive jobs that ended more than %d s ago", age)
	}
}

// orderJobs says the number of jobs of an order for several, and names the first of them.
func orderJobs(args arguments) string {
	var ids []json.RawMessage
	if len(args) < 2 || json.Unmarshal(args[1], &ids) != nil || len(ids) == 0 {
		return "give an order for no jobs"
	}
	jobs := make([]string, min(len(ids), orderedNamed))
	for i := range jobs {
		jobs[i] = arguments(ids).text(i)
	}
	what := args.text(0)
	switch what {
	case "priority":
		what = "set the priority " + args.text(2) + " of"
	case "reschedule":
		what = "set the time " + args.text(2) + " of"
	}
	return fmt.Sprintf("%s %d jobs: %s", what, len(ids), strings.Join(jobs, ", "))
}

// orderedNamed is how many jobs of one order an entry names.
const orderedNamed = 100

func watcherPause(args arguments) string {
	seconds, err := strconv.ParseFloat(args.text(0), 64)
	if err != nil {
		return "end the pause of the watcher"
	}
	return "pause the watcher until " + time.Unix(int64(seconds), 0).UTC().Format(time.RFC3339)
}

func replaceFilter(args arguments) string {
	what := "add a filter rule"
	if uuid := args.text(0); uuid != "null" {
		what = "replace filter rule " + uuid
	}
	return fmt.Sprintf("%s: priority %s, predicates %s, action %s", what, args.text(1), args.text(2), args.text(3))
}

func setSettings(args arguments) string {
	var values map[string]json.RawMessage
	if len(args) == 0 || json.Unmarshal(args[0], &values) != nil || len(values) == 0 {
		return "change settings"
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := arguments{values[name]}.text(0)
		if value == "null" {
			value = "default"
		}
		all = append(all, bounded(name, nameMax)+" = "+value)
	}
	return "change settings: " + strings.Join(all, ", ")
}

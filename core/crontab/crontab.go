// Package crontab reads a crontab as cron does: the lines that set variables for later lines, the lines with a command and its times, the
// column of users in /etc/crontab and /etc/cron.d, and the input after a %. Each line with a command becomes an entry, or is refused with a
// reason: no line is left out in silence. It is pure; accounts are the caller's.
package crontab

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"lockstep/core/calendar"
)

// What a file may have. Cron itself takes lines of 1,000 characters.
const (
	SizeMax    = 1 << 20
	lineMax    = 10_000
	entriesMax = 10_000
)

// Options say what a crontab does not.
type Options struct {
	System bool                             // lines have a column with the user
	User   string                           // whose crontab it is, without such a column
	Zone   string                           // the zone of cron, whose times the expressions are
	Home   func(user string) (string, bool) // the home directory of a user, false if there is no such user
}

// Entry is a line with a command.
type Entry struct {
	Line int
	Name string // valid as the name of a job, and unique in the file. It depends on the command, and on the same commands before
	Cron string
	Zone string
	User string

	Run       []string
	Directory string
	Input     string
	Env       map[string]string
}

// Note is what is to be said of a line.
type Note struct {
	Line int    `json:"line"`
	Text string `json:"text"`
}

// File is a crontab. Entries and Refused are all lines with a command, and lines that cannot be read.
type File struct {
	Entries  []Entry
	Refused  []Note
	Warnings []Note
}

// reader reads a file line by line.
type reader struct {
	Options
	File
	line   int
	env    map[string]string // what the lines so far have set
	broken map[string]string // why entries cannot be taken over, by the variable that a line has set
	names  map[string]int    // how often a name was wanted; 0: it is free
}

// Read reads a crontab of at most SizeMax bytes.
func Read(text string, options Options) File {
	r := reader{Options: options, env: map[string]string{}, broken: map[string]string{}, names: map[string]int{}}
	if len(text) > SizeMax {
		r.refuse("the file has more than %d bytes", SizeMax)
		return r.File
	}
	for line := range strings.Lines(text) {
		r.line++
		line = strings.TrimLeft(strings.TrimSuffix(line, "\n"), " \t")
		switch {
		case line == "" || line[0] == '#':
		case len(line) > lineMax:
			r.refuse("the line has more than %d characters", lineMax)
		case !utf8.ValidString(line) || strings.ContainsFunc(line, isControl):
			r.refuse("the line has characters that are no text, such as a carriage return")
		case variable.MatchString(line):
			r.assign(line)
		case len(r.Entries) == entriesMax:
			r.refuse("the file has more than %d lines with a command", entriesMax)
		default:
			r.entry(line)
		}
	}
	return r.File
}

func isControl(c rune) bool { return unicode.IsControl(c) && c != '\t' }

func (r *reader) refuse(format string, args ...any) {
	r.Refused = append(r.Refused, Note{r.line, fmt.Sprintf(format, args...)})
}

func (r *reader) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, Note{r.line, fmt.Sprintf(format, args...)})
}

// variable is a line that sets one. Names and values may be in quotes.
var variable = regexp.MustCompile(`^(?:"([^"]+)"|'([^']+)'|([^\s"'=]+))[ \t]*=[ \t]*(.*?)[ \t]*$`)

// meanings are the variables that a cron itself reads, and what becomes of them. The environment of the command does not get them.
var meanings = map[string]string{
	"MAILTO":                    "no mail is sent: \"lockstep log\" has the output of a job, \"lockstep list --status error\" what has failed",
	"MAILFROM":                  "no mail is sent",
	"CONTENT_TYPE":              "no mail is sent",
	"CONTENT_TRANSFER_ENCODING": "no mail is sent",
	"RANDOM_DELAY":              "it is not in the plan: add a jitter to the schedules",
	"LOGNAME":                   "cron does not let a crontab change it, and neither does lockstep",
	"USER":                      "cron does not let a crontab change it, and neither does lockstep",
}

// assign takes a line that sets a variable.
func (r *reader) assign(line string) {
	m := variable.FindStringSubmatch(line)
	name := m[1] + m[2] + m[3]
	value, ok := unquoted(m[4])
	meaning, special := meanings[name]
	delete(r.broken, name)
	switch {
	case !ok:
		r.refuse("%s: the quotes around the value do not match", name)
		r.broken[name] = fmt.Sprintf("line %d, for %s, cannot be read", r.line, name)
	case special && value != "":
		r.warn("%s: %s", name, meaning)
	case special:
	case name == "CRON_TZ":
		r.setZone(value)
	case name == "HOME" && !path.IsAbs(value), name == "SHELL" && !path.IsAbs(value):
		r.refuse("%s is no absolute path", name)
		r.broken[name] = fmt.Sprintf("%s, of line %d, is no absolute path", name, r.line)
	default:
		if name == "TZ" {
			r.warn("TZ: the commands get it; the times are in %s", r.Zone)
		}
		r.env[name] = value
	}
}

// unquoted is a value without the quotes around it, false if they do not match.
func unquoted(value string) (string, bool) {
	if value == "" || value[0] != '"' && value[0] != '\'' {
		return value, true
	}
	inner := strings.TrimSuffix(value[1:], value[:1])
	return inner, len(inner) == len(value)-2 && !strings.Contains(inner, value[:1])
}

func (r *reader) setZone(name string) {
	if _, err := calendar.LoadZone(name); err != nil {
		r.refuse("CRON_TZ: %v", err)
		r.broken["CRON_TZ"] = fmt.Sprintf("CRON_TZ, of line %d, is no zone", r.line)
		return
	}
	r.warn("CRON_TZ: the times below are in %s, as cronie reads them; other crons do not know the variable", name)
	r.Zone = name
}

var (
	timesAndRest = regexp.MustCompile(`^(@\S+|(?:\S+[ \t]+){4}\S+)[ \t]+(.*)$`)
	userAndRest  = regexp.MustCompile(`^([A-Za-z0-9_][A-Za-z0-9_.-]*)[ \t]+(.*)$`)
)

// entry takes a line with a command.
func (r *reader) entry(line string) {
	m := timesAndRest.FindStringSubmatch(line)
	if m == nil {
		r.refuse("it is no line of a crontab: five fields or a word like @daily, %sand a command", map[bool]string{true: "a user "}[r.System])
		return
	}
	times, rest := strings.Join(strings.Fields(m[1]), " "), m[2]
	if unlogged, found := strings.CutPrefix(times, "-"); found {
		r.warn("the - before the times, which keeps cron from logging the start, is left out")
		times = unlogged
	}
	if _, err := calendar.ParseCron(times, time.UTC); err != nil {
		if strings.Contains(times, "~") {
			err = fmt.Errorf("%q has a time that cron draws by lot: write one time, and give the schedule a jitter", times)
		}
		r.refuse("%v", err)
		return
	}
	user := r.User
	if r.System {
		if m = userAndRest.FindStringSubmatch(rest); m == nil {
			r.refuse("after the times it has no name of a user and a command")
			return
		}
		user, rest = m[1], m[2]
	}
	home, known := r.Home(user)
	switch {
	case rest == "":
		r.refuse("it has no command")
	case !known:
		r.refuse("there is no user %s", user)
	case len(r.broken) > 0:
		r.refuse("%s", r.broken[slices.Min(slices.Collect(maps.Keys(r.broken)))])
	case rest[0] == '-':
		r.refuse("the command begins with -, which some crons read as an option")
	default:
		r.add(times, user, home, rest)
	}
}

// add adds an entry with the environment, the directory and the shell that cron would give its command.
func (r *reader) add(times, user, home, rest string) {
	env := map[string]string{"HOME": home, "PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"}
	maps.Copy(env, r.env)
	env["LOGNAME"] = user
	command, input := split(rest)
	r.Entries = append(r.Entries, Entry{
		Line: r.line, Name: r.name(command), Cron: times, Zone: r.Zone, User: user,
		Run: []string{env["SHELL"], "-c", command}, Directory: env["HOME"], Input: input, Env: env,
	})
}

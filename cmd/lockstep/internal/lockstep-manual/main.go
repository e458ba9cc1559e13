// Command lockstep-manual writes the manual pages and the completions of lockstep for packages:
//
//	lockstep-manual DIRECTORY
//
// It makes DIRECTORY/man with a page for each command, from its help, and pages about settings,
// files of opcodes and files of jobs, from the tables that the code validates with; and DIRECTORY/completions.
// SOURCE_DATE_EPOCH is the date of the pages.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"lockstep/cmd/internal/opcodefiles"
	"lockstep/cmd/internal/roff"
	"lockstep/cmd/lockstep/internal/command"
	"lockstep/cmd/lockstep/internal/jobfile"
	"lockstep/core/config"
	"lockstep/core/words"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: lockstep-manual DIRECTORY")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "lockstep-manual: %v\n", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH, the time of the source in seconds: %w", err)
	}
	day := time.Unix(seconds, 0)
	man, completions := filepath.Join(dir, "man"), filepath.Join(dir, "completions")
	const directoryMode = 0o755
	if err := errors.Join(os.MkdirAll(man, directoryMode), os.MkdirAll(completions, directoryMode)); err != nil {
		return err
	}
	settings, err := settingsPage(day)
	if err != nil {
		return err
	}
	return errors.Join(
		commandPages(man, day),
		writeFile(man, "lockstep-settings.5", settings),
		writeFile(man, "lockstep-opcodes.5", opcodesPage(day)),
		writeFile(man, "lockstep-jobs.5", jobsPage(day)),
		completionFiles(completions),
	)
}

func writeFile(dir, name, content string) error {
	const mode = 0o644
	return os.WriteFile(filepath.Join(dir, name), []byte(content), mode)
}

// commandPages writes a manual page of section 1 for each command.
func commandPages(dir string, day time.Time) error {
	root := command.Tree()
	root.InitDefaultCompletionCmd()
	plain(root, map[*pflag.Flag]bool{})
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Date: &day, Source: "lockstep", Manual: "lockstep"}, dir); err != nil {
		return err
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		return err
	}
	for _, page := range pages {
		content, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		if err := writeFile(dir, filepath.Base(page), tidy(string(content), day)); err != nil {
			return err
		}
	}
	return nil
}

// headerDate is the date in the first line of a page, which has no day.
var headerDate = regexp.MustCompile(`(?m)^(\.TH "[^"]*" "1") "[^"]*"`)

// tidy corrects what mandoc objects to, a date without day and tabs before the texts of flags, and removes the values of switches.
func tidy(page string, day time.Time) string {
	page = headerDate.ReplaceAllString(page, `${1} "`+day.UTC().Format("2006-01-02")+`"`)
	page = strings.ReplaceAll(page, "[=false]", "")
	return strings.ReplaceAll(page, "\n\t", "\n")
}

// markdown escapes the signs of Markdown, as which the generator reads the help.
var markdown = strings.NewReplacer("_", `\_`, "*", `\*`, "<", `\<`, "[", `\[`, "]", `\]`)

// plain makes the help of a command and of the commands below Markdown with the same text: lines with an
// indent become code. escaped are the flags that were changed: some belong to several commands.
func plain(c *cobra.Command, escaped map[*pflag.Flag]bool) {
	c.DisableAutoGenTag = true
	var lines []string
	for _, line := range strings.Split(c.Long, "\n") {
		if strings.HasPrefix(line, " ") && (len(lines) == 0 || lines[len(lines)-1] != "" && !strings.HasPrefix(lines[len(lines)-1], " ")) {
			lines = append(lines, "")
		}
		if strings.HasPrefix(line, " ") {
			line = "    " + line
		} else {
			line = markdown.Replace(line)
		}
		lines = append(lines, line)
	}
	c.Long = strings.Join(lines, "\n")
	escape := func(f *pflag.Flag) {
		if !escaped[f] {
			escaped[f] = true
			f.Usage = markdown.Replace(f.Usage)
		}
	}
	c.InitDefaultHelpFlag()
	c.LocalFlags().VisitAll(escape)
	c.PersistentFlags().VisitAll(escape)
	for _, child := range c.Commands() {
		plain(child, escaped)
	}
}

// settingsPage is the manual page about the settings that change at run time. A setting without a text is an error.
func settingsPage(day time.Time) (string, error) {
	page := roff.New("lockstep-settings", 5, "settings of the queue that change at run time", day)
	page.Section("DESCRIPTION")
	page.Text("\"lockstep config set\" changes a setting, \"lockstep config\" shows all. " +
		"settings.json in the data directory of lockstepd(8) has those that differ from the defaults; " +
		"do not edit it while the daemon runs.")
	page.Section("SETTINGS")
	encoded, err := json.Marshal(config.DefaultSettings())
	if err != nil {
		return "", err
	}
	decoder := json.NewDecoder(strings.NewReader(string(encoded)))
	if _, err := decoder.Token(); err != nil {
		return "", err
	}
	for decoder.More() {
		var value json.RawMessage
		key, err := decoder.Token()
		if err == nil {
			err = decoder.Decode(&value)
		}
		if err != nil {
			return "", err
		}
		name := fmt.Sprint(key)
		text := words.SettingOf(name).Text
		if text == "" {
			return "", fmt.Errorf("the setting %s has no text", name)
		}
		page.Item(name, "", fmt.Sprintf("%s (default %s)", text, value))
	}
	page.Section("SEE ALSO")
	page.Text("lockstep-config(1), lockstepd(8)")
	return page.String(), nil
}

// opcodesPage is the page about files of declared opcodes.
func opcodesPage(day time.Time) string {
	page := roff.New("lockstep-opcodes", 5, "files that declare opcodes", day)
	page.Section("DESCRIPTION")
	page.Text("Each file *.yaml in opcodes.d in the data directory of lockstepd(8) declares opcodes: " +
		"commands with a name, checked parameters and locks. \"---\" separates several. " +
		"\"lockstep opcode check\" finds mistakes, \"lockstep opcode reload\" makes the daemon read the files.")
	page.Section("FIELDS")
	for _, field := range opcodefiles.Fields() {
		page.Item(field.Name, "", field.Text)
	}
	page.Section("FIELDS OF A PARAMETER")
	for _, field := range opcodefiles.ParamFields() {
		page.Item(field.Name, "", field.Text)
	}
	page.Section("EXAMPLE")
	page.Example(`name: OP_SITE_DRAIN
summary: nodes
params:
  - {name: nodes, type: List of NonEmptyString, required: true}
  - {name: speed, type: "OneOf slow, fast", default: slow}
command: [/usr/local/sbin/drain, "--speed=${speed}", "${nodes}"]
timeout: 3600
locks:
  node/${nodes}: exclusive`)
	page.Section("SEE ALSO")
	page.Text("lockstep-opcode(1), lockstep-submit(1), lockstepd(8)")
	return page.String()
}

// jobsPage is the page about files of jobs.
func jobsPage(day time.Time) string {
	page := roff.New("lockstep-jobs", 5, "files of jobs", day)
	page.Section("DESCRIPTION")
	page.Text("\"lockstep submit FILE\" submits the jobs of a file, all or none. Files named .yaml or .yml are YAML, .json is JSON; " +
		"other files are JSON if they begin with [ or {. A file has a list of jobs as \"jobs\", or the keys of a single job. " +
		"A job is an object with the keys below, or a list of opcodes, each an object with OP_ID and its parameters.")
	page.Text("All mistakes are reported with file, line and column, before anything is submitted. " +
		"\"lockstep submit --template\" prints the example.")
	page.Section("KEYS OF A JOB")
	for _, field := range jobfile.JobFields() {
		page.Item(field.Name, "", field.Text)
	}
	page.Section("KEYS OF A COMMAND")
	page.Text("A job with run has these too. Without cwd the command runs in the directory where \"lockstep submit\" is called; " +
		"a relative cwd begins there.")
	for _, field := range jobfile.CommandFields() {
		page.Item(field.Name, "", field.Text)
	}
	page.Section("KEYS OF A SCHEDULE")
	page.Text("A file for \"lockstep schedule apply\" has a list of schedules as \"schedules\", each an object with these keys. " +
		"Their durations have a unit.")
	for _, field := range jobfile.ScheduleFields() {
		page.Item(field.Name, "", field.Text)
	}
	page.Section("DURATIONS")
	page.Text("A duration is a number of seconds, or " + words.DurationHelp + "; also as a parameter of an opcode that is a number.")
	page.Section("EXAMPLE")
	page.Example(strings.TrimSpace(jobfile.Template))
	page.Section("SEE ALSO")
	page.Text("lockstep-submit(1), lockstep-run(1), lockstep-schedule(1), lockstep-opcode(1), lockstep-opcodes(5)")
	return page.String()
}

func completionFiles(dir string) error {
	const describe = true
	root := command.Tree()
	return errors.Join(
		root.GenBashCompletionFileV2(filepath.Join(dir, "lockstep.bash"), describe),
		root.GenZshCompletionFile(filepath.Join(dir, "lockstep.zsh")),
		root.GenFishCompletionFile(filepath.Join(dir, "lockstep.fish"), describe),
	)
}

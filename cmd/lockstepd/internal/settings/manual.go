package settings

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"lockstep/cmd/internal/places"
	"lockstep/cmd/internal/roff"
)

// manualFlag prints a manual page of a section. It is for the build of packages, and not in the help.
const manualFlag = "manual"

// computedDefaults are the defaults of settings that depend on the machine.
var computedDefaults = map[string]string{"node-name": "the host name", "max-starts": "twice the number of processors"}

// manual returns the manual page of a section, made of the flags: 8 for the daemon, 5 for its
// configuration file.
func manual(flags *flag.FlagSet, section string) (string, error) {
	day, err := sourceDay()
	if err != nil {
		return "", err
	}
	switch section {
	case "8":
		page := roff.New("lockstepd", 8, "daemon of the lockstep job queue", day)
		page.Section("SYNOPSIS")
		page.Item("lockstepd", "[flags]", "")
		page.Section("DESCRIPTION")
		description, _, _ := strings.Cut(usageText, "\nUsage:")
		page.Text(description)
		_, users, _ := strings.Cut(usageText, "lockstepd --ganeti\n\n")
		users, _, _ = strings.Cut(users, "\n\nThe configuration file")
		page.Text("\n" + users)
		page.Section("OPTIONS")
		eachSetting(flags, func(f *flag.Flag, argument, text string) { page.Item("--"+f.Name, argument, text) })
		page.Section("SIGNALS")
		page.Item("SIGTERM", "", "stops the daemon; running jobs continue. A second one ends it at once.")
		page.Item("SIGHUP", "", "reloads the declared opcodes.")
		page.Section("FILES")
		system := places.System()
		page.Item(places.SystemConfig, "", "settings, see lockstepd.yaml(5)")
		page.Item(system.Data, "", "the queue and the configuration")
		page.Item(system.Run, "", "lock files of living processes, and the sockets")
		page.Item(system.Log, "", "errors of job processes")
		page.Section("SEE ALSO")
		page.Text("lockstep(1), lockstepd.yaml(5), lockstep-settings(5), lockstep-opcodes(5)")
		return page.String(), nil
	case "5":
		page := roff.New("lockstepd.yaml", 5, "settings of lockstepd", day)
		page.Section("DESCRIPTION")
		page.Text("The file is YAML: one setting a line, a name and a value. " +
			"The settings are the flags of lockstepd(8); a flag on the command line takes precedence. " +
			"An unknown setting is an error.")
		page.Example("log-level: debug\nmax-starts: 4")
		page.Section("SETTINGS")
		eachSetting(flags, func(f *flag.Flag, argument, text string) {
			if f.Name != "config" && f.Name != "version" {
				page.Item(f.Name+":", argument, text)
			}
		})
		page.Section("SEE ALSO")
		page.Text("lockstepd(8)")
		return page.String(), nil
	}
	return "", fmt.Errorf("%s: there is no manual page of section %q", manualFlag, section)
}

func eachSetting(flags *flag.FlagSet, do func(f *flag.Flag, argument, text string)) {
	flags.VisitAll(func(f *flag.Flag) {
		if f.Name == manualFlag {
			return
		}
		argument, text := flag.UnquoteUsage(f)
		value := f.DefValue
		if computed, ok := computedDefaults[f.Name]; ok {
			value = computed
		}
		if value != "" {
			text += " (default " + value + ")"
		}
		do(f, argument, text)
	})
}

// sourceDay is the time of the source, as builds that can be repeated set it.
func sourceDay() (time.Time, error) {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: SOURCE_DATE_EPOCH, the time of the source in seconds: %w", manualFlag, err)
	}
	return time.Unix(seconds, 0), nil
}

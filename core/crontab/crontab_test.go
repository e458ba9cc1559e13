package crontab_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/calendar"
	"lockstep/core/crontab"
	"lockstep/core/record"
)

func read(text string, system bool) crontab.File {
	return crontab.Read(text, crontab.Options{System: system, User: "ada", Zone: "Europe/Berlin", Home: func(user string) (string, bool) {
		return "/home/" + user, user != "ghost"
	}})
}

// one reads a crontab with one command.
func one(t *testing.T, text string) crontab.Entry {
	t.Helper()
	file := read(text, false)
	require.Empty(t, file.Refused)
	require.Len(t, file.Entries, 1)
	return file.Entries[0]
}

func TestALineHasWhatCronGivesIt(t *testing.T) {
	require.Equal(t, crontab.Entry{
		Line: 3, Name: "backup.sh-srv", Cron: "0 3 * * mon-fri", Zone: "Europe/Berlin", User: "ada",
		Run: []string{"/bin/sh", "-c", "/usr/local/bin/backup.sh /srv  >/dev/null 2>&1"}, Directory: "/home/ada",
		Env: map[string]string{"HOME": "/home/ada", "LOGNAME": "ada", "PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"},
	}, one(t, "# nightly\n\n  0\t3 * *  mon-fri /usr/local/bin/backup.sh /srv  >/dev/null 2>&1\n"))
}

func TestTheSystemsFormHasAUser(t *testing.T) {
	file := read("17 *	* * *	root	cd / && run-parts --report /etc/cron.hourly\n"+
		"25 6	* * *	root	test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }\n"+
		"47 6	* * 7	root	test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.weekly; }\n"+
		"@daily ghost true\n@daily root\n@daily ada:wheel true\n@daily bob true", true)
	require.Equal(t, []string{"run-parts-cron.hourly", "anacron-run-parts-cron.daily", "anacron-run-parts-cron.weekly", "true"}, names(file))
	require.Equal(t, "root", file.Entries[0].User)
	require.Equal(t, "/home/bob", file.Entries[3].Directory)
	require.Equal(t, "@daily", file.Entries[3].Cron)
	require.Equal(t, []crontab.Note{{4, "there is no user ghost"}, {5, "after the times it has no name of a user and a command"},
		{6, "after the times it has no name of a user and a command"}}, file.Refused)
}

func names(file crontab.File) []string {
	var all []string
	for _, entry := range file.Entries {
		all = append(all, entry.Name)
	}
	return all
}

// A variable is that of the lines below it.
func TestVariables(t *testing.T) {
	file := read(strings.Join([]string{
		"@daily one",
		`A = "two  words "`,
		"'B'= plain text  ",
		"HOME=/srv",
		"SHELL=/bin/bash",
		"PATH=$HOME/bin:/bin",
		"LOGNAME=root",
		"@daily two",
		"A=''",
		"@daily three",
	}, "\n"), false)
	require.Empty(t, file.Refused)
	require.NotContains(t, file.Entries[0].Env, "A")
	require.Equal(t, map[string]string{"A": "two  words ", "B": "plain text", "HOME": "/srv", "LOGNAME": "ada", "PATH": "$HOME/bin:/bin",
		"SHELL": "/bin/bash"}, file.Entries[1].Env)
	require.Equal(t, []string{"/bin/bash", "-c", "two"}, file.Entries[1].Run)
	require.Equal(t, "/srv", file.Entries[1].Directory)
	require.Empty(t, file.Entries[2].Env["A"])
	require.Equal(t, []crontab.Note{{7, "LOGNAME: cron does not let a crontab change it, and neither does lockstep"}}, file.Warnings)
}

// What cron does and lockstep does not is said, and is not handed to the command.
func TestVariablesOfCron(t *testing.T) {
	file := read("MAILTO=ada@example.com\nMAILTO=\nRANDOM_DELAY=10\nTZ=Asia/Tokyo\n@daily one\nCRON_TZ=Asia/Tokyo\n@daily two\n", false)
	require.Empty(t, file.Refused)
	require.Equal(t, "Europe/Berlin", file.Entries[0].Zone)
	require.Equal(t, "Asia/Tokyo", file.Entries[1].Zone)
	require.Equal(t, "Asia/Tokyo", file.Entries[0].Env["TZ"])
	for _, name := range []string{"MAILTO", "RANDOM_DELAY", "CRON_TZ"} {
		require.NotContains(t, file.Entries[1].Env, name)
	}
	var lines []int
	for _, warning := range file.Warnings {
		lines = append(lines, warning.Line)
	}
	require.Equal(t, []int{1, 3, 4, 6}, lines)
}

// A line with a command that would run otherwise than under cron is refused, up to the line that sets the variable right.
func TestAVariableThatCannotBeReadRefusesTheLinesBelow(t *testing.T) {
	for _, wrong := range []string{"HOME=work", "SHELL=bash", "CRON_TZ=Mars/Olympus", `HOME="/srv`, `HOME="/srv" x`} {
		name, _, _ := strings.Cut(wrong, "=")
		right := map[string]string{"HOME": "/srv", "SHELL": "/bin/sh", "CRON_TZ": "UTC"}[name]
		file := read("@daily one\n"+wrong+"\n@daily two\n"+name+"="+right+"\n@daily three\n", false)
		require.Equal(t, []string{"one", "three"}, names(file), wrong)
		require.Len(t, file.Refused, 2)
		require.Contains(t, file.Refused[1].Text, "line 2", wrong)
	}
}

// As Vixie's cron reads it.
func TestPercentSigns(t *testing.T) {
	for command, want := range map[string][2]string{
		`date +\%F`:              {`date +%F`, ""},
		`cat%one%two`:            {"cat", "one\ntwo\n"},
		`cat%one%two%`:           {"cat", "one\ntwo\n"},
		`cat%`:                   {"cat", ""},
		`cat%50\% of $HOME\n`:    {"cat", "50% of $HOME\\n\n"},
		`cat%a\\%b`:              {"cat", "a\\%b\n"},
		`echo a\\%b`:             {`echo a\\`, "b\n"},
		`printf 'a\tb\\' \%\%%%`: {`printf 'a\tb\\' %%`, "\n"},
		`cat%end\`:               {"cat", "end\\\n"},
		`echo \`:                 {`echo \`, ""},
	} {
		entry := one(t, "@daily "+command)
		require.Equal(t, want, [2]string{entry.Run[2], entry.Input}, command)
	}
}

func TestRefusedLines(t *testing.T) {
	for line, want := range map[string]string{
		"@reboot true":                          "@reboot names no time",
		"@every_minute true":                    "@every_minute is unknown",
		"0~30 3 * * * true":                     "draws by lot",
		"0 3 31 2 * true":                       "never due",
		"60 3 * * * true":                       "minute: ",
		"0 3 * * *":                             "five fields",
		"0 3 * * * ":                            "no command",
		"@daily":                                "five fields",
		"@daily -n true":                        "begins with -",
		"true":                                  "five fields",
		"@daily true\r":                         "carriage return",
		"@daily echo \xff":                      "no text",
		"@daily " + strings.Repeat("x", 10_001): "more than 10000 characters",
	} {
		file := read("@daily first\n"+line+"\n@daily last\n", false)
		require.Equal(t, []string{"first", "last"}, names(file), line)
		require.Len(t, file.Refused, 1, line)
		require.Equal(t, 2, file.Refused[0].Line)
		require.Contains(t, file.Refused[0].Text, want, line)
	}
	file := read("-*/15 * * * * true\n", false) // cron does not log such a line
	require.Equal(t, "*/15 * * * *", file.Entries[0].Cron)
	require.Len(t, file.Warnings, 1)
}

func TestNames(t *testing.T) {
	for command, want := range map[string]string{
		"/usr/bin/backup":                        "backup",
		"cd /srv/app && ./bin/clean --all 7":     "app-clean-7",
		"[ -x /usr/bin/x ] && nice -n 10 /opt/y": "x-10-y",
		"A=1 B=2 /opt/sync > /dev/null":          "sync",
		`"$HOME/bin/a b"`:                        "a-b",
		"sleep 42":                               "cron-42",
		"true":                                   "true",
		"!!":                                     "cron",
		"ärger " + strings.Repeat("x", 200):      "rger-" + strings.Repeat("x", 30),
		"one two three four":                     "one-two-three",
	} {
		require.Equal(t, want, one(t, "@daily "+command).Name, command)
	}
	require.Equal(t, []string{"a", "a-2", "a-2-2", "a-3"}, names(read("@daily a\n@hourly a\n@daily a 2\n@daily a\n", false)))
}

// A file of the greatest size is read in a short time.
func TestManyLines(t *testing.T) {
	file := read(strings.Repeat("@daily true\n", 20_000), false)
	require.Len(t, file.Entries, 10_000)
	require.Equal(t, "true-10000", file.Entries[9999].Name)
	require.Len(t, file.Refused, 10_000)
	require.Len(t, read(strings.Repeat("#", crontab.SizeMax+1), false).Refused, 1)
}

// The shell sees what cron would hand to it.
func TestACommandRuns(t *testing.T) {
	entry := one(t, `@daily cat - ; echo "$A" 100\%%line 1%line 2`)
	command := exec.Command(entry.Run[0], entry.Run[1:]...)
	command.Stdin, command.Env = strings.NewReader(entry.Input), append(os.Environ(), "A=b")
	out, err := command.CombinedOutput()
	require.NoError(t, err)
	require.Equal(t, "line 1\nline 2\nb 100%\n", string(out))
}

// Each line is an entry, is refused, sets a variable, or is empty; and what is read can be a schedule.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{"@daily true", "A=b\n0 3 * * * root x%y\\%z", "CRON_TZ=UTC\n* * * * * *", "HOME = '/x'", "-1 * * * * a", "\x00", "@reboot x\r\n"} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, text string, system bool) {
		file := read(text, system)
		met := map[string]bool{}
		for _, e := range file.Entries {
			require.NoError(t, record.CheckName(e.Name))
			require.False(t, met[e.Name], e.Name)
			met[e.Name] = true
			zone, err := calendar.LoadZone(e.Zone)
			require.NoError(t, err)
			_, err = calendar.ParseCron(e.Cron, zone)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(e.Directory, "/") && strings.HasPrefix(e.Run[0], "/"), fmt.Sprint(e))
			require.True(t, e.Input == "" || strings.HasSuffix(e.Input, "\n"))
			require.NotEmpty(t, e.User)
		}
		for _, notes := range [][]crontab.Note{file.Refused, file.Warnings} {
			for _, note := range notes {
				require.NotEmpty(t, note.Text)
				require.LessOrEqual(t, note.Line, strings.Count(text, "\n")+1)
			}
		}
	})
}

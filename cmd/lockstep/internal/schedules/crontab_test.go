package schedules

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/jobfile"
	"lockstep/core/crontab"
)

// Each job of a plan is a job of a file of jobs, with the texts of the crontab whatever they are.
func TestThePlansJobsAreJobsOfAFile(t *testing.T) {
	commands := []string{"true", "yes", "010 0x1f ~ null", "echo 'it''s' \"#\" : - {a: b} [c]", "! b", "& c", "* d", "a\tb  ", "ä\u2028\ufeff\u00a0",
		"cat%one%  two%%#three", "cat%\\%\t: x", "cat%- yes%"}
	crontabText := "YES=on\nEMPTY=''\n@daily " + strings.Join(commands, "\n@daily ")
	file := crontab.Read(crontabText, crontab.Options{User: "ada", Zone: "UTC", Home: func(string) (string, bool) { return "/home/ada", true }})
	require.Empty(t, file.Refused)
	require.Len(t, file.Entries, len(commands))
	plan, disable := planOf(file, false, "ada")
	var out strings.Builder
	require.NoError(t, printPlan(&cli.Globals{Streams: cli.Streams{Out: &out, Err: &strings.Builder{}}}, "x", file, plan, disable))

	var read struct{ Schedules []struct{ Job yaml.Node } }
	require.NoError(t, yaml.Unmarshal([]byte(out.String()), &read))
	require.Len(t, read.Schedules, len(commands))
	for i, schedule := range read.Schedules {
		text, err := yaml.Marshal(&schedule.Job)
		require.NoError(t, err)
		jobs, err := jobfile.Parse("plan.yaml", "/elsewhere", text)
		require.NoError(t, err, "%s", text)
		encoded, err := jobs.Encode(client.Trails{})
		require.NoError(t, err)
		line, err := json.Marshal(encoded)
		require.NoError(t, err)
		var ops [][]struct {
			Argv  []string
			Cwd   string
			Stdin string
			Env   map[string]string
		}
		require.NoError(t, json.Unmarshal(line, &ops))
		entry := file.Entries[i]
		require.Equal(t, entry.Run, ops[0][0].Argv)
		require.Equal(t, entry.Directory, ops[0][0].Cwd)
		require.Equal(t, entry.Input, ops[0][0].Stdin)
		require.Equal(t, entry.Env, ops[0][0].Env)
	}
}

// A crontab that is not the caller's is not run as the caller.
func TestTheOwnerOfASpooledCrontabIsNamed(t *testing.T) {
	for path, want := range map[string]string{
		"/var/spool/cron/crontabs/ada": "ada", "/var/spool/cron/ada": "ada", "/var/spool/cron/tabs/ada": "ada", "/home/ada/crontab": "", "-": "",
	} {
		owner, as, err := ownerOf(path)
		require.NoError(t, err)
		require.Equal(t, want, as, path)
		require.NotEmpty(t, owner)
	}
	require.True(t, isSystems("/etc/crontab") && isSystems("/etc/cron.d/backup"))
	require.False(t, isSystems("/home/ada/crontab") || isSystems("-"))
}

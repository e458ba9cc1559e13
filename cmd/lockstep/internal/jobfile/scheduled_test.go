package jobfile

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/calendar"
)

// The example of the documentation is a file of schedules, with each key, and each key is in its table.
func TestTheDocumentedSchedulesAreValid(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/over-time.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n### Schedules in files\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n### ")
	var example strings.Builder
	for line := range strings.Lines(section) {
		if code, indented := strings.CutPrefix(line, "    "); indented {
			example.WriteString(code)
		}
	}
	all, err := ParseSchedules("x.yaml", "/", []byte(example.String()), nil)
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, "postgres", all[1].As)
	require.Equal(t, (48 * time.Hour).Microseconds(), all[1].Definition.WithinUs)
	for _, field := range ScheduleFields() {
		require.Contains(t, example.String(), field.Name+":")
		require.Contains(t, section, "`"+field.Name+"`")
	}
}

// Equal files give equal definitions, whenever they are read: a schedule is changed only if its file is.
func TestAFileReadTwiceIsTheSame(t *testing.T) {
	file := []byte("schedules: [{name: a, cron: '0 3 * * *', job: {run: [true], env: {B: 1, A: 2}, retry: 2}}]")
	zone := func() (string, error) { return "Asia/Tokyo", nil }
	first, err := ParseSchedules("x.yaml", "/", file, zone)
	require.NoError(t, err)
	second, err := ParseSchedules("x.yaml", "/", file, zone)
	require.NoError(t, err)
	require.Equal(t, first[0].Definition, second[0].Definition)
	require.Equal(t, "Asia/Tokyo", first[0].Definition.Zone)
	require.NoError(t, first[0].Definition.Complete(calendar.LoadZone))
}

// A mistake in a file shows no secret of it.
func TestASecretOfAScheduleIsNotShown(t *testing.T) {
	file := []byte("schedules: [{name: hunter2, overlap: &a hunter2, every: 1h, job: {run: [true], secret_env: {A: *a}}}]")
	_, err := ParseSchedules("x.yaml", "/", file, nil)
	require.ErrorContains(t, err, "takes no secrets")
	require.NotContains(t, err.Error(), "hunter2")
}

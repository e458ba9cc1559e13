package settings

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheFileAndTheFlagsHaveTheSameNames(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lockstepd.yaml")
	require.NoError(t, os.WriteFile(file, []byte("data-dir: /srv/queue\nmax-starts: 7\nlog-level: debug\n"), 0o600))
	c, err := Parse([]string{"--config", file, "--max-starts", "9"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "/srv/queue", c.DataDir)
	require.Equal(t, "debug", c.LogLevel)
	require.Equal(t, 9, c.MaxStarts, "the command line wins")
}

// The file that is shipped for /etc/lockstep is read, and archives jobs after a week. Without it no job is archived.
func TestTheShippedFileArchivesAfterAWeek(t *testing.T) {
	c, err := Parse([]string{"--config", "../../../../packaging/lockstepd.yaml"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 7*24*time.Hour, c.ArchiveAfter)
	c, err = Parse(nil, io.Discard)
	require.NoError(t, err)
	require.Zero(t, c.ArchiveAfter)
	_, err = Parse([]string{"--archive-after", "7"}, io.Discard)
	require.ErrorContains(t, err, "7 has no unit; write 7s, 7m, 7h or 7d")
}

func TestBadSettingsAreNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lockstepd.yaml")
	for content, want := range map[string]string{
		"writers: many":                         "writers",
		"\nno-such-thing: 1":                    `line 2: there is no setting "no-such-thing"`,
		"data-dir: [a, b]":                      "data-dir must be a single value",
		"log-level: shouting":                   "log-level",
		"data-dir: \"\"":                        "data-dir: must not be empty",
		"- a list":                              "config",
		"writers: 0":                            "writers: 0 is not between",
		"node-name: \"a b\"":                    "node-name",
		"run-dir: /" + strings.Repeat("x", 100): "run-dir: the socket's path",
	} {
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		_, err := Parse([]string{"--config", file}, io.Discard)
		require.ErrorContains(t, err, want, content)
	}
	_, err := Parse([]string{"--config", file + ".none"}, io.Discard)
	require.ErrorContains(t, err, "no such file")
	_, err = Parse([]string{"surplus"}, io.Discard)
	require.ErrorContains(t, err, "surplus")
}

func TestHelpTellsEverySetting(t *testing.T) {
	var help strings.Builder
	_, err := Parse([]string{"--help"}, &help)
	require.ErrorIs(t, err, flag.ErrHelp)
	for _, name := range []string{"--config", "--data-dir", "--run-dir", "--log-dir", "--cluster-name", "--node-name",
		"--job-program", "--log-level", "--max-frame", "--max-starts", "--writers", "--ganeti", "--ganeti-user", "Examples:"} {
		require.Contains(t, help.String(), name)
	}
}

// Every setting in the comments of the installed file exists.
func TestTheInstalledConfigurationFile(t *testing.T) {
	text, err := os.ReadFile("../../../../packaging/lockstepd.yaml")
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "lockstepd.yaml")
	for _, content := range [][]byte{text, regexp.MustCompile(`(?m)^#([a-z-]+: \S+)$`).ReplaceAll(text, []byte("$1"))} {
		require.NoError(t, os.WriteFile(file, content, 0o600))
		c, err := Parse([]string{"--config", file}, io.Discard)
		require.NoError(t, err)
		if !bytes.Equal(content, text) {
			require.Equal(t, "debug", c.LogLevel, "comments were removed")
		}
	}
}

// A page lists all settings, and no default that depends on the machine.
func TestTheManual(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1790000000")
	for _, section := range []string{"5", "8"} {
		var page strings.Builder
		_, err := Parse([]string{"--manual", section}, &page)
		require.ErrorIs(t, err, flag.ErrHelp)
		require.Contains(t, page.String(), `max\-starts`)
		require.Contains(t, page.String(), "(default the host name)")
		require.NotContains(t, page.String(), "manual\\fR")
	}
	_, err := Parse([]string{"--manual", "7"}, io.Discard)
	require.ErrorContains(t, err, "no manual page of section")
}

// A group that does not exist is refused; a number is a group.
func TestTheGroupOfTheSockets(t *testing.T) {
	_, err := Parse([]string{"--socket-group=nosuchgroup", "--run-dir=/tmp/r"}, io.Discard)
	require.ErrorContains(t, err, `socket-group: there is no group "nosuchgroup"`)
	file := filepath.Join(t.TempDir(), "lockstepd.yaml")
	require.NoError(t, os.WriteFile(file, []byte("socket-group: \"54321\"\n"), 0o600))
	c, err := Parse([]string{"--config", file, "--run-dir=/tmp/r"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "54321", c.SocketGroup)
}

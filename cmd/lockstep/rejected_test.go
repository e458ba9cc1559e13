package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever way a job is submitted, a rule that rejects it is named, with its reason, and the exit code is not 0.
func TestARejectedJobIsReported(t *testing.T) {
	socket := realDaemon(t)
	require.Zero(t, runProgram(t, socket, "filter", "add", "--action", "REJECT", "--reason", "no backups today",
		"--opcode", "OP_RUN_COMMAND").code)
	file := filepath.Join(t.TempDir(), "jobs.json")
	require.NoError(t, os.WriteFile(file, []byte(`[[{"OP_ID": "OP_RUN_COMMAND", "argv": ["true"]}], [{"OP_ID": "OP_TEST_DELAY", "duration": 0}]]`), 0o600))
	for _, args := range [][]string{
		{"run", "--", "true"}, {"run", "--detach", "--", "true"}, {"run", "--json", "--detach", "--", "true"}, {"submit", file}, {"submit", "--wait", file},
		{"submit", "OP_RUN_COMMAND", "argv=true"}, {"rerun", "1"},
	} {
		r := runProgram(t, socket, args...)
		require.Equal(t, 1, r.code, "%v: %s", args, r.err)
		require.Regexp(t, `was canceled: rejected by filter rule [0-9a-f-]{36}: no backups today`, string(r.err), "%v", args)
	}
	r := runProgram(t, socket, "why", "1")
	require.Regexp(t, `was canceled: rejected by filter rule [0-9a-f-]{36}: no backups`, string(r.out))
}

// A text that is not UTF-8 is refused by every way to submit a job, since the daemon would get another text.
func TestATextThatIsNotUTF8IsNotSubmitted(t *testing.T) {
	socket, dir := realDaemon(t), t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for want, args := range map[string][]string{
		`argv is not UTF-8: "echo,caf\xe9"`:      {"submit", "OP_RUN_COMMAND", "argv=echo,caf\xe9"},
		`cwd is not UTF-8: "/caf\xe9"`:           {"submit", "OP_RUN_COMMAND", "argv=true", "cwd=/caf\xe9"},
		`a.json:2: the line is not UTF-8`:        {"submit", file("a.json", "[[{\"OP_ID\": \"OP_RUN_COMMAND\",\n\"argv\": [\"echo\", \"caf\xe9\"]}]]")},
		`invalid trailing UTF-8 octet`:           {"submit", file("a.yaml", "- OP_ID: OP_RUN_COMMAND\n  argv: [echo, \"caf\xe9\"]\n")},
		`argument 2 of the command is not UTF-8`: {"run", "--", "echo", "caf\xe9"},
	} {
		r := runProgram(t, socket, args...)
		require.NotZero(t, r.code, "%q", args)
		require.Contains(t, string(r.err), want)
	}
	require.JSONEq(t, "[]", string(runProgram(t, socket, "list", "--all", "--json").out))
}

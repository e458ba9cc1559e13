package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
)

// The daemon reads the declared opcodes again on SIGHUP. A mistake in a declaration changes
// nothing.
func TestDeclaredOpcodesAreReadAgain(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	require.NoError(t, os.MkdirAll(d.path("lib", "opcodes.d"), 0o750))
	declare := func(content, logged string) {
		t.Helper()
		require.NoError(t, os.WriteFile(d.path("lib", "opcodes.d", "greet.yaml"), []byte(content), 0o640))
		before := strings.Count(d.logged(), logged)
		require.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP))
		require.Eventually(t, func() bool { return strings.Count(d.logged(), logged) > before }, patience, 10*time.Millisecond)
	}
	greet := op{"OP_ID": "OP_SITE_GREET", "whom": "world"}
	var id int64
	require.Error(t, c.Call(t.Context(), "SubmitJob", []any{[]op{greet}}, &id), "nobody knows it yet")
	const declared = `{name: OP_SITE_GREET, params: [{name: whom, type: String}], command: [echo, "hello ${whom}"]}`
	const kept = "the previous opcodes stay"
	declare(declared, "opcodes reloaded")
	c = d.dial() // an unknown opcode is a parse error, which ends the connection
	require.Equal(t, []string{"hello world"}, c.await(c.submit(greet)).lines())
	declare("{name: OP_SITE_GREET, comand: [echo]}", kept)
	require.Equal(t, []string{"hello world"}, c.await(c.submit(greet)).lines())
	declare(strings.Replace(declared, "hello", "good bye", 1), "opcodes reloaded")
	require.Equal(t, []string{"good bye world"}, c.await(c.submit(greet)).lines())

	// A client gets the result of the reload that it asks for.
	file := d.path("lib", "opcodes.d", "greet.yaml")
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(declared, "hello", "welcome", 1)), 0o640))
	var reloaded answer.OpcodesReloaded
	c.call("LockstepReloadOpcodes", &reloaded)
	require.Equal(t, 1, reloaded.Declared)
	require.Equal(t, []string{"welcome world"}, c.await(c.submit(greet)).lines())
	require.NoError(t, os.WriteFile(file, []byte("{name: OP_SITE_GREET, comand: [echo]}"), 0o640))
	require.ErrorContains(t, c.Call(t.Context(), "LockstepReloadOpcodes", []any{}, &reloaded), "greet.yaml")
	require.Equal(t, []string{"welcome world"}, c.await(c.submit(greet)).lines())
}

// Mistakes in a file that only the daemon finds are lines with their places.
func TestMistakesOfDeclaredOpcodesHaveTheirPlaces(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	require.NoError(t, os.MkdirAll(d.path("lib", "opcodes.d"), 0o750))
	const declared = `{name: OP_SITE_GREET, params: [{name: whom, type: NonEmptyString, required: true}, {name: times, type: Integer}], command: [echo, "${whom}"]}`
	require.NoError(t, os.WriteFile(d.path("lib", "opcodes.d", "greet.yaml"), []byte(declared), 0o640))
	d.start()
	file := d.path("jobs.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`jobs:
  - run: [echo, fine]
  - steps:
      - {OP_ID: OP_SITE_GREET, whom: "", times: 1}
      - {OP_ID: OP_SITE_GREET, whom: "", times: many}
`), 0o640))
	for _, want := range [][]string{{"4:38", "5:38", "5:49"}, {"1:49"}} {
		var stderr strings.Builder
		submit := d.clientCommand("submit", file)
		submit.Stderr = &stderr
		var exit *exec.ExitError
		require.ErrorAs(t, submit.Run(), &exit)
		require.Equal(t, 2, exit.ExitCode(), stderr.String())
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		require.Len(t, lines, len(want), stderr.String())
		for i, place := range want {
			require.Contains(t, lines[i], file+":"+place+": ", stderr.String())
		}
		require.NoError(t, os.WriteFile(file, []byte("- [{OP_ID: OP_TEST_DELAY, duration: 0, depends: [[-5, [success]]]}]\n"), 0o640))
	}
	require.Empty(t, d.dial().list(answer.JobSelection{}))
}

// A SIGHUP during the start does not end the daemon, and takes effect after the start.
func TestOpcodesAreReadAgainAfterTheStart(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	ready := d.launch()
	require.Eventually(t, func() bool { return d.logged() != "" }, patience, time.Millisecond)
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP))
	d.awaitReady(ready)
	require.Eventually(t, func() bool { return strings.Contains(d.logged(), "opcodes reloaded") }, patience, 10*time.Millisecond)
}

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An opcode with dry_run is only checked and takes its locks; it executes nothing. The test
// fails without the check in execution.run.
func TestADryRunExecutesNothing(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	require.NoError(t, os.MkdirAll(d.path("lib", "opcodes.d"), 0o750))
	declared := "name: OP_SITE_TOUCH\nparams:\n  - {name: path, type: NonEmptyString, required: true}\n  - {name: password, type: String, secret: true}\n" +
		"command: [touch, \"${path}\"]\nenv:\n  PASSWORD: ${password}\nlocks:\n  node/a: exclusive\n"
	require.NoError(t, os.WriteFile(d.path("lib", "opcodes.d", "touch.yaml"), []byte(declared), 0o640))
	d.start()
	c := d.dial()
	const said = " - INFO: dry-run mode requested, not actually executing the operation"
	touched := d.path("touched")
	for name, o := range map[string]op{
		"a command":         command("touch", touched).with("secret_env", op{"SECRET": "sesame-4711"}).with("cwd", "/tmp"),
		"a declared opcode": {"OP_ID": "OP_SITE_TOUCH", "path": touched, "password": "sesame-4711"},
		"a delay":           {"OP_ID": "OP_TEST_DELAY", "duration": 3600},
		"settings":          {"OP_ID": "OP_CLUSTER_SET_PARAMS", "max_running_jobs": 7},
		"a failing opcode":  {"OP_ID": "OP_TEST_JQUEUE", "fail": true, "log_messages": []string{"unheard"}},
		"a query":           {"OP_ID": "OP_CLUSTER_QUERY"},
	} {
		t.Run(name, func(t *testing.T) {
			id := c.submit(o.with("dry_run", true))
			seen := c.await(id)
			require.Equal(t, "success", seen.Status)
			require.Contains(t, seen.lines(), said)
			require.NotContains(t, strings.Join(seen.lines(), "\n"), "unheard")
			if o["OP_ID"] == "OP_RUN_COMMAND" || o["OP_ID"] == "OP_SITE_TOUCH" {
				require.JSONEq(t, `{"dry_run": true, "argv": ["touch", "`+touched+`"]}`, string(seen.Results[0]))
				require.Contains(t, strings.Join(seen.lines(), "\n"), ` - INFO: Would run "touch" "`+touched+`"`)
			} else {
				require.Equal(t, "null", string(seen.Results[0]))
			}
			content, err := os.ReadFile(d.path("lib", "queue", "job-"+itoa(id)))
			require.NoError(t, err)
			require.NotContains(t, string(content), "sesame")
			require.NoFileExists(t, touched)
		})
	}
	var settings map[string]any
	c.call("LockstepGetSettings", &settings)
	require.EqualValues(t, 20, settings["max_running_jobs"])

	for name, o := range map[string]op{
		"no such program":   command("/no/such/program"),
		"not in PATH":       command("no-such-program-here"),
		"no such directory": command("true").with("cwd", "/no/such/directory"),
		"no program":        command("/etc/passwd"),
		"no delay":          {"OP_ID": "OP_TEST_DELAY", "duration": 0},
		"not settable":      {"OP_ID": "OP_CLUSTER_SET_PARAMS", "vg_name": "xen"},
		"not executable":    {"OP_ID": "OP_INSTANCE_STARTUP", "instance_name": "a"},
	} {
		seen := c.await(c.submit(o.with("dry_run", true)))
		require.Equal(t, "error", seen.Status, name)
	}

	command := command("touch", touched).with("dry_run", false)
	require.JSONEq(t, `{"exit_status": 0}`, c.await(c.submit(command)).endOf(0))
	require.FileExists(t, touched)
}

// An opcode with dry_run takes its locks, and waits while they are held.
func TestADryRunWaitsForItsLocks(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	locks := [][2]string{{"node/a", "exclusive"}}
	for _, order := range []string{"expected", "plain"} {
		c.call("LockstepSetSettings", nil, map[string]any{"order": order})
		holds, open := d.gate("hold-" + order)
		first := c.submit(holds.with("locks", locks))
		c.awaitStatus(first, "running")
		second := c.submit(command("true").with("locks", locks).with("dry_run", true))
		c.awaitBlocked(second, first, "node/a")
		open()
		require.Equal(t, "success", c.await(second).Status)
	}
}

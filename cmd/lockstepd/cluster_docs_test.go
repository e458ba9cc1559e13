package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// documented are the commands of a section of a document: its indented lines.
func documented(t *testing.T, document, section string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "docs", document))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(content), "\n## "+section+"\n")
	require.True(t, found, "%s has no section %q", document, section)
	rest, _, _ = strings.Cut(rest, "\n## ")
	commands := ""
	for line := range strings.Lines(rest) {
		if command, is := strings.CutPrefix(line, "    "); is {
			commands += command
		}
	}
	return commands
}

// The commands in docs/cluster.md, with other addresses, make a cluster on one machine.
func TestClusterOnOneMachineAsDocumented(t *testing.T) {
	t.Parallel()
	d := newDaemon(t) // for its directory, and for the end of all its processes
	_, err := lockstepProgram()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(programs, d.path("bin")))
	commands := documented(t, "cluster.md", "Three nodes on one machine")
	for i, address := range loopback(t, 3) {
		commands = strings.ReplaceAll(commands, fmt.Sprintf("127.0.0.1:740%d", i+1), address)
	}
	// Job processes and daemons are recognised by their directories.
	commands = strings.NewReplacer(" n1/", " "+d.root+"/n1/", " n2/", " "+d.root+"/n2/", " n3/", " "+d.root+"/n3/").Replace(commands)
	shell := exec.Command("sh", "-e", "-c", commands)
	shell.Dir = d.root
	said, err := os.Create(d.path("said")) // the daemons keep it open
	require.NoError(t, err)
	defer said.Close()
	shell.Stdout, shell.Stderr = said, said
	err = shell.Run()
	out, _ := os.ReadFile(said.Name())
	require.NoError(t, err, "%s", out)
	eventuallyWithin(t, 2*patience, "the nodes do not come up", func() error {
		list := exec.Command(filepath.Join(programs, "lockstep"), "--socket", d.path("n3", "run", "socket", "ganeti-query"), "node", "list")
		out, err := list.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "3 of 3 voting nodes answer, 1 more may fail.") {
			return errors.New(string(out))
		}
		return nil
	})
}

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each row about a design has a verdict, a reason unless it works, and names tests that exist.
func TestTheDesignsAreShownByTests(t *testing.T) {
	content, err := os.ReadFile("spec/designs.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(content), "\n## What lockstep does\n")
	require.True(t, found)
	rows := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " |")
		if len(cells) < 3 || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| Section") {
			continue
		}
		require.Len(t, cells, 4, line)
		rows++
		verdict, reason, _ := strings.Cut(strings.TrimSpace(cells[2]), ": ")
		require.Contains(t, []string{"works", "differs", "not yet"}, verdict, line)
		require.Equal(t, verdict == "works", reason == "", "a reason unless it works: %s", line)
		tests := strings.TrimSpace(cells[3])
		require.True(t, tests != "" || verdict == "not yet" || reason == "Go", "no test: %s", line)
		for test := range strings.SplitSeq(tests, "; ") {
			if test != "" {
				requireTest(t, test)
			}
		}
	}
	require.Greater(t, rows, 100, "the table is read")
}

// requireTest fails unless a folder has a test, written as "folder TestName".
func requireTest(t *testing.T, named string) {
	t.Helper()
	folder, name, _ := strings.Cut(named, " ")
	files, err := filepath.Glob(filepath.Join("..", folder, "*_test.go"))
	require.NoError(t, err)
	function := regexp.MustCompile(`(?m)^func ` + regexp.QuoteMeta(name) + `\(`)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		if function.Match(content) {
			return
		}
	}
	require.Fail(t, "no such test", named)
}

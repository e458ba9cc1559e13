package docs_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/config"
)

var (
	makeTarget = regexp.MustCompile("`(?:[A-Z_]+=\\S+ )?make ([a-z][a-z-]*)|(?m)^ {4}make ([a-z][a-z-]*)")
	targetLine = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
	settingRow = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|")
)

// A target of make that a document names exists.
func TestTargetsInDocuments(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	require.NoError(t, err)
	targets := map[string]bool{}
	for _, m := range targetLine.FindAllStringSubmatch(string(makefile), -1) {
		targets[m[1]] = true
	}
	count := 0
	for page, text := range pages(t) {
		for _, m := range makeTarget.FindAllStringSubmatch(text, -1) {
			count++
			if name := m[1] + m[2]; !targets[name] {
				t.Errorf("%s: the Makefile has no target %s", page, name)
			}
		}
	}
	require.Greater(t, count, 30)
}

// The table of settings has all of them.
func TestTheTableOfSettings(t *testing.T) {
	_, table, found := strings.Cut(pages(t)["scheduling.md"], "\n## Settings\n")
	require.True(t, found)
	var shown []string
	for _, m := range settingRow.FindAllStringSubmatch(table, -1) {
		shown = append(shown, m[1])
	}
	defaults, err := json.Marshal(config.DefaultSettings())
	require.NoError(t, err)
	values := map[string]any{}
	require.NoError(t, json.Unmarshal(defaults, &values))
	all := []string{"max_running_jobs"} // in config.data
	for name := range values {
		all = append(all, name)
	}
	require.ElementsMatch(t, all, shown)
}

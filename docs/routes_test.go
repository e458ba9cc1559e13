package docs_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/access"
)

// routeTable is a table of routes and what each needs, in the order of their paths.
func routeTable(routes map[string]access.Route) string {
	names := slices.SortedFunc(maps.Keys(routes), func(a, b string) int {
		methodA, pathA, _ := strings.Cut(a, " ")
		methodB, pathB, _ := strings.Cut(b, " ")
		return cmp.Or(cmp.Compare(pathA, pathB), cmp.Compare(methodA, methodB))
	})
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, routes[name])
	}
	return b.String()
}

// The document has what each operation of the remote API and each form of the console needs. REWRITE=1 writes the tables.
func TestTheTablesOfRoutes(t *testing.T) {
	const file = "security.md"
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	text := string(data)
	for heading, table := range map[string]string{
		"\n## Operations of the remote API\n": "| Operation | Needs |\n|---|---|\n" + routeTable(access.RapiRoutes()),
		"\n## Forms of the console\n":         "| Form | Needs |\n|---|---|\n" + routeTable(access.ConsoleForms()),
	} {
		before, section, found := strings.Cut(text, heading)
		require.True(t, found, heading)
		start := strings.Index(section, "\n| ") + 1
		require.Positive(t, start, heading)
		written := section[start:]
		if end := strings.Index(written, "\n\n"); end >= 0 {
			written = written[:end+1]
		}
		if os.Getenv("REWRITE") != "" {
			text = before + heading + section[:start] + table + section[start+len(written):]
			continue
		}
		require.Equal(t, table, written, "REWRITE=1 go test ./docs -run TestTheTablesOfRoutes")
	}
	if text != string(data) {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
}

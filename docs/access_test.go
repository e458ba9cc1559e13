package docs_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/access"
)

// The table of methods in docs/security.md is that of core/access. REWRITE=1 writes it.
func TestSecurityHasTheTableOfMethods(t *testing.T) {
	const begin = "| Needs | Methods |\n|---|---|\n"
	byNeed := map[string][]string{}
	var needs []string
	for _, from := range []access.Need{
		{Role: access.None}, {Role: access.Read}, {Role: access.Submit}, {Role: access.Submit, Own: true}, {Role: access.Operate}, {Role: access.Admin},
		{From: access.JobProcess}, {From: access.DaemonOnly},
	} {
		needs = append(needs, needText(from))
	}
	for _, method := range access.Methods() {
		text := needText(access.MethodNeeds(method))
		require.Contains(t, needs, text)
		byNeed[text] = append(byNeed[text], "`"+method+"`")
	}
	table := begin
	for _, need := range needs {
		table += fmt.Sprintf("| %s | %s |\n", need, strings.Join(byNeed[need], ", "))
	}
	data, err := os.ReadFile("security.md")
	require.NoError(t, err)
	page := string(data)
	before, after, found := strings.Cut(page, begin)
	require.True(t, found)
	if _, rest, more := strings.Cut(after, "\n\n"); more {
		after = "\n" + rest
	} else {
		after = ""
	}
	if want := before + table + after; os.Getenv("REWRITE") != "" {
		require.NoError(t, os.WriteFile("security.md", []byte(want), 0o600))
	} else {
		require.Equal(t, want, page, "REWRITE=1 go test ./docs -run TestSecurity writes the table")
	}
}

func needText(n access.Need) string {
	switch {
	case n.From != access.AnyClient:
		return "only " + n.From.String()
	case n.Own:
		return "`" + n.Role.String() + "`, own"
	case n.Role == access.None:
		return "nothing"
	default:
		return "`" + n.Role.String() + "`"
	}
}

package command

import (
	"regexp"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// Other users of the machine see the arguments of a process. No flag takes a password or a token as its value: each names a file.
// --secret-env also takes a name alone, whose value is in the environment.
func TestNoFlagTakesASecret(t *testing.T) {
	secret, byFile := regexp.MustCompile(`(?i)passw|token|secret|cookie|credential`), regexp.MustCompile("(?i)`file`")
	found := map[string]bool{}
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !secret.MatchString(f.Name) {
				return
			}
			found[f.Name] = true
			require.True(t, byFile.MatchString(f.Usage) || f.Name == "secret-env", "%s --%s takes a secret as its value: %s", c.CommandPath(), f.Name, f.Usage)
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(Tree())
	require.Equal(t, map[string]bool{"password-file": true, "token-file": true, "start-secret-file": true, "secret-env": true}, found)
}

package cli

import (
	"github.com/spf13/cobra"
)

// suggestionDistance is the maximum edit distance between a typed flag and a suggestion; cobra
// uses the same limit for commands.
const suggestionDistance = 2

// SimilarNames returns the names similar to a mistyped name. It wraps the names in commands,
// because cobra compares only commands.
func SimilarNames(typed string, names []string) []string {
	parent := &cobra.Command{SuggestionsMinimumDistance: suggestionDistance}
	for _, name := range names {
		parent.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	return parent.SuggestionsFor(typed)
}

package cli

import (
	"github.com/spf13/cobra"
)

// suggestionDistance is how many letters a flag may differ from the typed one to be
// suggested; commands have the same limit.
const suggestionDistance = 2

// SimilarNames returns the names that a mistyped one may have been meant to be. Cobra has
// the comparison, but only for commands, so that the names become commands here.
func SimilarNames(typed string, names []string) []string {
	parent := &cobra.Command{SuggestionsMinimumDistance: suggestionDistance}
	for _, name := range names {
		parent.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	return parent.SuggestionsFor(typed)
}

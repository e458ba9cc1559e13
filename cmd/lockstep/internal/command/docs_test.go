package command

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

var (
	codeSpan  = regexp.MustCompile("`([^`\n]+)`")
	codeLine  = regexp.MustCompile(`(?m)^ {4,}(?:\S*\$ )?(.+)$`)
	callOf    = regexp.MustCompile(`(?:^|-- |bin/|exec n1 )lockstep ([^|;&#>]+)`)
	wordsOnly = regexp.MustCompile(`^[a-z][a-z-]*$`)
)

// The commands and flags of lockstep that a page shows in backquotes or in an indented line exist.
func TestCommandsInTheDocsExist(t *testing.T) {
	root := "../../../../"
	pages, err := filepath.Glob(root + "docs/*.md")
	require.NoError(t, err)
	calls := 0
	for _, page := range append(pages, root+"README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, shown := range append(codeSpan.FindAllStringSubmatch(string(text), -1), codeLine.FindAllStringSubmatch(string(text), -1)...) {
			for _, call := range callOf.FindAllStringSubmatch(shown[1], -1) {
				calls++
				if problem := unknownCall(strings.Fields(call[1])); problem != "" {
					t.Errorf("%s: %q: %s", filepath.Base(page), shown[1], problem)
				}
			}
		}
	}
	require.Greater(t, calls, 100, "are the pages elsewhere?")
}

// unknownCall says which word of a call, without the name of the program, does not exist; "" if all do.
func unknownCall(words []string) string {
	command := Tree()
	command.InitDefaultHelpFlag()
	argument := false // a word that is not a command came before
	for _, word := range words {
		name, isFlag := strings.CutPrefix(word, "--")
		switch {
		case isFlag && name == "":
			return ""
		case isFlag:
			name, _, _ = strings.Cut(strings.Trim(name, "[].,:"), "=")
			command.InitDefaultHelpFlag()
			if command.Flags().Lookup(name) == nil && command.InheritedFlags().Lookup(name) == nil {
				return command.CommandPath() + " has no flag --" + name
			}
		case argument || strings.HasPrefix(word, "-"):
		default:
			sub := subcommand(command, word)
			if sub == nil && command.HasSubCommands() && wordsOnly.MatchString(word) {
				return command.CommandPath() + " has no command " + word
			}
			if sub == nil {
				argument = true
				continue
			}
			command = sub
		}
	}
	return ""
}

func subcommand(c *cobra.Command, name string) *cobra.Command {
	for _, sub := range c.Commands() {
		if sub.Name() == name || sub.HasAlias(name) {
			return sub
		}
	}
	return nil
}

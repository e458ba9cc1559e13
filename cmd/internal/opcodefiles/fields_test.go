package opcodefiles

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The error for an unknown field lists the fields that the reader knows.
func TestTheDocumentedFieldsAreThoseOfTheReader(t *testing.T) {
	for content, table := range map[string][]Field{
		"name: OP_X\ncommand: [x]\nnonsense: 1\n":                         Fields(),
		"name: OP_X\ncommand: [x]\nparams:\n  - {name: a, nonsense: 1}\n": ParamFields(),
	} {
		file := filepath.Join(t.TempDir(), "x.yaml")
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		_, err := LoadFiles([]string{file})
		var names []string
		for _, field := range table {
			require.NotEmpty(t, field.Text)
			names = append(names, field.Name)
		}
		slices.Sort(names)
		require.ErrorContains(t, err, "there is no such field, but "+strings.Join(names, ", "))
	}
}

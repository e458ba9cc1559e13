package demand

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRowsOfTheLockTable(t *testing.T) {
	require.Len(t, lockTable, 76)
	for name, claims := range lockTable {
		for _, c := range claims {
			require.NotEmpty(t, c.levels, name)
		}
	}
}

package opcode

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhomADeclarationAdmits(t *testing.T) {
	s, err := ParseSubmitters([]string{"alice", "group:dba"})
	require.NoError(t, err)
	require.True(t, s.Admit("alice", nil))
	require.True(t, s.Admit("bob", []string{"users", "dba"}))
	require.False(t, s.Admit("bob", []string{"users"}))
	require.False(t, s.Admit("dba", []string{"alice"}))
	require.False(t, Submitters{}.Admit("alice", []string{"dba"}))
	require.False(t, Submitters{Users: []string{""}}.Admit("", nil), "a user without a name")
	require.True(t, Submitters{All: true}.Admit("", nil))
	for _, bad := range []string{"", "group:", "1000", "group:10", "-x", "+5", "a b", "a:b", "a/b", "group:group:a"} {
		_, err := ParseSubmitters([]string{bad})
		require.Error(t, err, bad)
	}
}

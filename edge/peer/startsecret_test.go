package peer

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Builds of different releases of Go and lockstep must make the same of a secret.
func TestAStartSecretAlwaysGivesTheSame(t *testing.T) {
	secret := []byte(strings.Repeat("s", StartSecretMin))
	_, first, err := startAuthority(secret)
	require.NoError(t, err)
	authority, second, err := startAuthority(secret)
	require.NoError(t, err)
	require.Equal(t, first, second)
	require.True(t, authority.certificate.IsCA)
	require.NoError(t, authority.certificate.CheckSignatureFrom(authority.certificate))
	require.Equal(t, "2db_mTWRkDqrZwjtSiJpqvLGEfg5TS910NNKa7x8sJ1rm4ZFQbxDjbSP5p2PleAH", first.String())

	other, err := StartToken([]byte(strings.Repeat("t", StartSecretMin)))
	require.NoError(t, err)
	require.NotEqual(t, first.String(), other)

	_, err = StartToken([]byte("short"))
	var short *ShortSecretError
	require.ErrorAs(t, err, &short)
}

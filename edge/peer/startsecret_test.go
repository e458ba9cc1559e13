package peer

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const startSecret = "a start secret for tests: no secret"

// Builds of different releases of Go and lockstep must make the same of a secret.
func TestAStartSecretAlwaysGivesTheSame(t *testing.T) {
	_, first, err := startAuthority([]byte(startSecret))
	require.NoError(t, err)
	authority, second, err := startAuthority([]byte(startSecret))
	require.NoError(t, err)
	require.Equal(t, first, second)
	require.True(t, authority.certificate.IsCA)
	require.NoError(t, authority.certificate.CheckSignatureFrom(authority.certificate))
	require.Equal(t, "DOP4_WKSDRjNaHegAmdWQYoY9hSnxjCl26LRAIHQAsGvcx2yFKl9nP-Lw530KOfZ", first.String())

	other, err := StartToken([]byte(startSecret + "."))
	require.NoError(t, err)
	require.NotEqual(t, first.String(), other)
}

func TestAStartSecretThatCanBeGuessedIsRefused(t *testing.T) {
	for name, secret := range map[string]string{
		"empty": "", "short": "0123456789abcdef", "one byte": strings.Repeat("s", StartSecretMin), "few": strings.Repeat("hallo", 20),
		"long": strings.Repeat(startSecret, StartSecretMax),
	} {
		_, err := StartToken([]byte(secret))
		var weak *WeakSecretError
		require.ErrorAs(t, err, &weak, name)
		require.NotContains(t, err.Error(), "hallo", "the error shows no secret")
		require.Equal(t, len(secret), weak.Length)
	}
	random := make([]byte, StartSecretMin)
	_, _ = rand.Read(random) // never fails
	require.NoError(t, checkStartSecret(random))
}

func startedWithSecret(t *testing.T) *node {
	t.Helper()
	dir := t.TempDir()
	token, err := Init(dir, InitOptions{Name: "n1", Address: "127.0.0.1:7400", Now: time.Now(), StartSecret: []byte(startSecret)})
	require.NoError(t, err)
	n := openNode(t, dir)
	n.token = token
	return n
}

// A first node that has lost its disk makes another cluster with the same authority. Its log must not meet that of the first.
func TestTwoClustersOfOneStartSecretHaveNoConnections(t *testing.T) {
	first, second := startedWithSecret(t), startedWithSecret(t)
	require.Equal(t, first.token, second.token)
	n2 := first.joined(t, "n2")
	about, err := NewClient(n2).About(t.Context(), first.address())
	require.NoError(t, err)
	require.True(t, about.Leads)

	_, err = NewClient(n2).About(t.Context(), second.address())
	var other *OtherIncarnationError
	require.ErrorAs(t, err, &other)
	require.Equal(t, "n1", other.Node)

	// The listener refuses, too, whatever the client accepts.
	careless := *n2
	careless.ca = &authority{certificate: n2.ca.certificate, key: n2.ca.key, incarnation: second.credentials.ca.incarnation}
	_, err = NewClient(&careless).About(t.Context(), second.address())
	require.Error(t, err)
	require.NotErrorAs(t, err, &other)
}

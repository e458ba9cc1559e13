package peer

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/paths"
)

func TestNames(t *testing.T) {
	for _, good := range []string{"a", "n1", "1", "node-1.example.com", "a_b.", longName()} {
		require.NoError(t, CheckName(good), good)
	}
	for _, bad := range []string{"", "N1", "-n", ".n", "_n", "a b", "ä", "a/b", "a\n", longName() + "a"} {
		require.Error(t, CheckName(bad), bad)
	}
}

func TestAddresses(t *testing.T) {
	for _, good := range []string{"h:1", "10.0.0.1:65535", "[fd00::1]:7400", "node_1.example.com:7400", "127.0.0.1:7400"} {
		require.NoError(t, CheckAddress(good), good)
	}
	for _, bad := range []string{"", "h", ":7400", "0.0.0.0:7400", "[::]:7400", "h:0", "h:65536", "h:+1", "h:01", "h:http", "[fe80::1%eth0]:1",
		"[::ffff:0.0.0.0]:1x", "224.0.0.1:7400", "h/x:1", "u@h:1", "h:1:2", strings.Repeat("h", hostMax+1) + ":1"} {
		require.Error(t, CheckAddress(bad), bad)
	}
}

func TestInit(t *testing.T) {
	dir := t.TempDir()
	_, err := LoadIdentity(dir)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "belongs to no cluster")
	_, err = LoadCredentials(dir)
	require.ErrorIs(t, err, fs.ErrNotExist)

	text, err := Init(dir, InitOptions{Name: "n1", Address: "127.0.0.1:7400", Now: time.Now()})
	require.NoError(t, err)
	_, err = parseToken(text)
	require.NoError(t, err)
	identity, err := LoadIdentity(dir)
	require.NoError(t, err)
	require.True(t, identity.Founder && identity.Voting)
	require.NotEmpty(t, identity.UUID)
	require.Empty(t, identity.Peers)

	require.EqualValues(t, 0o700, modeOf(t, pathOf(dir, "")))
	for _, secret := range []string{identityName, caKeyName, certificateKeyName, tokensName} {
		require.EqualValues(t, 0o600, modeOf(t, pathOf(dir, secret)), secret)
	}
	stored, err := os.ReadFile(pathOf(dir, tokensName))
	require.NoError(t, err)
	require.NotContains(t, string(stored), text[len(text)-16:])

	_, err = Init(dir, InitOptions{Name: "n2", Address: "127.0.0.1:7400", Now: time.Now()})
	var member *AlreadyMemberError
	require.ErrorAs(t, err, &member)
	require.Equal(t, "n1", member.Name)

	identity.Peers = []string{"127.0.0.1:7401"}
	require.NoError(t, identity.Save(dir))
	again, err := LoadIdentity(dir)
	require.NoError(t, err)
	require.Equal(t, identity, again)
	identity.Peers = []string{"nobody"}
	require.Error(t, identity.Save(dir))
}

func TestInitRefusesAFormerClustersDirectory(t *testing.T) {
	dir := t.TempDir()
	putFile(t, pathOf(dir, "log/0001.wal"), "x")
	_, err := Init(dir, InitOptions{Name: "n1", Address: "127.0.0.1:7400", Now: time.Now()})
	var leftover *LeftoverError
	require.ErrorAs(t, err, &leftover)
	require.Equal(t, pathOf(dir, "log"), leftover.Path)
}

// A node of a Ganeti cluster does not become a node of a cluster of lockstep, and nothing is changed.
func TestGanetiDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	is, err := IsGanetiDirectory(dir)
	require.NoError(t, err)
	require.False(t, is)
	putFile(t, filepath.Join(dir, paths.GanetiCertificatePath), "x")
	is, err = IsGanetiDirectory(dir)
	require.NoError(t, err)
	require.True(t, is)
	var refused *GanetiDirectoryError
	_, err = Init(dir, InitOptions{Name: "n1", Address: "127.0.0.1:7400", Now: time.Now()})
	require.ErrorAs(t, err, &refused)
	require.Equal(t, dir, refused.Path)
	require.ErrorContains(t, err, "is the data directory of a Ganeti node, because it has server.pem")
	o := newFounder(t).options("n2")
	require.ErrorAs(t, Join(t.Context(), dir, o), &refused)
	require.NoDirExists(t, pathOf(dir, ""))
}

func TestABrokenIdentityIsNotNone(t *testing.T) {
	dir := t.TempDir()
	putFile(t, pathOf(dir, identityName), `{"name":"n1"`)
	_, err := LoadIdentity(dir)
	require.Error(t, err)
	require.NotErrorIs(t, err, fs.ErrNotExist)
	_, err = Init(dir, InitOptions{Name: "n1", Address: "127.0.0.1:7400", Now: time.Now()})
	require.ErrorContains(t, err, "cannot be used")
}

func TestCertificateOfAnotherNodeIsNotLoaded(t *testing.T) {
	dir := t.TempDir()
	_, err := Init(dir, InitOptions{Name: "n1", Address: "127.0.0.1:7400", Now: time.Now()})
	require.NoError(t, err)
	identity, err := LoadIdentity(dir)
	require.NoError(t, err)
	identity.Name = "n2"
	require.NoError(t, identity.Save(dir))
	_, err = LoadCredentials(dir)
	require.ErrorContains(t, err, "the certificate is of n1, the node is n2")
}

func TestRecover(t *testing.T) {
	dir := t.TempDir()
	require.ErrorIs(t, RequestRecovery(dir, time.Now()), fs.ErrNotExist)
	_, err := Init(dir, InitOptions{Name: "n1", Address: "127.0.0.1:7400", Now: time.Now()})
	require.NoError(t, err)
	wanted, err := RecoveryRequested(dir)
	require.NoError(t, err)
	require.False(t, wanted)
	require.NoError(t, RequestRecovery(dir, time.Now()))
	wanted, err = RecoveryRequested(dir)
	require.NoError(t, err)
	require.True(t, wanted)
	require.NoError(t, ClearRecovery(dir))
	require.NoError(t, ClearRecovery(dir))
	wanted, err = RecoveryRequested(dir)
	require.NoError(t, err)
	require.False(t, wanted)
}

func TestNewTokens(t *testing.T) {
	dir := t.TempDir()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	_, err := NewToken(dir, time.Hour, now)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = Init(dir, InitOptions{Name: "n1", Address: "127.0.0.1:7400", Now: now})
	require.NoError(t, err)
	for _, bad := range []time.Duration{0, -time.Hour, time.Second, 31 * 24 * time.Hour} {
		_, err = NewToken(dir, bad, now)
		require.Error(t, err)
	}
	text, err := NewToken(dir, time.Hour, now)
	require.NoError(t, err)
	made, err := parseToken(" " + text + "\n")
	require.NoError(t, err)
	require.NoError(t, checkSecret(dir, made.secret[:], now.Add(59*time.Minute)))
	require.ErrorIs(t, checkSecret(dir, made.secret[:], now.Add(time.Hour)), errTokenExpired)
	require.ErrorIs(t, checkSecret(dir, nil, now), errTokenUnknown)

	// Expired tokens are removed.
	_, err = NewToken(dir, time.Hour, now.Add(2*time.Hour))
	require.NoError(t, err)
	require.ErrorIs(t, checkSecret(dir, made.secret[:], now), errTokenUnknown)
	tokens, err := readTokens(dir)
	require.NoError(t, err)
	require.Len(t, tokens, 2) // the token of Init is valid for a day
}

func TestTextsThatAreNoTokens(t *testing.T) {
	good := token{}.String()
	for _, bad := range []string{"", "x", good[:len(good)-1], good + "AAAA", good + "=", strings.Replace(good, "A", "+", 1)} {
		_, err := parseToken(bad)
		var wrong *TokenError
		require.ErrorAs(t, err, &wrong, bad)
	}
}

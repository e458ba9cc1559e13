package settings

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheRemoteAPIIsNotOpenToOthersByMistake(t *testing.T) {
	for flags, want := range map[string]string{
		"":                           "",
		"--rapi-address=":            "",
		"--rapi-address=[::1]:5080":  "",
		"--rapi-address=localhost:0": "",
		"--rapi-address=:5080":       "",
		"--rapi-address=:5080 --rapi-require-authentication=false":        "rapi-require-authentication",
		"--rapi-address=0.0.0.0:5080 --rapi-require-authentication=false": "rapi-require-authentication",
		"--rapi-address=node1:5080 --rapi-require-authentication=false":   "rapi-require-authentication",
		"--rapi-require-authentication=false":                             "",
		"--rapi-address=:5080 --rapi-tls=off":                             "passwords could be intercepted",
		"--rapi-address=:5080 --rapi-insecure":                            "",
		"--rapi-address=5080":                                             "not an address and a port",
		"--rapi-address=127.0.0.1:http":                                   "not a port",
		"--rapi-tls=maybe":                                                "rapi-tls",
		"--rapi-cert=/x":                                                  "set both or none",
		"--rapi-cert=/x --rapi-key=/y":                                    "",
		"--rapi-address=:5080 --rapi-require-authentication":              "",
	} {
		c, err := Parse(append(strings.Fields(flags), "--run-dir=/tmp/r"), io.Discard)
		if want != "" {
			require.ErrorContains(t, err, want, flags)
			continue
		}
		require.NoError(t, err, flags)
		require.True(t, filepath.IsAbs(c.Rapi.Users))
	}
	c, err := Parse([]string{"--rapi-address=:5080", "--run-dir=/tmp/r"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, TLSOn, c.Rapi.TLS)
	require.True(t, c.Rapi.RequireAuthentication)
	file := filepath.Join(t.TempDir(), "lockstepd.yaml")
	require.NoError(t, os.WriteFile(file, []byte("rapi-require-authentication: false\n"), 0o600))
	c, err = Parse([]string{"--config", file, "--run-dir=/tmp/r"}, io.Discard)
	require.NoError(t, err)
	require.False(t, c.Rapi.RequireAuthentication)
}

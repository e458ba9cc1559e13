package settings

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMondSettings(t *testing.T) {
	base := []string{"--data-dir", t.TempDir(), "--run-dir", t.TempDir(), "--log-dir", t.TempDir()}
	for _, c := range []struct {
		flags []string
		err   string
		tls   string
	}{
		{nil, "", tlsOff},
		{[]string{"--mond-address", ""}, "", TLSOn},
		{[]string{"--mond-address", "0.0.0.0:1815"}, "", TLSOn},
		{[]string{"--mond-address", "0.0.0.0:1815", "--mond-allow", "192.0.2.0/24, 2001:db8::1"}, "", tlsOff},
		{[]string{"--mond-address", "0.0.0.0:1815", "--mond-tls", tlsOff}, "mond-address: 0.0.0.0:1815 is open to all machines", ""},
		{[]string{"--mond-address", "1815"}, "mond-address: \"1815\" is not an address and a port", ""},
		{[]string{"--mond-address", "127.0.0.1:http"}, "is not a port", ""},
		{[]string{"--mond-allow", "example.com"}, "mond-allow: \"example.com\" is neither", ""},
		{[]string{"--mond-tls", "maybe"}, "mond-tls: \"maybe\" is not", ""},
	} {
		got, err := Parse(append(append([]string{}, base...), c.flags...), io.Discard)
		if c.err != "" {
			require.ErrorContains(t, err, c.err, c.flags)
			continue
		}
		require.NoError(t, err, c.flags)
		require.Equal(t, c.tls, got.Mond.TLS, c.flags)
	}
}

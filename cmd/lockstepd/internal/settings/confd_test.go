package settings

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConfdSettings(t *testing.T) {
	base := []string{"--data-dir", t.TempDir(), "--run-dir", t.TempDir(), "--log-dir", t.TempDir()}
	for _, c := range []struct {
		flags     []string
		err       string
		alone, in string // the address without a cluster, and as 192.0.2.11 in a cluster
	}{
		{nil, "", "127.0.0.1:1814", "192.0.2.11:1814"},
		{[]string{"--confd-address", "auto"}, "", "127.0.0.1:1814", "192.0.2.11:1814"},
		{[]string{"--node-listen", "192.0.2.99:7400"}, "", "127.0.0.1:1814", "192.0.2.99:1814"},
		{[]string{"--confd-address", "198.51.100.1:2814"}, "", "198.51.100.1:2814", "198.51.100.1:2814"},
		{[]string{"--confd-address", ""}, "", "", ""},
		{selfAccounts(), "", "", ""},
		{append(selfAccounts(), "--confd-address", "auto"), "", "127.0.0.1:1814", "192.0.2.11:1814"},
		{append(selfAccounts(), "--confd-address", "198.51.100.1:1814"), "", "198.51.100.1:1814", "198.51.100.1:1814"},
		{[]string{"--confd-address", "1814"}, `confd-address: "1814" is not an address and a port`, "", ""},
		{[]string{"--confd-address", "127.0.0.1:confd"}, `confd-address: "confd" is not a port`, "", ""},
	} {
		got, err := Parse(append(append([]string{}, base...), c.flags...), io.Discard)
		if c.err != "" {
			require.ErrorContains(t, err, c.err, c.flags)
			continue
		}
		require.NoError(t, err, c.flags)
		alone, err := got.ConfdAddress("")
		require.NoError(t, err)
		require.Equal(t, c.alone, alone, c.flags)
		in, err := got.ConfdAddress("192.0.2.11:7400")
		require.NoError(t, err)
		require.Equal(t, c.in, in, c.flags)
	}
}

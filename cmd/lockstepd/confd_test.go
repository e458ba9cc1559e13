package main

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/confd"
	edgeconfd "lockstep/edge/confd"
	"lockstep/edge/peer"
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
		got, err := parseConfig(append(append([]string{}, base...), c.flags...), io.Discard)
		if c.err != "" {
			require.ErrorContains(t, err, c.err, c.flags)
			continue
		}
		require.NoError(t, err, c.flags)
		alone, err := got.confdAddress(nil)
		require.NoError(t, err)
		require.Equal(t, c.alone, alone, c.flags)
		in, err := got.confdAddress(&peer.Identity{Address: "192.0.2.11:7400"})
		require.NoError(t, err)
		require.Equal(t, c.in, in, c.flags)
	}
}

// defaultConfdFlags are the flags of a daemon, without those of queries about the configuration.
func (d *daemon) defaultConfdFlags(more ...string) []string {
	return append([]string{"--data-dir", d.path("lib"), "--run-dir", d.path("run"), "--log-dir", d.path("log"), "--rapi-address", "", "--mond-address", ""}, more...)
}

// A daemon whose default port is taken says so and takes jobs. A port that the operator has chosen must be free.
func TestConfdPortIsTaken(t *testing.T) {
	d := newDaemon(t)
	const address = "127.0.0.1:" + confdPort
	taker, err := net.ListenPacket("udp", address) // an error: another program has it, and that is as good
	if err == nil {
		defer taker.Close()
	}
	d.awaitReady(d.launchProgram(filepath.Join(programs, "lockstepd"), d.defaultConfdFlags()...))
	require.Contains(t, d.logged(), "queries about the configuration are not answered: their default address cannot be used")
	require.Contains(t, d.logged(), address)
	d.dial().submit(command("true"))
	require.Zero(t, d.stop())

	d.launchProgram(filepath.Join(programs, "lockstepd"), d.defaultConfdFlags("--confd-address", address)...)
	select {
	case <-d.done:
	case <-time.After(patience):
		t.Fatal("the daemon runs, and nothing answers at the chosen address")
	}
	require.NotZero(t, d.cmd.ProcessState.ExitCode())
	require.Contains(t, d.logged(), "confd-address: listen udp "+address)
	d.cmd = nil
}

// A daemon that is alone answers at the default address from its configuration, as soon as its key is there.
func TestConfdByDefault(t *testing.T) {
	d := newDaemon(t)
	d.awaitReady(d.launchProgram(filepath.Join(programs, "lockstepd"), d.defaultConfdFlags()...))
	const address = "127.0.0.1:" + confdPort
	if _, err := os.Stat(d.path("lib", "hmac.key")); err == nil {
		t.Fatal("a daemon without a cluster has a key that no operator has asked for")
	}
	var rotated map[string]any
	d.dial().call("LockstepRotateConfdKey", &rotated)
	require.Equal(t, true, rotated["first"])
	key, err := os.ReadFile(d.path("lib", "hmac.key"))
	require.NoError(t, err)
	require.Len(t, key, confd.KeySize)
	if strings.Contains(d.logged(), "their default address cannot be used") {
		t.Skipf("NOT RUN: another program has %s", address)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	answers := edgeconfd.AskAll(ctx, key, []string{address}, confd.Query{Type: confd.ConfigPath, Argument: []byte(`"/serial_no"`)})
	require.NoError(t, answers[0].Err)
	require.Equal(t, confd.StatusOK, answers[0].Reply.Status)
	require.Positive(t, answers[0].ConfigSerial)
}

package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/confd"
	edgeconfd "lockstep/edge/confd"
)

// confdPort is the default port of queries about the configuration.
const confdPort = "1814"

// defaultConfdFlags are the flags of a daemon, without those of queries about the configuration.
func (d *daemon) defaultConfdFlags(more ...string) []string {
	return append([]string{"--data-dir", d.path("lib"), "--run-dir", d.path("run"), "--log-dir", d.path("log"), "--rapi-address", "", "--mond-address", ""}, more...)
}

// A daemon whose default port is taken takes jobs, and says nothing of a server that nobody has asked for. A port that the operator has chosen must be free.
func TestConfdPortIsTaken(t *testing.T) {
	d := newDaemon(t)
	const address = "127.0.0.1:" + confdPort
	taker, err := net.ListenPacket("udp", address) // an error: another program has it, and that is as good
	if err == nil {
		defer taker.Close()
	}
	d.awaitReady(d.launchProgram(filepath.Join(programs, "lockstepd"), d.defaultConfdFlags()...))
	require.NotContains(t, d.logged(), "ConfD")
	require.NotContains(t, d.logged(), "configuration queries")
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
	if strings.Contains(d.logged(), "its default address cannot be used") {
		t.Skipf("NOT RUN: another program has %s", address)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	answers := edgeconfd.AskAll(ctx, key, []string{address}, confd.Query{Type: confd.ConfigPath, Argument: []byte(`"/serial_no"`)})
	require.NoError(t, answers[0].Err)
	require.Equal(t, confd.StatusOK, answers[0].Reply.Status)
	require.Positive(t, answers[0].ConfigSerial)
}

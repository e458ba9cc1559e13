package noded_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	corenoded "lockstep/core/noded"
	"lockstep/edge/noded"
	"lockstep/edge/noded/nodedtest"
)

// bench is a fake node daemon, and a client with the certificate of a master.
type bench struct {
	testing.TB
	server, master *nodedtest.Identity
	daemon         *nodedtest.Daemon
	config         noded.Config
	client         *noded.Client
}

// identities are made once, because the keys take time.
var identities struct {
	sync.Once
	server, master, foreign *nodedtest.Identity
}

func newBench(t testing.TB) *bench {
	identities.Do(func() {
		identities.server = nodedtest.NewIdentity(t, "ganeti.example.com", nil)
		identities.master = nodedtest.NewIdentity(t, "node1.example", identities.server)
		identities.foreign = nodedtest.NewIdentity(t, "ganeti.example.com", nil)
	})
	b := &bench{TB: t, server: identities.server, master: identities.master}
	dir := t.TempDir()
	b.daemon = nodedtest.Start(t, "node2", "127.0.0.1:0", b.server)
	b.daemon.Admit(b.master)
	_, port, err := net.SplitHostPort(b.daemon.Address())
	require.NoError(t, err)
	b.config = noded.Config{ServerPEM: b.server.Write(t, dir, "server.pem"), ClientPEM: b.master.Write(t, dir, "client.pem")}
	b.config.Port, err = strconv.Atoi(port)
	require.NoError(t, err)
	b.client = noded.NewClient(b.config)
	return b
}

func (b *bench) upload(content string) error {
	return b.client.UploadFile(b.Context(), b.daemon.Node(), corenoded.ConfigFile([]byte(content)))
}

// requireCause checks that an error names node, procedure and cause.
func (b *bench) requireCause(err error, cause string) {
	b.Helper()
	require.ErrorContains(b, err, "upload_file_single of node node2: ")
	require.ErrorContains(b, err, cause)
	var of *noded.CallError
	require.ErrorAs(b, err, &of)
	require.Equal(b, "node2", of.Node)
	require.Equal(b, corenoded.UploadFile, of.Procedure)
}

func TestProcedures(t *testing.T) {
	b := newBench(t)
	long := strings.Repeat("configuration ", 10000)
	require.NoError(t, b.upload(long))
	require.Equal(t, long, b.daemon.File(nodedtest.ConfigPath))

	certs := "uuid=" + b.master.Digest()
	tooLong, err := b.client.WriteSsconf(t.Context(), b.daemon.Node(), map[string][]string{"master_node": {"node1.example"},
		"cluster_tags": {}, "master_candidates_certs": {certs}, "instance_list": {strings.Repeat("i", corenoded.SsconfMax)}})
	require.NoError(t, err)
	require.Equal(t, []string{"instance_list"}, tooLong)
	require.Equal(t, certs+"\n", b.daemon.File(nodedtest.SsconfPath("master_candidates_certs")))
	require.Equal(t, "", b.daemon.File(nodedtest.SsconfPath("cluster_tags")))

	name, err := b.client.MasterName(t.Context(), b.daemon.Node())
	require.NoError(t, err)
	require.Equal(t, "node1.example", name)

	found, err := b.client.Verify(t.Context(), b.daemon.Node(), corenoded.Verify{Cluster: "c", Files: []string{nodedtest.ConfigPath, "/none"}, Version: true})
	require.NoError(t, err)
	sum := sha1.Sum([]byte(long))
	require.Equal(t, corenoded.Verification{Files: map[string]string{nodedtest.ConfigPath: hex.EncodeToString(sum[:])}, Protocol: 3000000, Release: "3.0.2"}, found)

	calls := b.daemon.Calls()
	require.Len(t, calls, 4)
	for _, c := range calls {
		require.Equal(t, b.master.Digest(), c.Client)
	}
}

func TestRefusal(t *testing.T) {
	b := newBench(t)
	err := b.client.UploadFile(t.Context(), b.daemon.Node(), corenoded.File{Path: "/etc/shadow", User: "root", Group: "root"})
	var refused *corenoded.RefusedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "Filename passed to UploadFile not in allowed upload targets: '/etc/shadow'", refused.Text)
	_, err = b.client.WriteSsconf(t.Context(), b.daemon.Node(), map[string][]string{"colour": {}})
	require.EqualError(t, err, "write_ssconf_files of node node2: the node daemon answers: Error while executing backend function: invalid ssconf key colour")
}

// Each failure of the node daemon is an error that names its cause, and the next call is not affected.
func TestFaults(t *testing.T) {
	b := newBench(t)
	b.client.WithLimits(300*time.Millisecond, 300*time.Millisecond)
	for fault, cause := range map[nodedtest.Fault]string{
		nodedtest.Refuse:      "the node daemon answers: injected refusal",
		nodedtest.Nonsense:    "the answer is no pair: <html>",
		nodedtest.OtherShape:  "the answer is no pair: {",
		nodedtest.TooMuch:     "the answer is longer than 65536 bytes",
		nodedtest.Half:        "the answer is incomplete",
		nodedtest.Never:       "no answer within 300ms",
		nodedtest.CloseBefore: "the node daemon closed the connection without an answer",
		nodedtest.CloseAfter:  "the node daemon closed the connection without an answer",
		nodedtest.BadStatus:   "the node daemon answers with status 500",
		nodedtest.Silent:      "no connection to " + b.daemon.Address() + " within 300ms",
	} {
		b.daemon.Inject(fault)
		err := b.upload(strconv.Itoa(int(fault)))
		require.Error(t, err, cause)
		b.requireCause(err, cause)
	}
	b.daemon.Inject(nodedtest.None)
	b.client.WithLimits(10*time.Second, 10*time.Second)
	require.NoError(t, b.upload("after"))
}

func TestOtherResultShape(t *testing.T) {
	b := newBench(t)
	_, err := b.client.MasterName(t.Context(), b.daemon.Node())
	require.EqualError(t, err, "master_node_name of node node2: the result is no name of a node: it is empty")
}

func TestUnknownProcedure(t *testing.T) {
	b := newBench(t)
	_, err := b.client.Call(t.Context(), b.daemon.Node(), corenoded.Request{Procedure: "nosuch", Body: []byte("[]")})
	require.ErrorContains(t, err, "nosuch of node node2: the node daemon closed the connection without an answer")
}

func TestRestart(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.upload("1"))
	b.daemon.Stop()
	b.requireCause(b.upload("2"), "connection refused")
	b.daemon.Restart()
	require.NoError(t, b.upload("3"))
	require.Equal(t, "3", b.daemon.File(nodedtest.ConfigPath))
}

// A daemon that stops during a call ends it.
func TestDeathDuringACall(t *testing.T) {
	b := newBench(t)
	release := b.daemon.Hold()
	defer release()
	failed := make(chan error, 1)
	go func() { failed <- b.upload("1") }()
	b.daemon.Await(1)
	b.daemon.Stop()
	b.requireCause(<-failed, "the node daemon closed the connection without an answer")
}

// Another program on the port, or the node of another cluster, gets no request.
func TestForeignServer(t *testing.T) {
	b := newBench(t)
	b.daemon.UseCertificate(identities.foreign)
	b.requireCause(b.upload("1"), "the server has another certificate than the one of the cluster")
	// A certificate that the cluster's key has signed is not the cluster's certificate.
	b.daemon.UseCertificate(b.master)
	b.requireCause(b.upload("1"), "the server has another certificate than the one of the cluster")
	require.Empty(t, b.daemon.Calls())
}

func TestForeignClient(t *testing.T) {
	b := newBench(t)
	b.daemon.Admit(identities.foreign)
	b.requireCause(b.upload("1"), "the node daemon refuses the client certificate, which must be in its ssconf_master_candidates_certs")
	require.Empty(t, b.daemon.Calls())
	b.daemon.Admit(identities.foreign, b.master)
	require.NoError(t, b.upload("1"))
}

// Both files are read for each call, so that renewed certificates are used without a restart.
func TestRenewedCertificates(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.upload("1"))
	b.daemon.UseCertificate(identities.foreign)
	b.daemon.Admit(identities.foreign)
	for path, i := range map[string]*nodedtest.Identity{b.config.ServerPEM: identities.foreign, b.config.ClientPEM: identities.foreign} {
		require.NoError(t, os.Remove(path))
		i.Write(t, filepath.Dir(path), filepath.Base(path))
	}
	require.NoError(t, b.upload("2"))
	require.Equal(t, identities.foreign.Digest(), b.daemon.Calls()[1].Client)
}

// Before a node has ssconf files it accepts the cluster's certificate, which a client without an own certificate shows.
func TestFirstContact(t *testing.T) {
	b := newBench(t)
	b.daemon.Admit()
	b.requireCause(b.upload("1"), "refuses the client certificate")
	require.NoError(t, os.Remove(b.config.ClientPEM))
	require.NoError(t, b.upload("1"))
	require.Equal(t, b.server.Digest(), b.daemon.Calls()[0].Client)
}

func TestBadFiles(t *testing.T) {
	b := newBench(t)
	for _, bad := range []string{"", "no PEM", "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"} {
		require.NoError(t, os.Remove(b.config.ClientPEM))
		require.NoError(t, os.WriteFile(b.config.ClientPEM, []byte(bad), 0o600))
		b.requireCause(b.upload("1"), "client certificate: "+b.config.ClientPEM)
	}
	require.NoError(t, os.Chmod(b.config.ServerPEM, 0o600))
	require.NoError(t, os.WriteFile(b.config.ServerPEM, []byte("no PEM"), 0o600))
	b.requireCause(b.upload("1"), "certificate of the cluster: "+b.config.ServerPEM+": there is no certificate in it")
	require.NoError(t, os.Remove(b.config.ServerPEM))
	b.requireCause(b.upload("1"), "no such file")
	require.Empty(t, b.daemon.Calls())
}

func TestOfflineNodesAreNotCalled(t *testing.T) {
	b := newBench(t)
	node := b.daemon.Node()
	node.Offline = true
	err := b.client.UploadFile(t.Context(), node, corenoded.ConfigFile(nil))
	require.ErrorIs(t, err, noded.ErrOffline)
	b.requireCause(err, "the node is marked offline")
	require.Empty(t, b.daemon.Calls())
}

// Calls of one procedure of a node are made in order. Other calls do not wait for them.
func TestOrder(t *testing.T) {
	b := newBench(t)
	release := b.daemon.Hold()
	defer release()
	done := make(chan error, 4)
	for i := range 3 {
		go func() { done <- b.upload(fmt.Sprint(i)) }()
	}
	b.daemon.Await(1)
	go func() {
		_, err := b.client.WriteSsconf(b.Context(), b.daemon.Node(), nil)
		done <- err
	}()
	b.daemon.Await(2)
	require.Equal(t, 2, b.daemon.MostAtOnce())
	release()
	for range 4 {
		require.NoError(t, <-done)
	}
	require.Len(t, b.daemon.Calls(), 4)
	require.Equal(t, 2, b.daemon.MostAtOnce())
}

// A caller that gives up leaves the queue of its node, and its node is called again afterwards.
func TestCancel(t *testing.T) {
	b := newBench(t)
	release := b.daemon.Hold()
	defer release()
	first, second := make(chan error, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	upload := func(to chan error) {
		to <- b.client.UploadFile(ctx, b.daemon.Node(), corenoded.ConfigFile([]byte("x")))
	}
	go upload(first)
	b.daemon.Await(1)
	go upload(second)
	cancel()
	require.ErrorIs(t, <-first, context.Canceled)
	require.ErrorIs(t, <-second, context.Canceled)
	release()
	require.NoError(t, b.upload("y"))
}

// At most noded.ParallelMax calls are in progress.
func TestParallelism(t *testing.T) {
	b := newBench(t)
	release := b.daemon.Hold()
	defer release()
	done := make(chan error, 2*corenoded.ParallelMax)
	for i := range cap(done) {
		go func() { // each has another procedure, so that the calls do not wait for each other's turn
			_, err := b.client.Call(b.Context(), b.daemon.Node(), corenoded.Request{Procedure: corenoded.Procedure(fmt.Sprint("p", i)), Body: []byte("[]")})
			done <- err
		}()
	}
	b.daemon.Await(corenoded.ParallelMax)
	release()
	for range cap(done) {
		require.Error(t, <-done)
	}
	require.Len(t, b.daemon.Calls(), cap(done))
	require.LessOrEqual(t, b.daemon.MostAtOnce(), corenoded.ParallelMax)
}

func TestPort(t *testing.T) { require.Positive(t, noded.Port()) }

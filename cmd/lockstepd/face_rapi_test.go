package main

import (
	"crypto/md5" //nolint:gosec // Ganeti's file format has it
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/edge/rapi"
)

// rapiBench has a ganeti-rapi beside the daemons, with Ganeti's form of certificate and users file.
type rapiBench struct {
	*faceBench
	host, port string
	client     *http.Client
}

func newRapiBench(t *testing.T) *rapiBench {
	b := &rapiBench{faceBench: newFaceBench(t)}
	var err error
	b.host, b.port, err = net.SplitHostPort(loopback(t, 1)[0])
	require.NoError(t, err)
	certificate, key := b.path("cert"), b.path("key")
	_, err = rapi.EnsureCertificate(certificate, key, []string{b.host}, time.Now())
	require.NoError(t, err)
	var both []byte
	for _, path := range []string{key, certificate} {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		both = append(both, content...)
	}
	b.write("var/lib/ganeti/rapi.pem", string(both))
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(both))
	b.client = &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	b.users("deploy", "secret", "write")
	for _, dir := range []string{"run/ganeti", "var/log/ganeti"} { // ensure-dirs makes them
		require.NoError(t, os.MkdirAll(b.path(dir), 0o750))
	}
	t.Cleanup(func() {
		b.client.CloseIdleConnections()
		b.end(rapiName, syscall.SIGKILL)
	})
	return b
}

// users writes the users file with one user, whose password is hashed as in Ganeti.
func (b *rapiBench) users(name, password, option string) {
	b.t.Helper()
	hash := md5.Sum([]byte(name + ":Ganeti Remote API:" + password)) //nolint:gosec // as above
	b.write("var/lib/ganeti/rapi/users", fmt.Sprintf("%s {ha1}%s %s\n", name, hex.EncodeToString(hash[:]), option))
}

func (b *rapiBench) startRapi() {
	b.t.Helper()
	code, output := b.command(rapiName, "-b", b.host, "-p", b.port, "--require-authentication")
	require.Zero(b.t, code, output)
}

// request returns code and body of an answer. login is user:password.
func (b *rapiBench) request(method, path, login, body string) (int, string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, "https://"+net.JoinHostPort(b.host, b.port)+path, strings.NewReader(body))
	require.NoError(b.t, err)
	if user, password, given := strings.Cut(login, ":"); given {
		r.SetBasicAuth(user, password)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := b.client.Do(r)
	require.NoError(b.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(b.t, err)
	return answer.StatusCode, string(text)
}

// ganeti-rapi has the name, the pid file, the certificate and the users of Ganeti's, and serves the queue of the other daemons, also
// after their restart.
func TestRapiFace(t *testing.T) {
	b := newRapiBench(t)
	b.start(wconfdName)
	b.start(luxidName)
	b.startRapi()
	pid := b.pid(rapiName)
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	require.NoError(t, err)
	require.Equal(t, rapiName+"\n", string(comm))
	info, err := os.Stat(b.path("run/ganeti/ganeti-rapi.pid"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	code, output := b.command(rapiName, "-b", b.host, "-p", b.port)
	require.Equal(t, exitFailed, code)
	require.Contains(t, output, "already locked?")

	const deploy = "deploy:secret"
	status, body := b.request(http.MethodGet, "/version", deploy, "")
	require.Equal(t, []any{http.StatusOK, "2\n"}, []any{status, body})
	for _, login := range []string{"", "deploy:wrong"} {
		for _, path := range []string{"/version", "/2/info"} {
			status, body = b.request(http.MethodGet, path, login, "")
			require.Equal(t, http.StatusUnauthorized, status, body)
		}
	}
	status, body = b.request(http.MethodGet, "/2/info", deploy, "")
	require.Equal(t, http.StatusOK, status, body)
	require.Contains(t, body, `"name":"demo"`)
	status, body = b.request(http.MethodPut, "/2/modify", deploy, `{"candidate_pool_size": 7}`)
	require.Equal(t, http.StatusOK, status, body)
	job := "/2/jobs/" + strings.TrimSpace(body)
	status, body = b.request(http.MethodGet, job, deploy, "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "OP_CLUSTER_SET_PARAMS")
	status, body = b.request(http.MethodGet, "/3/events", deploy, "")
	require.Equal(t, http.StatusNotFound, status)
	require.Contains(t, body, "This server has no events")

	b.end(luxidName, syscall.SIGKILL)
	b.end(wconfdName, syscall.SIGTERM)
	status, body = b.request(http.MethodGet, job, deploy, "")
	require.Equal(t, http.StatusBadGateway, status, body)
	b.start(wconfdName)
	b.start(luxidName)
	status, body = b.request(http.MethodGet, job, deploy, "")
	require.Equal(t, http.StatusOK, status, body)

	// SIGHUP opens the log again; a change of the users file needs none.
	log := b.path("var/log/ganeti/rapi-daemon.log")
	require.NoError(t, os.Rename(log, log+".1"))
	require.NoError(t, syscall.Kill(pid, syscall.SIGHUP))
	require.Eventually(t, func() bool { _, err := os.Stat(log); return err == nil }, patience, time.Millisecond)
	b.users("other", "pass", "read")
	require.Eventually(t, func() bool {
		status, _ := b.request(http.MethodGet, "/2/info", "other:pass", "")
		return status == http.StatusOK
	}, patience, 100*time.Millisecond)
	require.Equal(t, pid, b.pid(rapiName))

	b.end(rapiName, syscall.SIGTERM)
	require.NoFileExists(t, b.path("run/ganeti/ganeti-rapi.pid"))
}

// The options and exit codes of ganeti-rapi. It runs on any node, and errors of its start go to standard error.
func TestRapiFaceOptions(t *testing.T) {
	b := newRapiBench(t)
	b.write("var/lib/ganeti/ssconf_master_node", "node2\n")
	for _, c := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"--version"}, 0, "ganeti-rapi (ganeti) version 3.0.2-3\n"},
		{[]string{"-h"}, 0, "--require-authentication"},
		{[]string{"--no-voting"}, exitUsage, "no-voting"},
		{[]string{"-p", "0"}, exitUsage, "is not a port"},
		{[]string{"-K", "file"}, exitUsage, "set both or none"},
		{[]string{"argument"}, exitUsage, "takes no arguments"},
		{[]string{"-b", b.host, "-p", b.port, "-K", "/nonexistent", "-C", "/nonexistent"}, exitFailed, "/nonexistent"},
		{[]string{"-b", "192.0.2.1", "-p", b.port}, exitFailed, "192.0.2.1"},
	} {
		code, output := b.command(rapiName, c.args...)
		require.Equal(t, c.code, code, "%v: %s", c.args, output)
		require.Contains(t, output, c.text, "%v", c.args)
		require.Zero(t, b.pid(rapiName))
	}
	b.startRapi()
	b.end(rapiName, syscall.SIGTERM)
	b.write("etc/ganeti/lockstep.yaml", fmt.Sprintf("ganeti-user: \"%d\"\nganeti-confd-group: \"4711\"\nganeti-daemons-group: \"4711\"\nganeti-rapi-user: \"4711\"\n", os.Geteuid()))
	code, output := b.command(rapiName)
	require.Equal(t, exitFailed, code)
	require.Contains(t, output, fmt.Sprintf("ganeti-rapi started using wrong user ID (%d), expected 4711", os.Geteuid()))
}

package rapi_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/edge/rapi"
)

func TestACertificateIsMadeOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rapi")
	certificate, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	now := time.Now()
	hosts := []string{"node1.example", "127.0.0.1"}
	made, err := rapi.EnsureCertificate(certificate, key, hosts, now)
	require.NoError(t, err)
	require.True(t, made)
	info, err := os.Stat(key)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	first, err := rapi.TLSConfig(certificate, key)
	require.NoError(t, err)
	leaf := first.Certificates[0].Leaf
	require.NoError(t, leaf.VerifyHostname("node1.example"))
	require.NoError(t, leaf.VerifyHostname("127.0.0.1"))
	made, err = rapi.EnsureCertificate(certificate, key, hosts, now)
	require.NoError(t, err)
	require.False(t, made)
	// An unusable certificate is replaced; so is an incomplete pair.
	made, err = rapi.EnsureCertificate(certificate, key, hosts, now.AddDate(11, 0, 0))
	require.NoError(t, err)
	require.True(t, made)
	require.NoError(t, os.Remove(certificate))
	made, err = rapi.EnsureCertificate(certificate, key, hosts, now)
	require.NoError(t, err)
	require.True(t, made)
	second, err := rapi.TLSConfig(certificate, key)
	require.NoError(t, err)
	require.NotEqual(t, rapi.Fingerprint(first), rapi.Fingerprint(second))
	_, err = rapi.TLSConfig(certificate, key+".none")
	require.ErrorContains(t, err, "key.pem.none")
}

func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certificate, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	_, err := rapi.EnsureCertificate(certificate, key, []string{"localhost"}, time.Now())
	require.NoError(t, err)
	b := newTestServer(t, func(c *rapi.Config) {
		c.TLS, err = rapi.TLSConfig(certificate, key)
		require.NoError(t, err)
		c.Connections = 2
	})
	response, err := b.client.Get(b.url + "/version")
	require.NoError(t, err)
	response.Body.Close()
	require.Equal(t, 2, response.ProtoMajor)
	// Connections without a TLS handshake make room here, too.
	for range 10 {
		c, err := net.Dial("tcp", b.url[len("https://"):])
		require.NoError(t, err)
		defer c.Close()
	}
	b.client.CloseIdleConnections()
	require.Equal(t, 200, b.do("POST", "/2/filters", "peer:secret", `{}`).code)
	s := b.listen("/3/events", "")
	s.next()
	b.publish(1, 1)
	require.Equal(t, `{"id":1}`, s.next().data)
	require.Equal(t, 200, b.do("GET", "/2/jobs", "", "").code)
}

package tlsserver_test

import (
	"bytes"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	"github.com/stretchr/testify/require"

	"lockstep/edge/tlsserver"
)

// client records what a handler writes, and loses the connection at the chunk failAt.
type client struct {
	*httptest.ResponseRecorder
	chunks    []int
	deadlines int
	flushes   int
	failAt    int
}

func (c *client) Write(data []byte) (int, error) {
	if len(c.chunks) == c.failAt-1 {
		return 0, errors.New("gone")
	}
	c.chunks = append(c.chunks, len(data))
	return c.ResponseRecorder.Write(data)
}

func (c *client) SetWriteDeadline(time.Time) error { c.deadlines++; return nil }
func (c *client) FlushError() error                { c.flushes++; return nil }

func TestEachChunkHasADeadline(t *testing.T) {
	data := bytes.Repeat([]byte("x"), 2*tlsserver.ChunkSize+1)
	for _, flush := range []bool{false, true} {
		c := &client{ResponseRecorder: httptest.NewRecorder()}
		n, err := tlsserver.DeadlineWriter{Response: c, Timeout: time.Minute, Flush: flush}.Write(data)
		require.NoError(t, err)
		require.Equal(t, len(data), n)
		require.Equal(t, []int{tlsserver.ChunkSize, tlsserver.ChunkSize, 1}, c.chunks)
		require.Equal(t, 3, c.deadlines)
		require.Equal(t, map[bool]int{true: 3}[flush], c.flushes)
		require.Equal(t, data, c.Body.Bytes())
	}
}

func TestAWriteEndsWithTheClient(t *testing.T) {
	c := &client{ResponseRecorder: httptest.NewRecorder(), failAt: 2}
	n, err := tlsserver.DeadlineWriter{Response: c, Timeout: time.Minute}.Write(make([]byte, 3*tlsserver.ChunkSize))
	require.EqualError(t, err, "gone")
	require.Equal(t, tlsserver.ChunkSize, n)

	_, err = tlsserver.DeadlineWriter{Response: httptest.NewRecorder(), Timeout: time.Minute}.Write([]byte("x"))
	require.ErrorIs(t, err, http.ErrNotSupported)
}

func TestErrorLog(t *testing.T) {
	log, hook := logtest.NewNullLogger()
	tlsserver.ErrorLog(log, logrus.WarnLevel, "request failed").Print("too slow")
	require.Len(t, hook.Entries, 1)
	require.Equal(t, logrus.WarnLevel, hook.LastEntry().Level)
	require.Equal(t, "request failed", hook.LastEntry().Message)
	require.Equal(t, logrus.Fields{"err": "too slow\n"}, hook.LastEntry().Data)
}

func TestAKeyAndItsBlock(t *testing.T) {
	key, err := tlsserver.NewKey()
	require.NoError(t, err)
	encoded, err := tlsserver.EncodeKey(key)
	require.NoError(t, err)
	der, err := tlsserver.DecodeBlock(encoded, tlsserver.PrivateKey)
	require.NoError(t, err)
	decoded, err := x509.ParsePKCS8PrivateKey(der)
	require.NoError(t, err)
	require.True(t, key.Equal(decoded))
	_, err = tlsserver.DecodeBlock(encoded, tlsserver.Certificate)
	require.EqualError(t, err, `there is no PEM block "CERTIFICATE"`)
}

func TestTheTimesOfATemplate(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a, err := tlsserver.NewTemplate(now, time.Hour, 10)
	require.NoError(t, err)
	b, err := tlsserver.NewTemplate(now, time.Hour, 10)
	require.NoError(t, err)
	require.Equal(t, now.Add(-time.Hour), a.NotBefore)
	require.Equal(t, now.AddDate(10, 0, 0), a.NotAfter)
	require.NotEqual(t, a.SerialNumber, b.SerialNumber)
}

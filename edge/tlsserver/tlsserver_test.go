package tlsserver_test

import (
	"bytes"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	"github.com/stretchr/testify/require"

	"lockstep/edge/admission"
	"lockstep/edge/tlsserver"
)

// client records what a handler writes, and loses the connection at the chunk failAt.
type client struct {
	*httptest.ResponseRecorder
	chunks    []int
	deadlines []time.Time
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

func (c *client) SetWriteDeadline(at time.Time) error {
	c.deadlines = append(c.deadlines, at)
	return nil
}
func (c *client) FlushError() error { c.flushes++; return nil }

func TestEachChunkOfAStreamHasADeadline(t *testing.T) {
	data := bytes.Repeat([]byte("x"), 2*tlsserver.ChunkSize+1)
	c := &client{ResponseRecorder: httptest.NewRecorder()}
	n, err := tlsserver.StreamWriter{Response: c, Timeout: time.Minute}.Write(data)
	require.NoError(t, err)
	require.Equal(t, len(data), n)
	require.Equal(t, []int{tlsserver.ChunkSize, tlsserver.ChunkSize, 1}, c.chunks)
	require.Len(t, c.deadlines, 3)
	require.Equal(t, 3, c.flushes)
	require.Equal(t, data, c.Body.Bytes())
}

// A client that takes a little at a time has a minute in all, and a second more for each MB.
func TestAnAnswerIsSentInItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &client{ResponseRecorder: httptest.NewRecorder()}
		q, _ := tlsserver.Begin(c, httptest.NewRequest(http.MethodGet, "/", nil), admission.NewTable())
		defer q.End()
		begin := time.Now()
		for range 32 {
			_, err := q.Write(make([]byte, 64<<10))
			require.NoError(t, err)
			<-time.After(time.Second)
		}
		require.Equal(t, begin.Add(62*time.Second), c.deadlines[len(c.deadlines)-1])
	})
}

func TestAStreamEndsWithTheClient(t *testing.T) {
	c := &client{ResponseRecorder: httptest.NewRecorder(), failAt: 2}
	n, err := tlsserver.StreamWriter{Response: c, Timeout: time.Minute}.Write(make([]byte, 3*tlsserver.ChunkSize))
	require.EqualError(t, err, "gone")
	require.Equal(t, tlsserver.ChunkSize, n)

	_, err = tlsserver.StreamWriter{Response: httptest.NewRecorder(), Timeout: time.Minute}.Write([]byte("x"))
	require.ErrorIs(t, err, http.ErrNotSupported)
}

func TestErrorLog(t *testing.T) {
	log, hook := logtest.NewNullLogger()
	tlsserver.ErrorLog(log, logrus.WarnLevel, "request failed").Print("too slow")
	require.Len(t, hook.Entries, 1)
	require.Equal(t, logrus.WarnLevel, hook.LastEntry().Level)
	require.Equal(t, "request failed", hook.LastEntry().Message)
	require.Equal(t, logrus.Fields{"err": "too slow\n", "count": 1}, hook.LastEntry().Data)
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

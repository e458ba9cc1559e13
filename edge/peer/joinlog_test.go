package peer

import (
	"bufio"
	"crypto/tls"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logrustest "github.com/sirupsen/logrus/hooks/test"
	"github.com/stretchr/testify/require"
)

// A client that guesses tokens needs a connection for each guess, and causes one line a second: 19,000 lines a second would fill the disk.
func TestRefusedTokensDoNotFillTheLog(t *testing.T) {
	n1 := newFounder(t)
	log, lines := logrustest.NewNullLogger()
	log.SetLevel(logrus.DebugLevel)
	listener, err := Listen("127.0.0.1:0", n1.credentials, ListenOptions{Log: log})
	require.NoError(t, err)
	n2 := serveNode(t, &node{dir: n1.dir, token: n1.token, credentials: n1.credentials, listener: listener, backend: &backend{}})
	begin := time.Now()
	for range 40 {
		c, err := tls.Dial("tcp", n2.address(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{string(ProtocolJoin)}})
		require.NoError(t, err)
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		answers := bufio.NewReader(c)
		for n := 0; ; n++ {
			_, err := io.WriteString(c, "POST "+joinPath+" HTTP/1.1\r\nHost: n1\r\nContent-Length: 2\r\n\r\n{}")
			if err == nil {
				var answer *http.Response
				if answer, err = http.ReadResponse(answers, nil); err == nil {
					require.Equal(t, http.StatusForbidden, answer.StatusCode)
					_, err = io.Copy(io.Discard, answer.Body)
					require.NoError(t, answer.Body.Close())
				}
			}
			if err != nil {
				require.Equal(t, 1, n, "a refusal ends the connection")
				break
			}
			require.Less(t, n, 10, "a refusal ends the connection")
		}
		c.Close()
	}
	require.LessOrEqual(t, len(lines.AllEntries()), 2+int(time.Since(begin)/time.Second))
	require.Eventually(t, func() bool {
		counted := 0
		for _, e := range lines.AllEntries() {
			if n, ok := e.Data["refused"].(int); ok {
				counted += n
			}
		}
		return counted == 40
	}, patience, time.Millisecond, "the lines count all of them")
}

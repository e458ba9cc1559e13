package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Programs without login and certificate write to all ports of a node what they like. Of each kind of line of these ports the log has one a second at most,
// even with all details switched on.
func TestClusterStrangersDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	var host string
	c := newClusterAt(t, loopback(t, 1), func(_ int, m *member) {
		var err error
		host, _, err = net.SplitHostPort(m.address)
		require.NoError(t, err)
		m.flags = []string{"--rapi-address", host + ":5080", "--mond-address", host + ":1815", "--confd-address", host + ":1814", "--log-level", "debug"}
	})
	m := c.nodes[0]
	request := func(head, body string) string {
		return fmt.Sprintf("%s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n%s\r\n%s", head, host, len(body), "Content-Type: application/x-www-form-urlencoded\r\n", body)
	}
	wrongLogin := func(path string) string {
		return strings.Replace(request("GET "+path, ""), "\r\nContent-Length", "\r\nAuthorization: Basic YTpi\r\nContent-Length", 1)
	}
	garbage := "\x16\x03\x01\xff\xff garbage\n\n"
	doors := []struct {
		network, port, protocol string // with a protocol: over TLS
		text                    string
	}{
		{"tcp", ":5080", "", garbage}, {"tcp", ":5080", "", wrongLogin("/2/jobs")}, {"tcp", ":5080", "", request("POST /ui/login", "name=a&password=b")},
		{"tcp", ":5080", "", request("POST /ui/open", "token="+strings.Repeat("A", 43))}, {"tcp", ":5080", "", request("GET /ui/jobs", "")},
		{"tcp", ":1815", "", garbage}, {"tcp", ":1815", "", wrongLogin("/1/report/all")}, {"tcp", ":1815", "", request("GET /1/x", "")},
		{"tcp", ":7400", "", garbage}, {"tcp", ":7400", "lockstep-raft", garbage}, {"tcp", ":7400", "lockstep-join", request("POST /v1/join", "{}")},
		{"tcp", ":7400", "lockstep-join", request("GET /v1/about", "")}, {"udp", ":1814", "", garbage}, {"udp", ":1814", "", "plj0{}"},
	}
	for _, url := range []string{"http://" + host + ":5080/healthz", "http://" + host + ":1815/healthz"} {
		for name, code := range map[string]int{"localhost": http.StatusOK, "evil.example": http.StatusForbidden} { // a page whose name leads to loopback
			r, err := http.NewRequest(http.MethodGet, url, nil)
			require.NoError(t, err)
			r.Host = name
			answer, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			require.Equal(t, code, answer.StatusCode, "%s as %s", url, name)
		}
	}
	begin := time.Now()
	var strangers sync.WaitGroup
	for _, d := range doors {
		strangers.Go(func() {
			for range 40 {
				var s net.Conn
				var err error
				if s, err = net.Dial(d.network, host+d.port); err != nil {
					continue
				}
				_ = s.SetDeadline(time.Now().Add(patience))
				if d.protocol != "" {
					s = tls.Client(s, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{d.protocol}})
				}
				_, _ = io.WriteString(s, d.text+d.text)
				if stream, ok := s.(interface{ CloseWrite() error }); ok {
					_ = stream.CloseWrite()
					_, _ = io.Copy(io.Discard, s)
				}
				s.Close()
			}
		})
	}
	strangers.Wait()
	lines := map[string]int{}
	for line := range strings.Lines(m.logged()) {
		for _, of := range []string{"remote API:", "console:", "MonD:", "configuration queries:", "port of nodes:", "join "} {
			if at := strings.Index(line, of); at >= 0 {
				message, _, _ := strings.Cut(line[at:], `"`)
				lines[message]++
			}
		}
	}
	for _, message := range []string{"remote API: login failed", "port of nodes: connection refused", "join request refused"} {
		require.NotZero(t, lines[message], message)
	}
	for message, n := range lines {
		require.LessOrEqual(t, n, 3+int(time.Since(begin)/time.Second), "%s", message)
	}
}

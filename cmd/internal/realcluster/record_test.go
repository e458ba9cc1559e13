//go:build linux

package realcluster

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// exchange is a request and its answer, a line of a recording.
type exchange struct {
	At      float64         `json:"at"`   // of the answer, in seconds since the first line
	To      string          `json:"to"`   // luxid or wconfd
	From    string          `json:"from"` // program
	Conn    int             `json:"conn"` // number of the connection
	Request json.RawMessage `json:"request"`
	Answer  json.RawMessage `json:"answer,omitempty"`
	Same    bool            `json:"same,omitempty"` // the answer is that of the last exchange with the same request
}

// recorder stands between clients and the daemons of the master, and writes down all requests and answers, uncut.
type recorder struct {
	t       testing.TB
	started time.Time

	order map[string]*sync.Mutex // of a daemon; held from a request to its answer: the order of the lines is that of its work

	mu    sync.Mutex
	out   *json.Encoder
	last  map[string]string // answer by request
	lines int
	conns int
}

// record starts a recording to a gzipped file. The daemons must not be restarted until stop is called.
func (c *cluster) record(t *testing.T, path string) (stop func()) {
	file, err := os.Create(path)
	require.NoError(t, err)
	zip, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	require.NoError(t, err)
	buffered := bufio.NewWriter(zip)
	r := &recorder{t: t, started: time.Now(), out: json.NewEncoder(buffered), last: map[string]string{},
		order: map[string]*sync.Mutex{"luxid": {}, "wconfd": {}}}
	r.out.SetEscapeHTML(false)
	var listeners []net.Listener
	for socket, daemon := range map[string]string{"ganeti-query": "luxid", "ganeti-wconfd": "wconfd"} {
		listeners = append(listeners, r.stand(c.nodes[0].Path("run/ganeti/socket"), socket, daemon))
	}
	return sync.OnceFunc(func() {
		for _, l := range listeners {
			_ = l.Close()
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for socket := range map[string]string{"ganeti-query": "", "ganeti-wconfd": ""} {
			dir := c.nodes[0].Path("run/ganeti/socket")
			require.NoError(t, os.Rename(filepath.Join(dir, socket+".daemon"), filepath.Join(dir, socket)))
		}
		require.NoError(t, buffered.Flush())
		require.NoError(t, zip.Close())
		require.NoError(t, file.Close())
		t.Logf("%d exchanges of %d connections are in %s", r.lines, r.conns, path)
	})
}

// stand takes the place of a socket, with its owner and mode.
func (r *recorder) stand(dir, socket, daemon string) net.Listener {
	path, real := filepath.Join(dir, socket), filepath.Join(dir, socket+".daemon")
	info, err := os.Stat(path)
	require.NoError(r.t, err)
	require.NoError(r.t, os.Rename(path, real))
	l, err := net.Listen("unix", path)
	require.NoError(r.t, err)
	owner := info.Sys().(*syscall.Stat_t)
	require.NoError(r.t, os.Chown(path, int(owner.Uid), int(owner.Gid)))
	require.NoError(r.t, os.Chmod(path, info.Mode().Perm()))
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go r.serve(conn.(*net.UnixConn), real, daemon)
		}
	}()
	return l
}

// endOfMessage ends each request and each answer.
const endOfMessage = 3

func (r *recorder) serve(client *net.UnixConn, real, daemon string) {
	defer client.Close()
	server, err := net.Dial("unix", real)
	if err != nil {
		return
	}
	defer server.Close()
	from := program(client)
	r.mu.Lock()
	r.conns++
	conn := r.conns
	r.mu.Unlock()
	requests, answers := bufio.NewReader(client), bufio.NewReader(server)
	for {
		request, err := requests.ReadBytes(endOfMessage)
		if err != nil {
			return
		}
		answer, err := r.exchange(server, answers, exchange{To: daemon, From: from, Conn: conn, Request: bytes.TrimSuffix(request, []byte{endOfMessage})})
		if err != nil {
			return
		}
		if _, err := client.Write(answer); err != nil {
			return
		}
	}
}

// exchange sends the request of e to the daemon, writes it down with its answer, and returns the answer with its end.
func (r *recorder) exchange(server io.Writer, answers *bufio.Reader, e exchange) ([]byte, error) {
	if !bytes.Contains(e.Request, []byte(`"WaitForJobChange"`)) { // its answer comes after those of other requests
		r.order[e.To].Lock()
		defer r.order[e.To].Unlock()
	}
	if _, err := server.Write(append(bytes.Clone(e.Request), endOfMessage)); err != nil {
		return nil, err
	}
	answer, err := answers.ReadBytes(endOfMessage)
	if err != nil {
		return nil, err
	}
	e.Answer = bytes.TrimSuffix(answer, []byte{endOfMessage})
	r.write(e)
	return answer, nil
}

func (r *recorder) write(e exchange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.At = time.Since(r.started).Round(time.Millisecond).Seconds()
	if request := string(e.Request); r.last[request] == string(e.Answer) {
		e.Answer, e.Same = nil, true
	} else {
		r.last[request] = string(e.Answer)
	}
	r.lines++
	if err := r.out.Encode(e); err != nil {
		r.t.Errorf("recording: %v", err)
	}
}

// program returns the name of the program at the other end of a connection.
func program(conn *net.UnixConn) string {
	raw, err := conn.SyscallConn()
	if err != nil {
		return ""
	}
	var peer *syscall.Ucred
	_ = raw.Control(func(fd uintptr) {
		peer, _ = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if peer == nil {
		return ""
	}
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", peer.Pid))
	for word := range strings.SplitSeq(string(line), "\x00") {
		switch name := filepath.Base(word); {
		case name == "exec.py":
			return "job"
		case strings.HasPrefix(name, "python"), name == ".", strings.HasPrefix(name, "-"):
		default:
			return name
		}
	}
	return ""
}

// Package nodedtest has a fake of Ganeti's node daemon for tests (noded.md). It serves HTTPS with the certificates and the
// client check of the real daemon, executes four procedures on files in memory, answers four others with what a test says,
// records each call, and can fail in many ways.
package nodedtest

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/noded"
)

// Fault is how the daemon treats calls.
type Fault int

// Faults.
const (
	None        Fault = iota
	Refuse            // answer an error without executing the procedure
	Nonsense          // answer text that is no JSON
	OtherShape        // answer JSON of another shape
	TooMuch           // answer without end
	Half              // execute, then close the connection in the middle of the answer
	Never             // execute, and do not answer until the daemon stops or the client leaves
	CloseBefore       // close the connection without executing
	CloseAfter        // execute, then close the connection without an answer
	BadStatus         // answer with status 500
	Silent            // accept connections and say nothing, not even in the TLS handshake
	Slow              // answer a byte each second
)

// Call is a recorded call.
type Call struct {
	Procedure noded.Procedure
	Body      []byte
	Client    string // digest of the client's certificate
}

// Daemon is a fake node daemon for tests: an HTTPS server with files in memory, which records its calls. Its methods may be called from
// any goroutine.
type Daemon struct {
	Name   string
	t      testing.TB
	mu     sync.Mutex
	cond   *sync.Cond
	server *Identity
	listen string // address with port; the port is set by the first Start
	http   *http.Server
	stop   chan struct{} // closed by Stop

	fault Fault
	held  chan struct{} // calls wait until it is closed; nil: they do not wait
	calls []Call
	pause time.Duration // that each call takes at least
	now   int           // calls in progress
	most  int           // the largest number of calls in progress
	files map[string]string
	says  map[noded.Procedure]string // results of procedures that only tell
	hands chan struct{}              // handshakes wait until it is closed; nil: they do not wait
}

// Start starts a fake node daemon for the node with a name. server is its certificate and key. The address has a port; with port 0 the
// kernel chooses one. The daemon stops at the end of the test.
func Start(t testing.TB, name, address string, server *Identity) *Daemon {
	t.Helper()
	d := &Daemon{Name: name, t: t, server: server, listen: address, files: map[string]string{}, says: map[noded.Procedure]string{}}
	d.cond = sync.NewCond(&d.mu)
	d.Restart()
	t.Cleanup(d.Stop)
	return d
}

// Restart starts the daemon after Stop, at the same address and with the same files.
func (d *Daemon) Restart() {
	d.t.Helper()
	raw, err := net.Listen("tcp", d.listen)
	require.NoError(d.t, err)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listen, d.stop = raw.Addr().String(), make(chan struct{})
	config := &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAnyClientCert, SessionTicketsDisabled: true,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			d.mu.Lock()
			hands, stop := d.hands, d.stop
			d.mu.Unlock()
			if hands != nil {
				select {
				case <-hands:
				case <-stop:
				}
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			return &d.server.Certificate, nil
		},
		VerifyConnection: d.verify}
	d.http = &http.Server{Handler: d, ErrorLog: log.New(io.Discard, "", 0)}
	d.http.SetKeepAlivesEnabled(false)
	go d.http.Serve(tls.NewListener(silenced{raw, d}, config)) //nolint:errcheck // it ends with Stop
}

// Stop ends the daemon and its connections. Connections are refused from then on.
func (d *Daemon) Stop() {
	d.mu.Lock()
	server, stop := d.http, d.stop
	d.http = nil
	d.mu.Unlock()
	if server != nil {
		close(stop)
		_ = server.Close() // the error of the listener has no meaning for a test
	}
}

// silenced accepts connections and keeps them from the server while the fault is Silent.
type silenced struct {
	net.Listener
	d *Daemon
}

func (l silenced) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		l.d.mu.Lock()
		silent, stop := l.d.fault == Silent, l.d.stop
		l.d.mu.Unlock()
		if !silent {
			return c, nil
		}
		go func() {
			<-stop
			c.Close()
		}()
	}
}

// verify is the client check of the real daemon (noded.md 1): without an ssconf file of certificates only the cluster's own is admitted.
func (d *Daemon) verify(state tls.ConnectionState) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	digest := digestOf(state.PeerCertificates[0].Raw)
	admitted := strings.TrimSpace(d.files[ssconfPath("master_candidates_certs")])
	if admitted == "" {
		if digest != d.server.Digest() {
			return errors.New("not the certificate of the cluster")
		}
		return nil
	}
	for line := range strings.Lines(admitted) {
		if _, of, _ := strings.Cut(strings.TrimSpace(line), "="); of == digest {
			return nil
		}
	}
	return errors.New("unknown client certificate")
}

// ServeHTTP is part of http.Handler. It records the call, and waits, refuses or fails as the test has arranged.
func (d *Daemon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	procedure := noded.Procedure(strings.TrimPrefix(r.URL.Path, "/"))
	if r.Method != http.MethodPost || r.ContentLength < 0 {
		abort()
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		abort()
	}
	fault, held, stop := d.begin(Call{procedure, body, digestOf(r.TLS.PeerCertificates[0].Raw)})
	defer d.end()
	if held != nil {
		select {
		case <-held:
		case <-stop:
			abort()
		case <-r.Context().Done():
			abort()
		}
	}
	time.Sleep(d.pauseOf())
	answer := []byte(`[false, "injected refusal"]`)
	if fault == CloseBefore {
		abort()
	}
	if fault != Refuse {
		answer = d.execute(procedure, body)
	}
	d.answer(w, r, fault, append(answer, '\n'), stop)
}

func (d *Daemon) pauseOf() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pause
}

// abort closes the connection without an answer.
func abort() { panic(http.ErrAbortHandler) }

func (d *Daemon) begin(c Call) (Fault, chan struct{}, chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, c)
	d.now++
	d.most = max(d.most, d.now)
	d.cond.Broadcast()
	return d.fault, d.held, d.stop
}

func (d *Daemon) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now--
	d.cond.Broadcast()
}

func (d *Daemon) answer(w http.ResponseWriter, r *http.Request, fault Fault, answer []byte, stop chan struct{}) {
	switch fault {
	case CloseAfter:
		abort()
	case Never:
		select {
		case <-stop:
		case <-r.Context().Done():
		}
		abort()
	case Nonsense:
		answer = []byte("<html>no JSON</html>")
	case OtherShape:
		answer = []byte(`{"result": null}`)
	case BadStatus:
		w.WriteHeader(http.StatusInternalServerError)
	case TooMuch:
		for chunk := []byte(strings.Repeat(" ", 64<<10)); ; {
			if _, err := w.Write(chunk); err != nil {
				abort()
			}
		}
	case Slow:
		for i := range answer {
			_, _ = w.Write(answer[i : i+1])
			_ = http.NewResponseController(w).Flush()
			select {
			case <-time.After(time.Second):
			case <-stop:
				abort()
			case <-r.Context().Done():
				abort()
			}
		}
		return
	case Half:
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write(answer)
		_ = http.NewResponseController(w).Flush()
		abort()
	}
	_, _ = w.Write(answer)
}

// execute carries out a procedure and returns the answer: [true, result], or [false, text].
func (d *Daemon) execute(p noded.Procedure, body []byte) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.cond.Broadcast()
	result, err := d.dispatch(p, body)
	pair := []any{true, result}
	if err != nil {
		pair = []any{false, err.Error()}
	}
	answer, err := json.Marshal(pair)
	if err != nil {
		panic(err)
	}
	return answer
}

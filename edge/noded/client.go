// Package noded is the client of Ganeti's node daemon (noded.md). It owns the connections to node daemons.
//
// A Client makes a call over HTTPS and returns the result of the procedure. It accepts exactly the certificate of server.pem,
// shows the certificate of client.pem, and reads both files for each call. It limits the number of calls in progress, the time
// of a call and the size of an answer. It makes no call of a node that is marked offline. Calls of one procedure of one node
// are made one after the other, so that a later call never overtakes an earlier one. Nothing survives a crash: the caller makes
// the call again.
package noded

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"lockstep/core/noded"
	"lockstep/core/paths"
)

// headerMax bounds the header of an answer, in bytes.
const headerMax = 64 << 10

// Config has the certificates with which a Client calls node daemons, and their port.
type Config struct {
	ServerPEM string // path of the cluster's certificate and key
	ClientPEM string // path of this node's certificate and key; without the file ServerPEM is used
	Port      int    // of all node daemons
}

// ConfigOf returns the port and the certificates that a daemon with that data directory uses.
func ConfigOf(dataDir string) Config {
	return Config{
		Port:      Port(),
		ServerPEM: filepath.Join(dataDir, paths.GanetiCertificatePath),
		ClientPEM: filepath.Join(dataDir, paths.GanetiClientCertificatePath),
	}
}

// Port returns the port of node daemons: that of the services database, or the default.
func Port() int {
	if port, err := net.LookupPort("tcp", noded.Service); err == nil {
		return port
	}
	return noded.DefaultPort
}

// CallError is the error of a call of a node daemon: it names the node and the procedure.
type CallError struct {
	Node      string // name
	Procedure noded.Procedure
	Err       error // ErrOffline, *noded.RefusedError, an error of the context, or any other cause
}

func (e *CallError) Error() string {
	return fmt.Sprintf("%s of node %s: %v", e.Procedure, e.Node, e.Err)
}

// Unwrap returns the cause, for errors.As.
func (e *CallError) Unwrap() error { return e.Err }

// ErrOffline reports a call of a node that is marked offline. The node was not contacted.
var ErrOffline = errors.New("the node is marked offline")

// errNoAnswer reports a closed connection. The node daemon may have executed the procedure.
var errNoAnswer = errors.New("the node daemon closed the connection without an answer")

// Client calls the node daemons of other nodes by HTTPS (noded.md 2). Its methods may be called from any goroutine.
type Client struct {
	config         Config
	connectTimeout time.Duration // for the connection and the TLS handshake
	limits         func(noded.Procedure) noded.Limits
	slots          chan struct{} // one element per call in progress
	turns          turns
}

// NewClient returns a client. It reads no file before the first call.
func NewClient(c Config) *Client {
	return &Client{config: c, connectTimeout: noded.ConnectTimeout, limits: noded.Procedure.Limits,
		slots: make(chan struct{}, noded.ParallelMax)}
}

// Call makes a call and returns the result of the procedure. An error is a *CallError. After an error other than ErrOffline and
// *noded.RefusedError the node daemon may have executed the procedure.
func (c *Client) Call(ctx context.Context, node noded.Node, r noded.Request) (json.RawMessage, error) {
	return c.callInTurn(ctx, c.turns.take(turnKey{node.Address, r.Procedure}), node, r)
}

// callInTurn makes a call in its turn, and ends the turn.
func (c *Client) callInTurn(ctx context.Context, t turn, node noded.Node, r noded.Request) (json.RawMessage, error) {
	defer t.end()
	result, err := c.call(ctx, t, node, r)
	if err != nil {
		return nil, &CallError{node.Name, r.Procedure, err}
	}
	return result, nil
}

// UploadFile replaces a file of a node.
func (c *Client) UploadFile(ctx context.Context, node noded.Node, f noded.File) error {
	return c.callVoid(ctx, node, f.Request())
}

// WriteSsconf writes the ssconf files of a node. It leaves out the keys whose values are too long and returns them.
func (c *Client) WriteSsconf(ctx context.Context, node noded.Node, values map[string][]string) (tooLong []string, err error) {
	r, tooLong := noded.Ssconf(values)
	return tooLong, c.callVoid(ctx, node, r)
}

// Verify asks a node for facts about itself.
func (c *Client) Verify(ctx context.Context, node noded.Node, v noded.Verify) (noded.Verification, error) {
	return decoded(c, ctx, node, v.Request(), v.DecodeVerification)
}

// MasterName asks a node for the name of the master in its ssconf files.
func (c *Client) MasterName(ctx context.Context, node noded.Node) (string, error) {
	return decoded(c, ctx, node, noded.AskMasterName(), noded.DecodeMasterName)
}

func (c *Client) callVoid(ctx context.Context, node noded.Node, r noded.Request) error {
	_, err := decoded(c, ctx, node, r, func(raw json.RawMessage) (struct{}, error) { return struct{}{}, noded.DecodeVoid(raw) })
	return err
}

func decoded[T any](c *Client, ctx context.Context, node noded.Node, r noded.Request, decode func(json.RawMessage) (T, error)) (T, error) {
	var zero T
	raw, err := c.Call(ctx, node, r)
	if err != nil {
		return zero, err
	}
	result, err := decode(raw)
	if err != nil {
		return zero, &CallError{node.Name, r.Procedure, err}
	}
	return result, nil
}

// call waits for its turn and for a slot, and then makes the call. The time limit begins after that.
func (c *Client) call(ctx context.Context, t turn, node noded.Node, r noded.Request) (json.RawMessage, error) {
	if node.Offline {
		return nil, ErrOffline
	}
	if err := t.wait(ctx); err != nil {
		return nil, err
	}
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-c.slots }()

	return c.callNow(ctx, node, r)
}

// callNow makes a call to a node's daemon at once, without waiting for a turn and a slot, and returns the result of the procedure.
func (c *Client) callNow(ctx context.Context, node noded.Node, r noded.Request) (json.RawMessage, error) {
	limits := c.limits(r.Procedure)
	limited, cancel := context.WithTimeout(ctx, c.connectTimeout+limits.Time)
	defer cancel()
	answer, err := c.exchange(limited, node.Address, r, limits.Answer)
	if err != nil {
		if limited.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("no answer within %v: %w", limits.Time, context.DeadlineExceeded)
		}
		return nil, err
	}
	return noded.DecodeAnswer(answer)
}

// exchange sends a request over a new connection and returns the body of the answer.
func (c *Client) exchange(ctx context.Context, address string, r noded.Request, answerMax int64) ([]byte, error) {
	credentials, err := readCredentials(c.config.ServerPEM, c.config.ClientPEM)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return credentials.dial(ctx, c.connectTimeout, network, address)
		},
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: headerMax,
	}
	target := url.URL{Scheme: "https", Host: net.JoinHostPort(address, strconv.Itoa(c.config.Port)), Path: "/" + string(r.Procedure)}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), bytes.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, explain(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the node daemon answers with status %d", response.StatusCode)
	}
	answer, err := io.ReadAll(io.LimitReader(response.Body, answerMax+1))
	if err != nil {
		return nil, fmt.Errorf("the answer is incomplete: %w", explain(err))
	}
	if int64(len(answer)) > answerMax {
		return nil, fmt.Errorf("the answer is longer than %d bytes", answerMax)
	}
	return answer, nil
}

// explain returns an error of the connection with what it means for an operator, if that is known.
func explain(err error) error {
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "remote error": // an alert of TLS
		return fmt.Errorf("the node daemon refuses the client certificate, which must be in its ssconf_master_candidates_certs: %w", err)
	case errors.Is(err, io.EOF):
		return errNoAnswer
	}
	return err
}

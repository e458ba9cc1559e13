package main

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"lockstep/core/wire"
)

// fakeDaemon listens on a socket and passes each request to the script.
type fakeDaemon struct {
	path     string
	requests chan *exchange

	lock     sync.Mutex
	listener net.Listener
	conns    []net.Conn
	serving  sync.WaitGroup
	stopped  chan struct{} // closed while down
}

// exchange is one request; answer receives the payload of its answer, or nil to hang up.
type exchange struct {
	method string
	args   string
	answer chan []byte
}

func (e *exchange) String() string { return "> " + e.method + " " + e.args }

func newFakeDaemon(t *testing.T, path string) *fakeDaemon {
	t.Helper()
	d := &fakeDaemon{path: path, requests: make(chan *exchange)}
	if err := d.up(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.down)
	return d
}

func (d *fakeDaemon) up() error {
	listener, err := net.Listen("unix", d.path)
	if err != nil {
		return err
	}
	d.lock.Lock()
	defer d.lock.Unlock()
	d.listener = listener
	d.stopped = make(chan struct{})
	stopped := d.stopped
	d.serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			d.lock.Lock()
			down := d.listener != listener
			if down {
				conn.Close()
			} else {
				d.conns = append(d.conns, conn)
			}
			d.lock.Unlock()
			if down {
				return
			}
			d.serving.Go(func() { d.serve(conn, stopped) })
		}
	})
	return nil
}

// down returns when no request is served. It may be called again while down.
func (d *fakeDaemon) down() {
	d.lock.Lock()
	if d.listener != nil {
		d.listener.Close()
		close(d.stopped)
		d.listener = nil
	}
	for _, conn := range d.conns {
		conn.Close()
	}
	d.conns = nil
	d.lock.Unlock()
	d.serving.Wait()
}

func (d *fakeDaemon) serve(conn net.Conn, stopped <-chan struct{}) {
	defer conn.Close()
	reader := wire.NewReader(conn, wire.MaxFrame)
	for {
		frame, err := reader.ReadFrame()
		if err != nil {
			return
		}
		request, err := wire.DecodeRequest(frame)
		if err != nil {
			panic(err)
		}
		args, err := json.Marshal(request.Args)
		if err != nil {
			panic(err)
		}
		e := &exchange{request.Method, string(args), make(chan []byte, 1)}
		select {
		case d.requests <- e:
		case <-stopped:
			return
		}
		select {
		case payload := <-e.answer:
			if payload == nil || wire.WriteFrame(conn, payload) != nil {
				return
			}
		case <-stopped:
			return
		}
	}
}

// encodeAnswer is the payload for a step of a script.
func encodeAnswer(verb, rest string) []byte {
	switch verb {
	case "<":
		payload, err := wire.EncodeResult(json.RawMessage(rest))
		if err != nil {
			panic(fmt.Sprintf("script: < %s: %v", rest, err))
		}
		return payload
	case "<!":
		class, args, _ := strings.Cut(rest, " ")
		var list []any
		if err := json.Unmarshal([]byte(args), &list); err != nil {
			panic(fmt.Sprintf("script: <! %s: %v", rest, err))
		}
		return wire.EncodeError(class, list...)
	case "<-":
		return wire.EncodeParseError(rest)
	}
	return nil // hang up
}

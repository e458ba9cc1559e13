package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"lockstep/core/outflow"
	"lockstep/core/wire"
	"lockstep/edge/outputs/end"
	"lockstep/persistence"
)

// fakeDaemon listens on a socket and passes each request to the script. At its socket for output no job has a process, and nothing is kept.
type fakeDaemon struct {
	path     string
	requests chan *exchange

	lock     sync.Mutex
	listener net.Listener
	outputs  net.Listener
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
	outputs, err := net.Listen("unix", filepath.Join(filepath.Dir(d.path), persistence.OutputSocket))
	if err != nil {
		return err
	}
	listener, err := net.Listen("unix", d.path)
	if err != nil {
		return errors.Join(err, outputs.Close())
	}
	d.lock.Lock()
	defer d.lock.Unlock()
	d.listener, d.outputs = listener, outputs
	d.stopped = make(chan struct{})
	stopped := d.stopped
	d.serving.Go(func() { d.accept(listener, stopped, func(conn net.Conn) { d.serve(conn, stopped) }) })
	d.serving.Go(func() { d.accept(outputs, stopped, serveOutput) })
	return nil
}

// accept serves the connections of a listener until it is closed.
func (d *fakeDaemon) accept(listener net.Listener, stopped chan struct{}, serve func(net.Conn)) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		d.lock.Lock()
		down := d.stopped != stopped || d.listener == nil
		if down {
			conn.Close()
		} else {
			d.conns = append(d.conns, conn)
		}
		d.lock.Unlock()
		if down {
			return
		}
		d.serving.Go(func() { serve(conn) })
	}
}

// serveOutput tells who asks for kept output that there is none, and lets other readers wait for the process of the job.
func serveOutput(conn net.Conn) {
	defer conn.Close()
	reader := bufio.NewReader(conn)
	line, err := reader.ReadBytes('\n')
	var hello end.Hello
	if err != nil || json.Unmarshal(line, &hello) != nil {
		return
	}
	if hello.Kept != nil {
		f := outflow.Frame{At: outflow.Position{Stdout: hello.Kept.From}}
		if hello.Kept.Stream == outflow.Stderr {
			f.At = outflow.Position{Stderr: hello.Kept.From}
		}
		_, _ = conn.Write(f.AppendHeader(nil))
	}
	_, _ = reader.ReadByte() // until the reader or the daemon has ended
}

// down returns when no request is served. It may be called again while down.
func (d *fakeDaemon) down() {
	d.lock.Lock()
	if d.listener != nil {
		d.listener.Close()
		d.outputs.Close()
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

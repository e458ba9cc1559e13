package luxiclient

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockstep/core/wire"
)

// socketPath returns a path that is short enough for a socket, in a new directory.
func socketPath(t *testing.T) string {
	t.Helper()
	directory, err := os.MkdirTemp("", "wire")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(directory) })
	return filepath.Join(directory, "s")
}

// serve accepts one connection and answers each request with what reply returns; a
// nil answer closes the connection.
func serve(t *testing.T, path string, reply func(wire.Request) []byte) {
	t.Helper()
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { listener.Close(); <-done })
	go func() {
		defer close(done)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		reader := wire.NewReader(conn, wire.MaxFrame)
		for {
			frame, err := reader.ReadFrame()
			if err != nil {
				return
			}
			request, err := wire.DecodeRequest(frame)
			if err != nil {
				t.Error(err)
			}
			payload := reply(request)
			if payload == nil || wire.WriteFrame(conn, payload) != nil {
				return
			}
		}
	}()
}

func dial(t *testing.T, path string, options Options) *Client {
	t.Helper()
	client, err := Dial(context.Background(), path, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func TestCall(t *testing.T) {
	path := socketPath(t)
	serve(t, path, func(r wire.Request) []byte {
		switch r.Method {
		case "Echo":
			payload, err := wire.EncodeResult(r.Args)
			if err != nil {
				t.Error(err)
			}
			return payload
		case "Fail":
			return wire.EncodeError("JobLost", "gone")
		default:
			return wire.EncodeParseError("Failed to parse request: no")
		}
	})
	client := dial(t, path, Options{})
	long := strings.Repeat("x", 1<<20)
	for range 3 {
		var got []string
		if err := client.Call(context.Background(), "Echo", []any{"a", long}, &got); err != nil {
			t.Fatal(err)
		}
		if len(got) != 2 || got[0] != "a" || got[1] != long {
			t.Fatal("the echo differs")
		}
		var failed *wire.Error
		if err := client.Call(context.Background(), "Fail", nil, nil); !errors.As(err, &failed) || failed.Class != "JobLost" {
			t.Fatal(err)
		}
		var number int
		var malformed *wire.MalformedResponse
		if err := client.Call(context.Background(), "Echo", nil, &number); !errors.As(err, &malformed) {
			t.Fatal(err)
		}
	}
	var refused *wire.RequestError
	if err := client.Call(context.Background(), "Nope", nil, nil); !errors.As(err, &refused) {
		t.Fatal(err)
	}
	expectLost(t, client.Call(context.Background(), "Echo", nil, nil), false, ErrClosed)
}

func expectLost(t *testing.T, err error, sent bool, cause error) {
	t.Helper()
	var lost *ConnectionLostError
	if !errors.As(err, &lost) || lost.Sent != sent || !errors.Is(err, cause) {
		t.Fatalf("error %v (%#v), want a lost connection, sent %v, cause %v", err, err, sent, cause)
	}
}

func TestCallWithoutAnswer(t *testing.T) {
	path := socketPath(t)
	serve(t, path, func(wire.Request) []byte { return nil })
	client := dial(t, path, Options{})
	expectLost(t, client.Call(context.Background(), "SubmitJob", nil, nil), true, io.EOF)
	expectLost(t, client.Call(context.Background(), "SubmitJob", nil, nil), false, ErrClosed)
}

func TestCallIsCanceledWhileWaiting(t *testing.T) {
	path := socketPath(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	ended := make(chan struct{})
	defer close(ended)
	serve(t, path, func(wire.Request) []byte {
		cancel(io.ErrClosedPipe) // an error that the test recognises
		<-ended
		return nil
	})
	client := dial(t, path, Options{})
	expectLost(t, client.Call(ctx, "WaitForJobChange", nil, nil), true, io.ErrClosedPipe)

	canceled, stop := context.WithCancel(context.Background())
	stop()
	other := NewClient(nil, Options{})
	if _, sent, err := other.exchange(canceled, nil); sent || !errors.Is(err, context.Canceled) {
		t.Fatalf("with a context that has ended: sent %v, %v", sent, err)
	}
}

func TestCallTimesOut(t *testing.T) {
	path := socketPath(t)
	ended := make(chan struct{})
	defer close(ended)
	serve(t, path, func(wire.Request) []byte { <-ended; return nil })
	client := dial(t, path, Options{AnswerTimeout: time.Millisecond})
	expectLost(t, client.Call(context.Background(), "A", nil, nil), true, ErrNoAnswer)
}

// A call whose context ends at the moment of its answer must not affect the next call.
func TestCancelAfterTheAnswerLeavesNoDeadline(t *testing.T) {
	path := socketPath(t)
	serve(t, path, func(wire.Request) []byte { return wire.EncodeError("A") })
	client := dial(t, path, Options{})
	for range 200 {
		ctx, cancel := context.WithCancel(context.Background())
		go cancel()
		err := client.Call(ctx, "A", nil, nil)
		var failed *wire.Error
		if errors.As(err, &failed) {
			if err := client.Call(context.Background(), "A", nil, nil); !errors.As(err, &failed) {
				t.Fatal(err)
			}
			continue
		}
		return // the cancellation was faster, the connection is gone
	}
}

func TestDialWithoutDaemon(t *testing.T) {
	path := socketPath(t)
	expectNoDaemon(t, path, syscall.ENOENT)

	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	listener.Close()
	expectNoDaemon(t, path, syscall.ECONNREFUSED)
	expectNoDaemon(t, strings.Repeat("x", 200), syscall.ENAMETOOLONG)
}

func expectNoDaemon(t *testing.T, path string, cause error) {
	t.Helper()
	_, err := Dial(context.Background(), path, Options{})
	var none *NoDaemonError
	if !errors.As(err, &none) || none.Path != path || !errors.Is(err, cause) {
		t.Fatalf("error %v, want no daemon because of %v", err, cause)
	}
}

// A full backlog does not mean that no daemon listens: the client retries until its time is up.
func TestDialWaitsForAFullBacklog(t *testing.T) {
	path := socketPath(t)
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	for range 10 { // the kernel takes one or two
		client, err := Dial(context.Background(), path, Options{ConnectTimeout: time.Millisecond})
		if err == nil {
			defer client.Close()
			continue
		}
		if !errors.Is(err, ErrNoAnswer) {
			t.Fatal(err)
		}
		return
	}
	t.Fatal("the backlog never filled")
}

func TestCloseWakesACall(t *testing.T) {
	path := socketPath(t)
	ended := make(chan struct{})
	defer close(ended)
	received := make(chan struct{})
	serve(t, path, func(wire.Request) []byte { close(received); <-ended; return nil })
	client := dial(t, path, Options{})
	go func() {
		<-received
		client.Close()
	}()
	expectLost(t, client.Call(context.Background(), "A", nil, nil), true, os.ErrClosed)
	if err := client.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
}

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/core/wire"
	"lockstep/edge/luxiclient"
)

// newEchoCommand is the hidden command that serves a socket, in a separate process as the daemon does: it answers with as many bytes as a
// request asks for.
func newEchoCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "echo SOCKET",
		Short:  "Answer each request with as many bytes as it asks for",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			listener, err := net.Listen("unix", args[0])
			if err != nil {
				return err
			}
			fmt.Fprintln(c.OutOrStdout(), "listening")
			conn, err := listener.Accept()
			if err != nil {
				return err
			}
			return answerAll(conn)
		},
	}
}

func answerAll(conn net.Conn) error {
	defer conn.Close()
	reader := wire.NewReader(conn, wire.MaxFrame)
	var answer []byte // of the last size: the limit is that of the socket, not of making the bytes
	last := -1
	for {
		frame, err := reader.ReadFrame()
		if err != nil {
			return nil // the client has disconnected
		}
		request, err := wire.DecodeRequest(frame)
		if err != nil {
			return err
		}
		var size int
		if len(request.Args) != 1 || json.Unmarshal(request.Args[0], &size) != nil {
			return errors.New("want a number of bytes")
		}
		if size != last {
			answer = wire.AppendResult(make([]byte, 0, size+64))
			answer = append(append(append(answer, '"'), strings.Repeat("x", size)...), '"')
			answer, last = wire.CloseResult(answer), size
		}
		if err := wire.WriteFrame(conn, answer); err != nil {
			return nil
		}
	}
}

// echo is an echo process, with a connection to it.
type echo struct {
	client
	cmd *exec.Cmd
}

// startEcho starts an echo process and connects to it. The caller stops it.
func (b *bench) startEcho() (*echo, error) {
	path := b.newDir()
	cmd := exec.Command(b.self, "echo", path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	e := &echo{cmd: cmd}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		e.stop()
		return nil, fmt.Errorf("%s does not listen: %w", filepath.Base(b.self), err)
	}
	connection, err := luxiclient.Dial(b.ctx, path, luxiclient.Options{AnswerTimeout: waitMax, MaxFrame: 256 << 20})
	if err != nil {
		e.stop()
		return nil, err
	}
	e.client = client{ctx: b.ctx, luxi: connection}
	return e, nil
}

// roundTrip makes one request with an answer of the given number of bytes.
func (e *echo) roundTrip(size int) error {
	var answer json.RawMessage
	return e.call(&answer, "Echo", size)
}

func (e *echo) stop() {
	if e.luxi != nil {
		e.close()
	}
	_ = e.cmd.Process.Kill()
	_ = e.cmd.Wait() // killed, or its client has disconnected
}

package socket

import (
	"bytes"
	"fmt"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/wire"
)

// An answer in parts arrives as one frame, also with more parts than one system call takes. The parts do not change.
func TestAFrameInParts(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	defer listener.Close()
	var parts [][]byte
	for i := range 3000 {
		parts = append(parts, fmt.Appendf(nil, "%d,", i))
	}
	want := string(bytes.Join(parts, nil))
	written := make(chan error, 1)
	go func() {
		c, err := net.Dial("unix", listener.Addr().String())
		for range 2 {
			if err == nil {
				err = writeFrame(c, parts)
			}
		}
		if err == nil {
			err = writeFrame(c, [][]byte{[]byte("one")})
		}
		written <- err
	}()
	server, err := listener.Accept()
	require.NoError(t, err)
	defer server.Close()
	reader := wire.NewReader(server, 1<<20)
	for _, want := range []string{want, want, "one"} {
		frame, err := reader.ReadFrame()
		require.NoError(t, err)
		require.Equal(t, want, string(frame))
	}
	require.NoError(t, <-written)
}

package main

import (
	"context"
	"encoding/json"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkLine measures the time from the moment that a command writes a line of output until
// a waiting client has the line. The command writes a line when the client has seen the
// previous one.
func BenchmarkLine(b *testing.B) {
	d := newDaemon(b)
	d.start()
	c := d.dial()
	pipe := d.path("pipe")
	require.NoError(b, syscall.Mkfifo(pipe, 0o600))
	id := c.submit(command("sh", "-c", "while read line; do echo $line; done < "+pipe))
	file, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	require.NoError(b, err)
	c.awaitStatus(id, "running")
	serial := 0
	for b.Loop() {
		_, err := file.WriteString("x\n")
		require.NoError(b, err)
		var change [2]json.RawMessage
		require.NoError(b, c.Call(context.Background(), "WaitForJobChange", []any{id, []string{"id"}, []int64{id}, serial, 30}, &change))
		var entries [][]any
		require.NoError(b, json.Unmarshal(change[1], &entries))
		serial = int(entries[len(entries)-1][0].(float64))
	}
	require.NoError(b, file.Close())
	c.await(id)
}

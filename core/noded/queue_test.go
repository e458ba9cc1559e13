package noded

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The requests are those that a real master sends (noded.md 2 and 5).
func TestQueueRequests(t *testing.T) {
	serial := QueueFile{Path: DataDir + "queue/serial", Content: []byte("7003\n")}.Request()
	require.Equal(t, UpdateQueueFile, serial.Procedure)
	require.Equal(t, `["/var/lib/ganeti/queue/serial",[0,"7003\n"]]`, string(serial.Body))
	require.Equal(t, `[[["/a","/b"],["/c","/d"]]]`, string(RenameRequest([]Rename{{"/a", "/b"}, {"/c", "/d"}}).Body))
	require.Equal(t, "[true]", string(DrainRequest(true).Body))
	require.Equal(t, "[false]", string(DrainRequest(false).Body))
	require.Equal(t, "[1795327759]", string(PauseRequest(time.Unix(1795327759, 5)).Body))
	require.Equal(t, "[null]", string(PauseRequest(time.Time{}).Body))
}

func TestQueueFileRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := QueueFile{rapid.String().Draw(t, "path"), []byte(strings.Repeat(rapid.String().Draw(t, "content"), rapid.IntRange(1, 300).Draw(t, "times")))}
		got, err := DecodeQueueFile(f.Request().Body)
		require.NoError(t, err)
		require.Equal(t, f.Path, got.Path)
		require.Equal(t, string(f.Content), string(got.Content))
	})
}

func TestRenames(t *testing.T) {
	renames := []Rename{{"/a\"", "/b"}, {"/c", "/d"}}
	got, err := DecodeRenames(RenameRequest(renames).Body)
	require.NoError(t, err)
	require.Equal(t, renames, got)
	require.NoError(t, DecodeRenamed(json.RawMessage(`[null, null]`), 2))
	require.Error(t, DecodeRenamed(json.RawMessage(`[null]`), 2))
	require.Error(t, DecodeRenamed(json.RawMessage(`null`), 2))
	_, err = DecodeRenames([]byte(`[]`))
	require.Error(t, err)
	_, err = DecodeQueueFile([]byte(`["/a",[7,""]]`))
	require.Error(t, err)
}

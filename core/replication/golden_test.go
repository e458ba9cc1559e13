package replication_test

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/replication"
	"lockstep/messages"
)

// goldenLog has entries that a former version wrote, one a line. goldenFiles has the files of an empty node after them.
// Neither may ever change, because this version may apply a log of that version.
var (
	//go:embed testdata/log.golden
	goldenLog []byte
	//go:embed testdata/log.files.golden
	goldenFiles []byte
)

func TestALogOfAFormerVersionApplies(t *testing.T) {
	var want files
	require.NoError(t, json.Unmarshal(goldenFiles, &want))
	var entries []*messages.LogEntry
	for line := range bytes.Lines(goldenLog) {
		data, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(line)))
		require.NoError(t, err)
		e, err := messages.UnmarshalLogEntry(data)
		require.NoError(t, err)
		require.Equal(t, data, e.Marshal(), "fields are what they were")
		entries = append(entries, e)
	}
	other := replication.Applier{Node: "u9", Incarnation: "u9.1"}
	at, twice, one := files{}, files{}, files{}
	at.apply(other, entries)
	twice.apply(other, entries)
	twice.apply(other, entries)
	for _, e := range entries {
		one.apply(other, []*messages.LogEntry{e})
	}
	require.Equal(t, want, at)
	require.Equal(t, want, twice)
	require.Equal(t, want, one)
	require.Len(t, entries, 11)
}

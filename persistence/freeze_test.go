package persistence

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFreezeKeepsWhatIsReplacedAndArchived(t *testing.T) {
	data := t.TempDir()
	files, err := OpenFiles(data, own)
	require.NoError(t, err)
	defer files.Close()
	require.NoError(t, os.MkdirAll(filepath.Join(data, "queue"), 0o750))
	require.NoError(t, os.MkdirAll(filepath.Join(data, "audit"), 0o700))
	scratch := filepath.Join(data, "raft")
	require.NoError(t, os.Mkdir(scratch, 0o700))
	for name, content := range map[string]string{"queue/job-1": "one", "queue/job-2": "two", "config.data": "c", "queue/serial": "2\n", "queue/lockstep-1": "record", "locks.data": "not shared",
		"audit/audit-1": "first", "audit/audit-300": "second", "audit/other": "not shared",
		"config.journal": "of this node", "config.extra": "old"} {
		require.NoError(t, files.Replace("test", name, []byte(content)))
	}
	instead := func() (map[string][]byte, error) {
		return map[string][]byte{"queue/job-3": []byte("as it was"), "queue/job-9": []byte("none"), "config.data": []byte("as logged"),
			"config.extra": []byte("e"), "tempres.data": []byte("t")}, nil
	}
	require.NoError(t, files.Replace("test", "queue/job-3", []byte("ahead of the log")))
	frozen, err := Freeze(data, scratch, instead)
	require.NoError(t, err)
	require.NoError(t, files.Replace("test", "queue/job-1", []byte("changed")))
	require.NoError(t, files.Rename("test", "queue/job-2", "queue/archive/0/job-2"))

	got := map[string]string{}
	for _, f := range frozen.Files {
		r, err := frozen.Open(f.Path)
		require.NoError(t, err)
		content, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		require.EqualValues(t, len(content), f.Size)
		got[f.Path] = string(content)
	}
	require.Equal(t, map[string]string{"queue/job-1": "one", "queue/job-2": "two", "queue/job-3": "as it was", "config.data": "as logged",
		"config.extra": "e", "tempres.data": "t", "queue/serial": "2\n", "queue/lockstep-1": "record", "audit/audit-1": "first", "audit/audit-300": "second"}, got)
	names, err := SharedFiles(data)
	require.NoError(t, err)
	require.Equal(t, []string{"audit/audit-1", "audit/audit-300", "config.data", "config.extra", "queue/job-1", "queue/job-3", "queue/lockstep-1", "queue/serial"}, names)
	content, err := files.Read("test", "queue/job-3")
	require.NoError(t, err)
	require.Equal(t, "ahead of the log", string(content))
	require.NoError(t, frozen.Close())

	_, err = Freeze(data, scratch, func() (map[string][]byte, error) { return nil, errors.New("not known") })
	require.ErrorContains(t, err, "not known")
	left, err := os.ReadDir(scratch)
	require.NoError(t, err)
	require.Empty(t, left)
	_, err = Freeze(data, scratch, instead)
	require.NoError(t, err)
	require.NoError(t, SweepFrozen(scratch))
	left, err = os.ReadDir(scratch)
	require.NoError(t, err)
	require.Empty(t, left)

	sum, size, err := Digest(data, "queue/job-1")
	require.NoError(t, err)
	require.Len(t, sum, 64)
	require.EqualValues(t, 7, size)
}

package persistence

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/paths"
)

// newMember is a data directory whose queue and log hold the same id.
func newMember(t *testing.T) (dataDir string, files *OSFiles) {
	t.Helper()
	dir := t.TempDir()
	dataDir = filepath.Join(dir, "lib")
	require.NoError(t, MakeDirs(dataDir, filepath.Join(dir, "run"), filepath.Join(dir, "log"), own))
	require.NoError(t, os.Mkdir(filepath.Join(dataDir, "raft"), 0o700))
	files, err := OpenFiles(dataDir, own)
	require.NoError(t, err)
	t.Cleanup(func() { _ = files.Close() })
	_, err = InitQueue(files)
	require.NoError(t, err)
	require.NoError(t, MarkQueue(files, "one"))
	return dataDir, files
}

// After a power loss the serial of a member may be empty until its log is applied.
func TestAMemberDoesNotReadItsSerial(t *testing.T) {
	dataDir, files := newMember(t)
	require.NoError(t, os.WriteFile(filepath.Join(dataDir, paths.SerialPath), nil, 0o640))
	_, err := InitQueue(files)
	require.Error(t, err)
	require.NoError(t, InitMember(files))
	_, err = CheckQueueMark(files)
	require.NoError(t, err)
	content, err := os.ReadFile(filepath.Join(dataDir, paths.SerialPath))
	require.NoError(t, err)
	require.Empty(t, content)
}

func TestAMemberKnowsItsQueue(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, dataDir string)
		marked bool
		lost   string // "": the node may start
	}{
		"as it was": {change: func(*testing.T, string) {}, marked: true},
		"emptied, or its disk not mounted": {change: func(t *testing.T, dataDir string) {
			require.NoError(t, os.RemoveAll(filepath.Join(dataDir, "queue")))
			require.NoError(t, os.Mkdir(filepath.Join(dataDir, "queue"), 0o750))
		}, lost: "queue/member is missing"},
		"that of another node": {change: func(t *testing.T, dataDir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dataDir, "queue/member"), []byte("two\n"), 0o640))
		}, lost: "queue/member is not the one"},
		"without its serial": {change: func(t *testing.T, dataDir string) {
			require.NoError(t, os.Remove(filepath.Join(dataDir, "queue/serial")))
		}, lost: "queue/serial is missing"},
		"of an older version": {change: func(t *testing.T, dataDir string) {
			require.NoError(t, os.Remove(filepath.Join(dataDir, "queue/member")))
			require.NoError(t, os.Remove(filepath.Join(dataDir, "raft/queue")))
		}},
		"cut off while it was marked": {change: func(t *testing.T, dataDir string) {
			require.NoError(t, os.Remove(filepath.Join(dataDir, "raft/queue")))
		}},
		"of an older version, and emptied": {change: func(t *testing.T, dataDir string) {
			require.NoError(t, os.RemoveAll(filepath.Join(dataDir, "queue")))
			require.NoError(t, os.Mkdir(filepath.Join(dataDir, "queue"), 0o750))
			require.NoError(t, os.Remove(filepath.Join(dataDir, "raft/queue")))
		}, lost: "queue/serial is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			dataDir, files := newMember(t)
			c.change(t, dataDir)
			marked, err := CheckQueueMark(files)
			if c.lost != "" {
				var lost *LostQueueError
				require.ErrorAs(t, err, &lost)
				require.Contains(t, err.Error(), c.lost)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.marked, marked)
			require.NoError(t, MarkQueue(files, "three"))
			marked, err = CheckQueueMark(files)
			require.NoError(t, err)
			require.True(t, marked)
		})
	}
}

// An older copy of the queue has the id of the log. Its index shows its age, from before the log records the index: then the log may lack
// what the copy lacks.
func TestAMemberKnowsAnOlderCopyOfItsQueue(t *testing.T) {
	dataDir, files := newMember(t)
	mark := filepath.Join(dataDir, paths.MemberPath)
	copyOf := func() []byte {
		content, err := os.ReadFile(mark)
		require.NoError(t, err)
		return content
	}
	first := copyOf()
	require.NoError(t, MarkApplied(files, 20))
	second := copyOf()
	require.NoError(t, MarkApplied(files, 40))
	newest := copyOf()
	require.NoError(t, MarkApplied(files, 30), "what is recorded again is not younger")
	require.Equal(t, newest, copyOf())
	inRaft, err := os.ReadFile(filepath.Join(dataDir, paths.LogQueuePath))
	require.NoError(t, err)
	require.Equal(t, newest, inRaft, "an older version of the daemon compares the files")
	for _, older := range [][]byte{first, second} {
		require.NoError(t, os.WriteFile(mark, older, 0o640))
		_, err := CheckQueueMark(files)
		var lost *LostQueueError
		require.ErrorAs(t, err, &lost)
		require.True(t, lost.Older)
		require.ErrorContains(t, err, "the log in raft/ needs the files of entry 40")
	}
	require.NoError(t, os.WriteFile(mark, newest, 0o640))
	marked, err := CheckQueueMark(files)
	require.NoError(t, err)
	require.True(t, marked)

	// A crash comes between the two files, or an older version has recorded indexes meanwhile.
	require.NoError(t, os.WriteFile(filepath.Join(dataDir, paths.LogQueuePath), second, 0o600))
	_, err = CheckQueueMark(files)
	require.NoError(t, err)

	require.NoError(t, os.WriteFile(mark, []byte("one 4x\n"), 0o640))
	_, err = CheckQueueMark(files)
	require.ErrorContains(t, err, "queue/member is damaged")
}

func TestAConfigurationWithoutAQueue(t *testing.T) {
	dataDir, files := newMember(t)
	require.NoError(t, CheckQueue(files), "there is no configuration: a first start")
	require.NoError(t, os.WriteFile(filepath.Join(dataDir, paths.ConfigPath), []byte("{}"), 0o640))
	require.NoError(t, CheckQueue(files))
	require.NoError(t, os.Remove(filepath.Join(dataDir, paths.VersionPath)))
	var lost *LostQueueError
	require.ErrorAs(t, CheckQueue(files), &lost)
	require.True(t, strings.HasPrefix(lost.Error(), "queue/version is missing"))
}

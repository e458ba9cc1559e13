package persistence

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/ownership"
)

func TestPIDFile(t *testing.T) {
	path := PIDFilePath(t.TempDir(), "ganeti-luxid")
	_, locked := IsPIDFileLocked(path)
	require.False(t, locked, "no file")
	require.NoError(t, os.WriteFile(path, []byte("123456789 of a former daemon\n"), 0o600))
	_, locked = IsPIDFileLocked(path)
	require.False(t, locked, "the kernel has freed the lock")

	RemoveStalePIDFile(path)
	require.NoFileExists(t, path)
	RemoveStalePIDFile(path)
	file, err := CreatePIDFile(path, ownership.Rules{})
	require.NoError(t, err)
	RemoveStalePIDFile(path)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(os.Getpid())+"\n", string(content))
	pid, locked := IsPIDFileLocked(path)
	require.Equal(t, []any{os.Getpid(), true}, []any{pid, locked})
	_, err = CreatePIDFile(path, ownership.Rules{})
	var held *PIDFileLockedError
	require.ErrorAs(t, err, &held)
	require.NoError(t, file.Release())
	require.NoFileExists(t, path)
	_, err = CreatePIDFile(PIDFilePath(path, "below a file"), ownership.Rules{})
	require.Error(t, err)
}

package janitor

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	logrustest "github.com/sirupsen/logrus/hooks/test"
	"github.com/stretchr/testify/require"

	"lockstep/core/job"
	"lockstep/core/ownership"
	"lockstep/core/paths"
	"lockstep/persistence"
)

// keepers is a data directory with jobs and their kept output.
type keepers struct {
	*testing.T
	dir      string
	complete bool
	*outputs
}

func newKeepers(t *testing.T) *keepers {
	b := &keepers{T: t, dir: t.TempDir(), complete: true}
	files, err := persistence.OpenFiles(b.dir, ownership.Rules{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = files.Close() })
	log, _ := logrustest.NewNullLogger()
	b.outputs = newOutputs(log, files, b.dir, func() bool { return b.complete })
	return b
}

func (b *keepers) write(path, content string) {
	b.Helper()
	full := filepath.Join(b.dir, path)
	require.NoError(b, os.MkdirAll(filepath.Dir(full), 0o750))
	require.NoError(b, os.WriteFile(full, []byte(content), 0o640))
}

// job writes the file of a job that ended at a time; 0: it runs.
func (b *keepers) job(path string, id, end int64) {
	j := job.New(job.ID(id), []json.RawMessage{json.RawMessage(`{"OP_ID": "OP_RUN_COMMAND"}`)}, []int{0}, job.Timestamp{Sec: 1}, "")
	j.Ops[0].Take(job.Begin)
	j.Ops[0].Take(job.Execute)
	if end != 0 {
		j.Ops[0].Take(job.Succeed)
		j.End = job.Timestamp{Sec: end}
	}
	b.write(path, string(job.Encode(j)))
}

// keep writes kept output, in two files.
func (b *keepers) keep(id int64, megabytes int) {
	b.Helper()
	for _, name := range []string{"0.stdout", "3.stderr"} {
		b.write(paths.KeptDirOf(id)+"/"+name, "")
		require.NoError(b, os.Truncate(filepath.Join(b.dir, paths.KeptDirOf(id), name), int64(megabytes)*500_000))
	}
}

// swept sweeps, and returns the jobs whose output is left, and whether no more may be kept.
func (b *keepers) swept() (left []int64, full bool) {
	b.Helper()
	require.NoError(b, b.sweep(b.Context()))
	entries, err := os.ReadDir(filepath.Join(b.dir, paths.KeptDir))
	if !os.IsNotExist(err) {
		require.NoError(b, err)
	}
	for _, e := range entries {
		if e.Name() == "full" {
			full = true
			continue
		}
		id, err := strconv.ParseInt(e.Name(), 10, 64)
		require.NoError(b, err)
		left = append(left, id)
	}
	return left, full
}

func (b *keepers) hasLeft(full bool, want ...int64) {
	b.Helper()
	left, isFull := b.swept()
	require.Equal(b, want, left)
	require.Equal(b, full, isFull)
}

// Over the bound the output goes of the jobs that ended first, wherever their files are. If that is not enough, jobs keep no more.
func TestKeptOutputStaysWithinItsBound(t *testing.T) {
	b := newKeepers(t)
	b.write(paths.SettingsPath, `{"output_total": 10000000}`)
	b.hasLeft(false)
	b.job(paths.JobPath(1), 1, 30)
	b.job(paths.ArchivePath(2), 2, 20)
	b.job(paths.JobPath(3), 3, 0)
	b.job(paths.JobPath(4), 4, 40)
	b.write(paths.JobPath(5), "unreadable")
	for id := range int64(5) {
		b.keep(id+1, 2)
	}
	b.hasLeft(false, 1, 2, 3, 4, 5)
	b.keep(3, 3)
	b.hasLeft(false, 1, 3, 4, 5)
	b.keep(3, 8)
	b.hasLeft(true, 3, 5)
	b.job(paths.JobPath(3), 3, 50)
	b.hasLeft(false, 3, 5)
	b.keep(3, 9)
	b.hasLeft(false, 5)
}

// The bound of a disk is a tenth of it, of which a test has no more than a little.
func TestKeptOutputWithoutASettingMayHaveATenthOfTheDisk(t *testing.T) {
	b := newKeepers(t)
	b.keep(1, 1)
	bound, err := b.bound()
	require.NoError(t, err)
	size, err := persistence.KeptDiskSize(b.dir)
	require.NoError(t, err)
	require.Equal(t, size/10, bound)
	b.write(paths.SettingsPath, `{`)
	_, err = b.bound()
	require.Error(t, err, "damaged settings may have permitted more")
	require.NoError(t, os.Remove(filepath.Join(b.dir, paths.SettingsPath)))
	b.write(paths.QuarantineDir+"/settings.json", `{`)
	_, err = b.bound()
	require.Error(t, err, "so may those that were set aside")
}

// The output of a job that is in neither the queue nor the archive goes, and what belongs to no job stays. A job that was set aside
// because it cannot be read keeps its output.
func TestTheOutputOfRemovedJobsGoes(t *testing.T) {
	b := newKeepers(t)
	b.job(paths.JobPath(1), 1, 0)
	b.job(paths.ArchivePath(20000), 20000, 10)
	b.write(paths.QuarantineDir+"/job-4.1", "unreadable")
	for _, id := range []int64{1, 3, 4, 44, 20000} {
		b.keep(id, 1)
	}
	b.complete = false
	b.hasLeft(false, 1, 20000, 3, 4, 44)
	b.hasLeft(false, 1, 20000, 3, 4, 44)
	b.complete = true
	b.hasLeft(false, 1, 20000, 3, 4, 44)
	b.hasLeft(false, 1, 20000, 4)
	require.NoError(t, os.Remove(filepath.Join(b.dir, paths.ArchivePath(20000))))
	require.NoError(t, os.MkdirAll(filepath.Join(b.dir, paths.KeptDir, "mine"), 0o700))
	b.write(paths.KeptDir+"/removed-20000/3.stderr", "left by a crash")
	require.NoError(t, b.sweep(t.Context()))
	require.NoError(t, b.sweep(t.Context()))
	require.DirExists(t, filepath.Join(b.dir, paths.KeptDir, "mine"))
	require.NoDirExists(t, filepath.Join(b.dir, paths.KeptDirOf(20000)))
	require.NoDirExists(t, filepath.Join(b.dir, paths.KeptDir, "removed-20000"))
}

// A daemon that was killed may have left the word that no more is kept.
func TestTheFirstSweepPermitsToKeepAgain(t *testing.T) {
	b := newKeepers(t)
	b.write(paths.KeptFullPath, "")
	b.hasLeft(false)
	b.write(paths.KeptFullPath, "")
	b.job(paths.JobPath(1), 1, 0)
	b.keep(1, 1)
	b.hasLeft(false, 1)
}

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/outflow"
	"lockstep/core/paths"
	"lockstep/core/progress"
	"lockstep/persistence"
)

// keeping is a job whose output is kept.
type keeping struct {
	*testing.T
	dataDir string
	keep    *keeper
	mu      sync.Mutex
	log     bytes.Buffer // messages
	written [2]bytes.Buffer

	progressPath string
	progressed   func(progress.Line)
	tries        int // that have ended
}

func newKeeping(t *testing.T, limit int64) *keeping {
	b := &keeping{T: t, dataDir: t.TempDir(), progressPath: filepath.Join(t.TempDir(), "7.progress", "pipe"),
		progressed: func(progress.Line) {}}
	b.begin(limit)
	return b
}

// submitted is the time of the job.
var submitted = job.Timestamp{Sec: 1795175118, Usec: 595666}

// begin begins a process of the job.
func (b *keeping) begin(limit int64) {
	var err error
	b.keep, err = newKeeper(b.dataDir, &job.Job{ID: 7, Received: submitted}, limit)
	require.NoError(b, err)
}

// beginAfter begins a process of the job when so many tries of opcode 1 have ended, and opcode 0 has succeeded.
func (b *keeping) beginAfter(tries int, limit int64) {
	j := &job.Job{ID: 7, Received: submitted, Ops: []job.Op{{Status: job.Success}, {Status: job.Waiting}}}
	for range tries {
		j.Ops[1].Log = append(j.Ops[1].Log, job.LogEntry{Type: job.LogTry})
	}
	var err error
	b.keep, err = newKeeper(b.dataDir, j, limit)
	require.NoError(b, err)
	b.tries = tries
}

// command runs a shell command as an opcode of the job, and returns its outcome.
func (b *keeping) command(op int, script string) jobproc.Outcome {
	b.Helper()
	parameters, err := json.Marshal(map[string]any{"argv": []string{"/bin/sh", "-c", script}})
	require.NoError(b, err)
	relay := newRelay("", 7, outflow.NewSource(outflow.Standard(time.Hour), outflow.Position{}, false), nil, nil)
	x := &execution{id: 7, op: op, livelock: "none", input: parameters, lease: &lease{}, relay: relay, keep: b.keep, emit: b.emit,
		loggedTry: b.tries + 1, progressPath: b.progressPath, progressed: b.progressed}
	return x.runCommand(parameters)
}

func (b *keeping) emit(entries []jobproc.LogEntry) {
	b.mu.Lock() // the two streams are copied at the same time
	defer b.mu.Unlock()
	for _, e := range entries {
		if e.Payload != nil {
			require.Equal(b, job.LogNote, e.Kind)
			b.log.Write(append(e.Payload, '\n'))
			continue
		}
		b.written[streamNames[e.Kind]].Write(e.Output)
	}
}

// kept is what can be read of a stream.
func (b *keeping) kept(stream string) []byte {
	b.Helper()
	sizes := slices.Repeat([]int64{persistence.Growing}, 10)
	k, err := persistence.OpenKept(b.dataDir, 7, "[1795175118, 595666]\n", persistence.KeptFiles{Stream: stream, Sizes: sizes}, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	require.NoError(b, err)
	content, err := io.ReadAll(k)
	require.NoError(b, err)
	require.NoError(b, k.Close())
	return content
}

// file checks that the result of an opcode is true of the file of one of its streams, and returns the content and what is missing.
func (b *keeping) file(op int, stream string, got keptBytes) (content []byte, missing int64) {
	b.Helper()
	content, err := os.ReadFile(filepath.Join(b.dataDir, paths.KeptDirOf(7), paths.KeptName(op, 1, stream)))
	if !errors.Is(err, os.ErrNotExist) {
		require.NoError(b, err)
	}
	sum := sha256.Sum256(content)
	require.EqualValues(b, len(content), got.Bytes)
	require.Equal(b, hex.EncodeToString(sum[:]), got.SHA256)
	return content, got.Missing
}

// resultOf is the key "kept" of an outcome, and its result without that key.
func resultOf(t *testing.T, o jobproc.Outcome) (kept keptOutput, rest string) {
	t.Helper()
	object := map[string]json.RawMessage{}
	var class, text string
	if o.Failed {
		require.NoError(t, json.Unmarshal(o.Result, &[]any{&class, &[]any{&text, &object}}), "%s", o.Result)
	} else {
		require.NoError(t, json.Unmarshal(o.Result, &object), "%s", o.Result)
	}
	require.NoError(t, json.Unmarshal(object["kept"], &kept))
	delete(object, "kept")
	require.Contains(t, string(object["usage"]), "cpu_seconds")
	delete(object, "usage")
	left, err := json.Marshal(object)
	require.NoError(t, err)
	return kept, string(left)
}

// All output of all opcodes is in the files, whatever bytes it has and however the command ends, and the results have its checksums.
func TestAllOutputIsKept(t *testing.T) {
	b := newKeeping(t, 1<<40)
	noise := make([]byte, 3<<20)
	for i, rng := 0, rand.New(rand.NewPCG(1, 2)); i < len(noise); i++ {
		noise[i] = byte(rng.Uint64())
	}
	input := filepath.Join(t.TempDir(), "noise")
	require.NoError(t, os.WriteFile(input, noise, 0o600))
	kept, rest := resultOf(t, b.command(0, "cat "+input+" & cat "+input+" >&2; wait"))
	require.JSONEq(t, `{"exit_status": 0}`, rest)
	require.Equal(t, filepath.Join(b.dataDir, "output", "7"), kept.Directory)
	out, missing := b.file(0, job.LogStdout, kept.Stdout)
	require.True(t, bytes.Equal(noise, out))
	require.Zero(t, missing)
	out, _ = b.file(0, job.LogStderr, kept.Stderr)
	require.True(t, bytes.Equal(noise, out))

	kept, rest = resultOf(t, b.command(1, "printf none >&2; exit 3"))
	require.JSONEq(t, `{"exit_status": 3}`, rest)
	out, _ = b.file(1, job.LogStdout, kept.Stdout)
	require.Empty(t, out)
	kept, _ = resultOf(t, b.command(2, "printf last; kill -KILL $$"))
	b.file(2, job.LogStdout, kept.Stdout)

	require.Empty(t, b.log.String())
	for i, stream := range []string{job.LogStdout, job.LogStderr} {
		require.True(t, bytes.Equal(b.written[i].Bytes(), b.kept(stream)), stream)
	}
	for path, mode := range map[string]os.FileMode{"": os.ModeDir | 0o700, "7": os.ModeDir | 0o700, "7/2.stdout": 0o600} {
		info, err := os.Stat(filepath.Join(b.dataDir, paths.KeptDir, path))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode(), path)
	}
}

// isBeginning checks that what is kept of each stream is its beginning, and that the results count what is missing.
func (b *keeping) isBeginning(missing int64) {
	b.Helper()
	lost := int64(0)
	for i, stream := range []string{job.LogStdout, job.LogStderr} {
		got := b.kept(stream)
		require.True(b, bytes.HasPrefix(b.written[i].Bytes(), got), stream)
		lost += int64(b.written[i].Len() - len(got))
	}
	require.Equal(b, lost, missing)
}

// At the limit of a job the keeping ends for good, with one message, and the command goes on.
func TestKeepingEndsAtTheLimit(t *testing.T) {
	b := newKeeping(t, 90_000)
	first, rest := resultOf(t, b.command(0, "seq 10000; seq 10000 >&2; exit 4"))
	require.JSONEq(t, `{"exit_status": 4}`, rest)
	second, _ := resultOf(t, b.command(1, "echo more"))
	require.EqualValues(t, 90_000, first.Stdout.Bytes+first.Stderr.Bytes+second.Stdout.Bytes)
	require.Zero(t, second.Stdout.Bytes)
	require.EqualValues(t, 5, second.Stdout.Missing)
	require.Equal(t, "the job has reached the setting output_limit, 90000 bytes", second.Reason)
	b.isBeginning(first.Stdout.Missing + first.Stderr.Missing + second.Stdout.Missing)
	require.Equal(t, `"output is not kept from here on: the job has reached the setting output_limit, 90000 bytes"`+"\n", b.log.String())
}

// While the daemon has the file "full" there, nothing more is kept. It is noticed during the output of a command, too.
func TestKeepingEndsAtTheBoundOfAllJobs(t *testing.T) {
	b := newKeeping(t, 1<<40)
	full := filepath.Join(b.dataDir, paths.KeptFullPath)
	kept, _ := resultOf(t, b.command(0, "head -c 3000000 /dev/zero; : > "+full+"; head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2"))
	require.GreaterOrEqual(t, kept.Stdout.Bytes, int64(3_000_000-2<<20))
	require.LessOrEqual(t, kept.Stdout.Bytes+kept.Stderr.Bytes, int64(3_000_000+2<<20))
	b.isBeginning(kept.Stdout.Missing + kept.Stderr.Missing)
	require.NoError(t, os.Remove(full))
	after, _ := resultOf(t, b.command(1, "echo later"))
	require.Zero(t, after.Stdout.Bytes, "it would be no beginning")
	require.Equal(t, 1, strings.Count(b.log.String(), "\n"), b.log.String())
	require.Contains(t, b.log.String(), "the kept output of all jobs has reached the setting output_total")
}

// faultyDisk fails as a disk can.
type faultyDisk struct {
	keptDirectory
	left    int // bytes; then the disk is full
	syncErr error
}

type faultyFile struct {
	keptFile
	disk *faultyDisk
}

func (d *faultyDisk) create(name string) (keptFile, error) {
	f, err := d.keptDirectory.create(name)
	return &faultyFile{f, d}, err
}

func (f *faultyFile) Write(p []byte) (int, error) {
	n, err := f.keptFile.Write(p[:min(len(p), f.disk.left)])
	if f.disk.left -= n; n < len(p) && err == nil {
		err = unix.ENOSPC
	}
	return n, err
}

func (f *faultyFile) Sync() error { return errors.Join(f.keptFile.Sync(), f.disk.syncErr) }

// On a full disk the command goes on. What reached the disk counts, also of the write that failed.
func TestKeepingEndsOnAFullDisk(t *testing.T) {
	b := newKeeping(t, 1<<40)
	b.keep.disk = &faultyDisk{keptDirectory: *b.keep.disk.(*keptDirectory), left: 70_001}
	kept, rest := resultOf(t, b.command(0, "seq 20000; echo end >&2"))
	require.JSONEq(t, `{"exit_status": 0}`, rest)
	out, missing := b.file(0, job.LogStdout, kept.Stdout)
	b.file(0, job.LogStderr, kept.Stderr)
	require.LessOrEqual(t, len(out), 70_001)
	require.Positive(t, missing)
	require.EqualValues(t, 70_001, kept.Stdout.Bytes+kept.Stderr.Bytes)
	b.isBeginning(kept.Stdout.Missing + kept.Stderr.Missing)
	require.Equal(t, `"output is not kept from here on: no space left on device"`+"\n", b.log.String())
}

// A disk that cannot say that it has the output does not fail the command, and the log says so.
func TestASyncOfKeptOutputThatFails(t *testing.T) {
	b := newKeeping(t, 1<<40)
	b.keep.disk = &faultyDisk{keptDirectory: *b.keep.disk.(*keptDirectory), left: 1 << 20, syncErr: unix.EIO}
	_, rest := resultOf(t, b.command(0, "echo one"))
	require.JSONEq(t, `{"exit_status": 0}`, rest)
	require.Equal(t, `"the kept output may not be on the disk, and no more is kept: input/output error"`+"\n", b.log.String())
	kept, _ := resultOf(t, b.command(1, "echo two"))
	require.EqualValues(t, 4, kept.Stdout.Missing)
	b.isBeginning(4)
}

// Without --keep-output nothing is made, and the result says nothing of it.
func TestNothingIsKept(t *testing.T) {
	b := newKeeping(t, 0)
	require.Nil(t, b.keep)
	x := &execution{id: 7, livelock: "none", lease: &lease{}, emit: func([]jobproc.LogEntry) {},
		relay: newRelay("", 7, outflow.NewSource(outflow.Standard(time.Hour), outflow.Position{}, false), nil, nil)}
	require.NotContains(t, string(x.runCommand([]byte(`{"argv": ["/bin/echo", "x"]}`)).Result), "kept")
	entries, err := os.ReadDir(b.dataDir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// What a former job with the same id has left is gone before the first command, also if the job keeps nothing. What the job keeps is marked
// with the time of its submission.
func TestTheKeptOutputOfAFormerJob(t *testing.T) {
	for name, limit := range map[string]int64{"keeps": 1 << 40, "keeps nothing": 0} {
		t.Run(name, func(t *testing.T) {
			b := newKeeping(t, 1<<40)
			b.command(0, "echo former")
			b.command(1, "echo former >&2")
			require.Equal(t, "former\n", string(b.kept(job.LogStdout)))
			b.begin(limit)
			require.Empty(t, b.kept(job.LogStdout))
			require.NoDirExists(t, filepath.Join(b.dataDir, paths.KeptDirOf(7)))
			b.command(0, "echo new")
			if limit == 0 {
				require.NoDirExists(t, filepath.Join(b.dataDir, paths.KeptDirOf(7)))
				return
			}
			require.Equal(t, "new\n", string(b.kept(job.LogStdout)))
			require.Empty(t, b.kept(job.LogStderr))
			mark, err := os.ReadFile(filepath.Join(b.dataDir, paths.KeptDirOf(7), paths.KeptMark))
			require.NoError(t, err)
			require.Equal(t, "[1795175118, 595666]\n", string(mark))
		})
	}
}

// If what a former job has left cannot be removed, nothing is kept, and the log says why. The command runs.
func TestTheKeptOutputOfAFormerJobStays(t *testing.T) {
	b := newKeeping(t, 0)
	require.NoError(t, os.WriteFile(filepath.Join(b.dataDir, paths.KeptDir), nil, 0o600)) // no directory
	var err error
	b.keep, err = newKeeper(b.dataDir, &job.Job{ID: 7}, 1<<40)
	require.ErrorContains(t, err, "remove the kept output of a former job")
	kept, rest := resultOf(t, b.command(0, "echo text"))
	require.JSONEq(t, `{"exit_status": 0}`, rest)
	require.EqualValues(t, 5, kept.Stdout.Missing)
	require.Contains(t, b.log.String(), "output is not kept from here on: remove the kept output of a former job")
}

// The directory of kept output may be on another disk than the queue.
func TestTheRoomIsThatOfTheDiskOfKeptOutput(t *testing.T) {
	b := newKeeping(t, 1<<40)
	_, err := b.keep.disk.room()
	require.NoError(t, err)
	require.NoError(t, os.Symlink("/proc/self", filepath.Join(b.dataDir, paths.KeptDir))) // has no room
	_, err = b.keep.disk.room()
	require.ErrorContains(t, err, "the disk is almost full")
}

// Kept output leaves room for the file of a job with the longest log, which is there twice while it is replaced.
func TestKeptOutputLeavesRoomForTheQueue(t *testing.T) {
	const mb, gb = 1 << 20, 1 << 30
	for _, c := range []struct{ size, free, reserve int64 }{
		{4 * mb, 4 * mb, 64 * mb}, {100 * mb, 65 * mb, 64 * mb}, {10 * gb, gb, gb / 2}, {1000 * gb, 2 * gb, gb},
	} {
		room, err := roomOn(c.size, c.free)
		if c.free > c.reserve {
			require.NoError(t, err)
			require.Positive(t, room)
		} else {
			require.Zero(t, room)
			require.ErrorContains(t, err, fmt.Sprintf("its last %d bytes are for the queue", c.reserve))
		}
		_, err = roomOn(c.size, c.reserve)
		require.Error(t, err)
	}
}

// Each try of an opcode has files of its own. All tries together are within the bound, and what a former job with the same id has left of
// later tries goes.
func TestEachTryKeepsItsOutput(t *testing.T) {
	b := newKeeping(t, 25)
	b.command(0, "echo first")
	of := filepath.Join(b.dataDir, paths.KeptDirOf(7))
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(of, name))
		require.NoError(t, err)
		return string(content)
	}
	b.command(1, "echo try 1; exit 1")
	require.NoError(t, os.WriteFile(filepath.Join(of, "1.try2.stderr"), []byte("of another job\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(of, "1.try3.stdout"), []byte("of another job\n"), 0o600))
	b.beginAfter(1, 25)
	before, err := os.Stat(filepath.Join(of, paths.KeptMark))
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(of, "1.try2.stderr"))
	require.NoFileExists(t, filepath.Join(of, "1.try3.stdout"))
	b.command(1, "echo try 2; exit 1")
	b.beginAfter(2, 25)
	outcome := b.command(1, "echo third try")
	require.Contains(t, string(outcome.Result), "the job has reached the setting output_limit")
	after, err := os.Stat(filepath.Join(of, paths.KeptMark))
	require.NoError(t, err)
	require.Equal(t, before.ModTime(), after.ModTime(), "a write of the mark that breaks off would take the files away")
	require.Equal(t, "first\n", read("0.stdout"))
	require.Equal(t, "try 1\n", read("1.stdout"))
	require.Equal(t, "try 2\n", read("1.try2.stdout"))
	require.Equal(t, "third t", read("1.try3.stdout"))

	b.begin(25)
	require.NoDirExists(t, of, "of a job that had no tries yet")
}

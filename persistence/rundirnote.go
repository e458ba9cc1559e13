package persistence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"lockstep/core/paths"
)

// FormerRunDirError says that processes live in the former run directory of a data directory.
type FormerRunDirError struct {
	Former  string
	Living  []string // base names of their livelocks; nil if Problem is set
	Problem error    // why it is not known whether processes live there
}

func (e *FormerRunDirError) Error() string {
	if e.Problem != nil {
		return fmt.Sprintf("it is not known whether processes live in the former run directory %s: %v", e.Former, e.Problem)
	}
	return fmt.Sprintf("processes live in the former run directory %s: %s", e.Former, strings.Join(e.Living, ", "))
}

func (e *FormerRunDirError) Unwrap() error { return e.Problem }

// NoteRunDir records durably that the processes of the data directory live in runDir, which must exist. It returns a
// [*FormerRunDirError], and changes nothing, if another directory is noted and a process may live there: livelocks are looked for in
// the run directory, so that it would count as dead. The caller holds the locks of both directories and has created no livelock yet. After
// a crash before the note is durable, nothing lives in runDir, and the next call asks again.
func NoteRunDir(files QueueFiles, runDir string) error {
	runDir, err := filepath.Abs(runDir)
	if err == nil {
		runDir, err = filepath.EvalSymlinks(runDir)
	}
	if err != nil {
		return fmt.Errorf("note the run directory: %w", err)
	}
	return NoteRunDirOf(files, runDir, checkNothingLivesIn)
}

// NoteRunDirOf is [NoteRunDir] for an absolute path without symbolic links. check returns a [*FormerRunDirError] if a process may live in
// the directory former.
func NoteRunDirOf(files QueueFiles, runDir string, check func(former, runDir string) error) error {
	content, err := files.Read("run-dir", paths.RunDirPath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	former := strings.TrimSuffix(string(content), "\n")
	if former == runDir {
		return nil
	}
	if err == nil {
		if err := check(former, runDir); err != nil {
			return err
		}
	}
	if err := files.Replace("run-dir", paths.RunDirPath, []byte(runDir+"\n")); err != nil {
		return err
	}
	return files.SyncDir("run-dir", ".")
}

// checkNothingLivesIn returns a [*FormerRunDirError] if a job process or a lock owner may live in former, or if that cannot be found out;
// nil if former is another name of runDir.
func checkNothingLivesIn(former, runDir string) error {
	if !filepath.IsAbs(former) {
		return &FormerRunDirError{Former: former, Problem: errors.New("the note of it is damaged")}
	}
	if isSameDir(former, runDir) {
		return nil
	}
	names, err := listNames(LivelockDir(former))
	refusal := &FormerRunDirError{Former: former}
	if err != nil && !errors.Is(err, unix.ENOTDIR) {
		refusal.Problem = err
	}
	for _, name := range names {
		if strings.HasPrefix(name, DaemonLivelock+"_") {
			continue // a daemon of another data directory: the locks that the caller holds exclude others
		}
		alive, err := ProbeLivelock(filepath.Join(LivelockDir(former), name))
		switch {
		case errors.Is(err, unix.ENXIO), errors.Is(err, unix.EISDIR): // no livelock
		case err != nil:
			refusal.Problem = err
		case alive:
			refusal.Living = append(refusal.Living, name)
		}
	}
	if refusal.Problem == nil && refusal.Living == nil {
		return nil
	}
	return refusal
}

func isSameDir(a, b string) bool {
	aInfo, aErr := os.Stat(a)
	bInfo, bErr := os.Stat(b)
	return aErr == nil && bErr == nil && os.SameFile(aInfo, bInfo)
}

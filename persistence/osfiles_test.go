package persistence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"lockstep/persistence/persistencetest"
)

func newOSFiles(t testing.TB) (files *OSFiles, root string) {
	t.Helper()
	root = t.TempDir()
	noError(t, os.Mkdir(filepath.Join(root, "queue"), 0o750))
	files, err := OpenFiles(root, own)
	noError(t, err)
	t.Cleanup(func() { noError(t, files.Close()) })
	return files, root
}

func TestOSFilesConform(t *testing.T) {
	persistencetest.TestFiles(t, func(t *testing.T) persistencetest.Files {
		files, _ := newOSFiles(t)
		return files
	})
}

func TestOpenFilesNamesTheDirectory(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "file")
	noError(t, os.WriteFile(file, nil, 0o640))
	for path, want := range map[string]error{
		filepath.Join(root, "absent"): fs.ErrNotExist,
		file:                          unix.ENOTDIR,
	} {
		_, err := OpenFiles(path, own)
		if !errors.Is(err, want) || !strings.Contains(fmt.Sprint(err), path) || strings.Contains(fmt.Sprint(err), "\n") {
			t.Errorf("OpenFiles(%s): %v, want one line that names it and wraps %v", path, err, want)
		}
	}
}

func TestReplaceModeIgnoresUmask(t *testing.T) {
	files, root := newOSFiles(t)
	old := unix.Umask(0o777)
	err := files.Replace("save-job", "queue/job-1", []byte("x"))
	unix.Umask(old)
	noError(t, err)
	info, err := os.Stat(filepath.Join(root, "queue/job-1"))
	noError(t, err)
	if info.Mode().Perm() != 0o640 {
		t.Errorf("mode is %o, want %o", info.Mode().Perm(), 0o640)
	}
}

// A failed Replace leaves the old file and no temporary file. Its error names the failed
// step.
func TestFailedReplace(t *testing.T) {
	t.Run("write stops half way", func(t *testing.T) {
		files, root := newOSFiles(t)
		noError(t, files.Replace("save-job", "queue/job-1", []byte("old")))
		limited := startRole(t, "small-file-limit", root)
		if got, want := limited.line(), "save-job: write queue/job-1: file too large"; got != want {
			t.Errorf("error is %q, want %q", got, want)
		}
		data, err := files.Read("check", "queue/job-1")
		noError(t, err)
		if string(data) != "old" {
			t.Errorf("job-1 holds %.40q, want the old content", data)
		}
		wantNames(t, filepath.Join(root, "queue"), "job-1")
	})
	t.Run("target is a directory", func(t *testing.T) {
		files, root := newOSFiles(t)
		noError(t, os.MkdirAll(filepath.Join(root, "queue/job-1/inside"), 0o750))
		err := files.Replace("save-job", "queue/job-1", []byte("new"))
		if want := "save-job: rename queue/job-1: "; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error is %v, want %q...", err, want)
		}
		wantNames(t, filepath.Join(root, "queue"), "job-1")
		wantNames(t, filepath.Join(root, "queue/job-1"), "inside")
	})
	t.Run("parent is missing", func(t *testing.T) {
		files, _ := newOSFiles(t)
		err := files.Replace("save-job", "absent/job-1", []byte("new"))
		if want := "save-job: create absent/job-1: no such file or directory"; err == nil || err.Error() != want {
			t.Errorf("error is %v, want %q", err, want)
		}
	})
}

func TestReadRefusesWhatIsNoFile(t *testing.T) {
	files, root := newOSFiles(t)
	noError(t, unix.Mkfifo(filepath.Join(root, "queue/job-1"), 0o640))
	for _, path := range []string{"queue", "queue/job-1"} {
		if _, err := files.Read("scan", path); err == nil {
			t.Errorf("Read(%s) succeeds", path)
		}
	}
}

func TestListOfAFileFails(t *testing.T) {
	files, _ := newOSFiles(t)
	noError(t, files.Replace("save", "config.data", nil))
	if _, err := files.List("scan", "config.data"); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("got %v, want %v", err, unix.ENOTDIR)
	}
}

// Rename fails if a file is at the place of a parent directory. It does not replace that file.
func TestRenameBelowAFileFails(t *testing.T) {
	files, _ := newOSFiles(t)
	noError(t, files.Replace("save", "queue/job-1", []byte("1")))
	noError(t, files.Replace("save", "queue/archive", nil))
	for _, target := range []string{"queue/archive/job-1", "queue/archive/0/job-1"} {
		if err := files.Rename("archive", "queue/job-1", target); !errors.Is(err, unix.ENOTDIR) {
			t.Errorf("rename to %s: %v, want %v", target, err, unix.ENOTDIR)
		}
	}
	if _, err := files.Read("check", "queue/job-1"); err != nil {
		t.Error(err)
	}
}

func TestSyncDirFollowsARecreatedDirectory(t *testing.T) {
	files, root := newOSFiles(t)
	queue := filepath.Join(root, "queue")
	noError(t, files.SyncDir("save", "queue"))
	noError(t, os.Remove(queue))
	if err := files.SyncDir("save", "queue"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("sync of a removed directory: %v", err)
	}
	noError(t, os.Mkdir(queue, 0o750))
	noError(t, files.SyncDir("save", "queue"))
	info, err := os.Stat(queue)
	noError(t, err)
	if !os.SameFile(info, files.dirHandles["queue"].info) {
		t.Error("the directory that was removed is still the one synced")
	}
}

func TestOpenDirectoriesAreBounded(t *testing.T) {
	files, root := newOSFiles(t)
	for i := range 3 * dirHandlesMax {
		dir := fmt.Sprintf("dir-%d", i)
		noError(t, os.Mkdir(filepath.Join(root, dir), 0o750))
		noError(t, files.SyncDir("save", dir))
		noError(t, files.SyncDir("save", "queue"))
		if len(files.dirHandles) > dirHandlesMax {
			t.Fatalf("%d directories are open, want at most %d", len(files.dirHandles), dirHandlesMax)
		}
	}
}

func wantNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	got, err := listNames(dir)
	noError(t, err)
	if !slices.Equal(got, want) {
		t.Errorf("%s holds %q, want %q", dir, got, want)
	}
}

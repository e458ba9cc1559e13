package persistence

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"
)

func TestQuarantine(t *testing.T) {
	files, root := newOSFiles(t)
	for i, want := range []string{"job-7", "job-7.1", "job-7.2"} {
		noError(t, files.Replace("save-job", "queue/job-7", fmt.Append(nil, "garbage ", i)))
		to, err := Quarantine(files, "scan", "queue/job-7")
		noError(t, err)
		if to != "queue/quarantine/"+want {
			t.Errorf("moved to %s, want %s", to, want)
		}
	}
	for i, name := range []string{"job-7", "job-7.1", "job-7.2"} {
		data, err := files.Read("check", QuarantinePath(name))
		noError(t, err)
		if want := fmt.Sprint("garbage ", i); string(data) != want {
			t.Errorf("%s holds %q, want %q", name, data, want)
		}
	}
	wantNames(t, filepath.Join(root, "queue"), "quarantine")
}

func TestQuarantineOfAnAbsentFile(t *testing.T) {
	files, _ := newOSFiles(t)
	to, err := Quarantine(files, "scan", "queue/job-7")
	if to != "" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %q, %v", to, err)
	}
}

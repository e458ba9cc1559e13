package persistence

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/core/paths"
)

func TestMakeDirs(t *testing.T) {
	base := t.TempDir()
	data, run, log := filepath.Join(base, "var/lib"), filepath.Join(base, "var/run"), filepath.Join(base, "var/log")
	noError(t, MakeDirs(data, run, log, own))
	for _, dir := range []string{
		data, data + "/queue", data + "/queue/archive", data + "/queue/quarantine",
		run, run + "/livelocks", log,
	} {
		info, err := os.Stat(dir)
		noError(t, err)
		if !info.IsDir() || info.Mode().Perm() != 0o750 {
			t.Errorf("%s has mode %v, want a directory with %o", dir, info.Mode(), 0o750)
		}
	}
	noError(t, os.Chmod(data+"/queue", 0o700))
	noError(t, MakeDirs(data, run, log, own))
	info, err := os.Stat(data + "/queue")
	noError(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("the mode of an existing directory was changed to %o", info.Mode().Perm())
	}
}

func TestMakeDirsNamesWhatIsInTheWay(t *testing.T) {
	base := t.TempDir()
	noError(t, os.WriteFile(filepath.Join(base, "queue"), nil, 0o640))
	err := MakeDirs(base, base, base, own)
	if err == nil || !strings.Contains(err.Error(), filepath.Join(base, "queue")) {
		t.Errorf("got %v, want an error that names the file", err)
	}
}

func TestInitQueue(t *testing.T) {
	tests := []struct {
		name    string
		files   map[string]string
		want    InitResult
		serial  string // afterwards
		failure string
	}{
		{name: "first start", serial: "0\n"},
		{
			name:  "later start",
			files: map[string]string{"version": "1\n", "serial": "17 \n", "job-40": "{}"},
			want:  InitResult{Serial: 17}, serial: "17 \n",
		},
		{
			name:  "serial lost, live job is the highest",
			files: map[string]string{"job-9": "", "job-12": "", "job-99-1-0123456789abcdef.tmp": "", "archive/0/job-3": ""},
			want:  InitResult{Serial: 12, SerialRecreated: true}, serial: "12\n",
		},
		{
			name: "serial lost, archived job is the highest",
			files: map[string]string{
				"job-9": "", "archive/0/job-3": "", "archive/2/job-20001": "", "archive/10/job-100005": "",
				"archive/11/unrelated": "", "archive/x/job-900000": "",
			},
			want: InitResult{Serial: 100005, SerialRecreated: true}, serial: "100005\n",
		},
		{
			name:  "serial lost, job in quarantine is the highest",
			files: map[string]string{"job-9": "", "quarantine/job-11": "", "quarantine/job-12.1": "", "quarantine/serial": "x"},
			want:  InitResult{Serial: 12, SerialRecreated: true}, serial: "12\n",
		},
		{
			name:  "unknown version",
			files: map[string]string{"version": "2\n"}, failure: `queue/version is "2", this program knows only version "1"`,
		},
		{
			name:  "serial is garbage",
			files: map[string]string{"serial": "many\n"}, failure: `queue/serial: serial "many" is not a decimal number`, serial: "many\n",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			noError(t, MakeDirs(root, root, root, own))
			for name, content := range test.files {
				path := filepath.Join(root, "queue", name)
				noError(t, os.MkdirAll(filepath.Dir(path), 0o750))
				noError(t, os.WriteFile(path, []byte(content), 0o640))
			}
			files, err := OpenFiles(root, own)
			noError(t, err)
			defer files.Close()
			start, err := InitQueue(files)
			if test.failure != "" {
				if err == nil || err.Error() != test.failure {
					t.Errorf("error is %v, want %s", err, test.failure)
				}
			} else if err != nil || start != test.want {
				t.Errorf("got %+v, %v, want %+v", start, err, test.want)
			}
			if data, _ := os.ReadFile(filepath.Join(root, paths.SerialPath)); string(data) != test.serial {
				t.Errorf("serial holds %q, want %q", data, test.serial)
			}
		})
	}
}

func TestInitQueueWritesVersion(t *testing.T) {
	files, root := newOSFiles(t)
	_, err := InitQueue(files)
	noError(t, err)
	data, err := os.ReadFile(filepath.Join(root, paths.VersionPath))
	noError(t, err)
	if string(data) != "1\n" {
		t.Errorf("version holds %q", data)
	}
	noError(t, files.Replace("test", paths.VersionPath, []byte("x")))
	_, err = InitQueue(files)
	if e, ok := errors.AsType[*VersionError](err); !ok || e.Found != "x" || e.Want != "1" {
		t.Errorf("got %v, want a VersionError", err)
	}
}

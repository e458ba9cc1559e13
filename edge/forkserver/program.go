package forkserver

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"lockstep/persistence"
)

//go:embed server.py lockstep_repairs.py lockstep_configuration.py
var program embed.FS

const mainFile = "server.py"

// writeProgram makes the directory of the program for this user alone, writes the files that it lacks, and returns the path of the
// main file.
func writeProgram(dir string) (string, error) {
	const dirMode, fileMode = 0o700, 0o600
	if err := os.Mkdir(dir, dirMode); err != nil && !os.IsExist(err) {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if !info.IsDir() || info.Mode().Perm() != dirMode || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
		return "", fmt.Errorf("%s is not a directory of this user alone, with mode %o: remove it", dir, dirMode)
	}
	entries, err := program.ReadDir(".")
	if err != nil {
		return "", err
	}
	for _, entry := range entries {
		content, err := program.ReadFile(entry.Name())
		if err != nil {
			return "", err
		}
		path := filepath.Join(dir, entry.Name())
		if now, err := os.ReadFile(path); err == nil && bytes.Equal(now, content) {
			continue
		}
		if err := persistence.ReplaceFile(path, content, fileMode); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, mainFile), nil
}

// fileVersion tells two contents of a file apart: device, inode, and the times of its last change in nanoseconds.
type fileVersion struct {
	path                            string
	device, inode, modified, change int64
}

// UnmarshalJSON reads [path, device, inode, modified, changed].
func (v *fileVersion) UnmarshalJSON(data []byte) error {
	fields := []any{&v.path, &v.device, &v.inode, &v.modified, &v.change}
	count := len(fields)
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	if len(fields) != count {
		return fmt.Errorf("a version of a file has %d fields", len(fields))
	}
	return nil
}

// changedFile returns the path of a file that has changed since the process has loaded it; "": none.
func (p *process) changedFile() string {
	for _, v := range p.files {
		var now unix.Stat_t
		if unix.Stat(v.path, &now) != nil ||
			int64(now.Dev) != v.device || int64(now.Ino) != v.inode || now.Mtim.Nano() != v.modified || now.Ctim.Nano() != v.change {
			return v.path
		}
	}
	return ""
}

package places

import (
	"os"
	"path/filepath"
)

// Daemon returns the path of lockstepd for a program in dir: beside it, as a build leaves it, or in ../sbin, where a package
// installs it. If there is none, the path beside the program is returned.
func Daemon(dir string) string { return choose(dir, "lockstepd", "../sbin") }

// JobProgram returns the path of lockstep-job for a lockstepd in dir: beside it, or in ../lib/lockstep, as Daemon does.
func JobProgram(dir string) string { return choose(dir, "lockstep-job", "../lib/lockstep") }

func choose(dir, name, installed string) string {
	beside := filepath.Join(dir, name)
	if path := filepath.Join(dir, installed, name); !IsProgram(beside) && IsProgram(path) {
		return path
	}
	return beside
}

// IsProgram reports whether path is a file that can be started.
func IsProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}

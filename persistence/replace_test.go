package persistence

import (
	"os"
	"path/filepath"
	"testing"
)

// A secret file is never readable for other users. A file that cannot be replaced stays as
// it was. No temporary file remains.
func TestReplaceFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "node.key")
	noError(t, ReplaceFile(path, []byte("one"), 0o600))
	noError(t, ReplaceFile(path, []byte("two"), 0o600))
	info, err := os.Stat(path)
	noError(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	noError(t, ReplaceMessage(filepath.Join(dir, "7.prio"), []byte("-5\n"), own))
	noError(t, os.Mkdir(filepath.Join(dir, "taken"), 0o700))
	if err := ReplaceFile(filepath.Join(dir, "taken"), []byte("x"), 0o600); err == nil {
		t.Error("a directory was replaced")
	}
	content, err := os.ReadFile(path)
	noError(t, err)
	if string(content) != "two" {
		t.Errorf("content %q", content)
	}
	entries, err := os.ReadDir(dir)
	noError(t, err)
	if len(entries) != 3 {
		t.Errorf("%v", entries)
	}
	if !IsTemp(filepath.Base(tempName(path))) || IsTemp("node.key") {
		t.Error("IsTemp is wrong")
	}
}

package persistence

import (
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The job process links this package (see the package comment), so each dependency that
// starts slowly delays every job.
func TestImports(t *testing.T) {
	banned := []string{"net", "net/http", "encoding/json", "log", "crypto/rand", "os/exec"}
	entries, err := os.ReadDir(".")
	noError(t, err)
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		noError(t, err)
		for _, spec := range file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			noError(t, err)
			standard := !strings.Contains(strings.Split(path, "/")[0], ".") && !strings.HasPrefix(path, "lockstep")
			if (!standard && path != "golang.org/x/sys/unix" && path != "lockstep/core/paths" && path != "lockstep/core/ownership") || slices.Contains(banned, path) {
				t.Errorf("%s imports %s", name, path)
			}
		}
	}
}

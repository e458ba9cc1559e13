package actors

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// source is one parsed file of the module, by its path from the root.
type source struct {
	path string
	file *ast.File
	set  *token.FileSet
}

func sources(t *testing.T, under string) []source {
	t.Helper()
	var all []source
	root := filepath.Join("..", under)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		all = append(all, source{filepath.ToSlash(strings.TrimPrefix(path, "../")), file, set})
		return err
	})
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}

func imports(s source) []string {
	var paths []string
	for _, spec := range s.file.Imports {
		paths = append(paths, strings.Trim(spec.Path.Value, `"`))
	}
	return paths
}

// The arrow is messages <- core <- actors <- supervisor <- {cmd, sim}; only
// programs, tests and the real ports to processes know the real disk.
func TestImportsFollowTheArrow(t *testing.T) {
	for _, rule := range []struct {
		under    string
		except   []string
		mayNot   []string // prefixes of lockstep packages
		mayNever string
	}{
		{under: "messages", mayNot: []string{"lockstep/"}},
		{under: "persistence", except: []string{"persistence/persistencetest"}, mayNot: []string{"lockstep/messages", "lockstep/supervisor", "lockstep/sim", "lockstep/cmd", "lockstep/actors/"},
			mayNever: "lockstep/core/layout"},
		{under: "core", mayNot: []string{"lockstep/supervisor", "lockstep/persistence", "lockstep/sim", "lockstep/cmd"}},
		{under: "actors", except: []string{"edge/osproc/", "edge/remnants/", "edge/oslive/"}, mayNot: []string{"lockstep/supervisor", "lockstep/persistence", "lockstep/sim", "lockstep/cmd"}},
		{under: "supervisor", mayNot: []string{"lockstep/persistence", "lockstep/sim", "lockstep/cmd"}},
		{under: "sim", mayNot: []string{"lockstep/cmd"}},
	} {
		for _, s := range sources(t, rule.under) {
			if slices.ContainsFunc(rule.except, func(prefix string) bool { return strings.HasPrefix(s.path, prefix) }) {
				continue
			}
			for _, path := range imports(s) {
				for _, prefix := range rule.mayNot {
					allowed := rule.mayNever != "" && path == rule.mayNever
					require.False(t, strings.HasPrefix(path, prefix) && !allowed, "%s imports %s", s.path, path)
				}
			}
		}
	}
}

// pure is what core may import of the standard library: nothing that reads a
// clock, a disk, a network, the environment or randomness. Direct imports only:
// fmt itself links os.
var pure = []string{
	"bytes", "cmp", "embed", "encoding/base64", "encoding/json", "errors", "fmt", "iter", "maps", "math", "math/bits", "net/netip", "path",
	"regexp", "regexp/syntax", "slices", "sort", "strconv", "strings", "sync", "time", "unicode", "unicode/utf16", "unicode/utf8",
}

// impure are calls of otherwise pure packages.
var impure = []string{"time.Now", "time.Since", "time.Until", "time.Sleep", "time.After", "time.AfterFunc", "time.NewTimer", "time.NewTicker", "time.Tick"}

func TestCoreIsPure(t *testing.T) {
	for _, s := range sources(t, "core") {
		light := slices.ContainsFunc([]string{"job/", "run/", "opcode/", "layout/"},
			func(folder string) bool { return strings.HasPrefix(s.path, "core/"+folder) })
		for _, path := range imports(s) {
			ok := slices.Contains(pure, path) || strings.HasPrefix(path, "lockstep/core/") || (path == "lockstep/messages" && !light)
			require.True(t, ok, "%s imports %s", s.path, path)
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt, *ast.SelectStmt, *ast.ChanType, *ast.SendStmt:
				t.Errorf("%s: core starts no goroutine and knows no channel", s.set.Position(n.Pos()))
			case *ast.SelectorExpr:
				if pkg, ok := n.X.(*ast.Ident); ok && slices.Contains(impure, pkg.Name+"."+n.Sel.Name) {
					t.Errorf("%s: core is given the time: %s.%s", s.set.Position(n.Pos()), pkg.Name, n.Sel.Name)
				}
			}
			return true
		})
	}
}

// forbidden calls, with what to use in their place.
var forbidden = map[string]string{
	"SetReceiveTimeout": "act.SendAfter",
	"Stash":             "a slice of what is held",
	"ReenterAfter":      "a message and an answer",
	"RequestFuture":     "ctx.Request; only edges wait",
}

// Actors take their time from act.Clock, start no goroutine, and never wait:
// all of it would escape the simulator, and some is broken in the framework.
func TestActorsDoNotWait(t *testing.T) {
	edges := []string{"core/", "actors/act/", "edge/osproc/", "edge/remnants/", "edge/oslive/", "edge/pidfd/", "actors/luxi/wire/", "actors/socket/unix.go", "actors/socket/budget.go", "actors/socket/peer.go", "actors/socket/roster.go", "edge/rapi/",
		"edge/peer/", "edge/raftlog/", "edge/raftlog/logtest/"}
	for _, s := range sources(t, "actors") {
		if slices.ContainsFunc(edges, func(prefix string) bool { return strings.HasPrefix(s.path, prefix) }) {
			continue
		}
		for _, path := range imports(s) {
			for _, bad := range []string{"math/rand", "math/rand/v2", "os", "net", "sync", "github.com/asynkron/protoactor-go/scheduler", "github.com/asynkron/protoactor-go/router", "github.com/asynkron/protoactor-go/remote"} {
				require.NotEqual(t, bad, path, "%s imports %s", s.path, path)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: actors start no goroutine", s.set.Position(n.Pos()))
			case *ast.SelectorExpr:
				if instead, bad := forbidden[n.Sel.Name]; bad {
					t.Errorf("%s: %s: use %s", s.set.Position(n.Pos()), n.Sel.Name, instead)
				}
				if pkg, ok := n.X.(*ast.Ident); ok && slices.Contains(impure, pkg.Name+"."+n.Sel.Name) {
					t.Errorf("%s: actors are given the time: %s.%s", s.set.Position(n.Pos()), pkg.Name, n.Sel.Name)
				}
			}
			return true
		})
	}
}

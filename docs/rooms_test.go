package docs_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// wing is a part of the repository with the parts that it may import. Paths start at the root. A wing contains all
// packages below its path, except those of a wing with a longer path.
type wing struct {
	path string
	may  []string // paths of other wings that it may import
}

// wings are all parts of the repository. The packages that the job process links do not import messages: protobuf
// would double its time to start. Edges implement the ports that actors declare, so edges import actors, and actors
// do not import edges.
var wings = []wing{
	{"messages", nil},
	{"sim/longtest", nil}, // used by tests only
	{"core/rawjson", nil},
	{"core/job", []string{"core/rawjson"}},
	{"core/natural", nil},
	{"core/outflow", []string{"core/job"}},
	{"core/progress", nil},
	{"core/outflow/delivery", []string{"core/outflow", "core/rawjson", "core/job"}},
	{"core/heap", nil},
	{"core/haskell", nil},
	{"core/wire", []string{"core/rawjson", "core/job", "core/haskell"}},
	{"core/paths", nil},
	{"core/ownership", []string{"core/paths"}},
	{"core/lock", []string{"core/heap", "core/rawjson", "core/job", "core/natural", "core/haskell", "core/wire"}},
	{"core/config", []string{"core/rawjson", "core/job", "core/paths"}},
	{"core/config/reserve", []string{"core/config", "core/rawjson", "core/job", "core/lock"}},                        // owners of locks own reservations
	{"core/config/history", []string{"core/config", "core/config/reserve", "core/rawjson", "core/job", "core/lock"}}, // owners of locks change the configuration
	{"core/config/calls", []string{"core/config", "core/config/reserve", "core/rawjson", "core/job", "core/lock", "core/wire"}},
	{"core/noded", []string{"core/rawjson"}},
	{"core/distribution", []string{"core/config", "core/noded"}},
	{"core/inquiry", []string{"core/noded"}},
	{"core/queuecopy", []string{"core/noded", "core/paths"}},
	{"core/config/journal", []string{"core/paths", "core/config", "core/config/reserve", "core/rawjson", "core/job", "core/lock"}},
	{"core/retry", []string{"core/rawjson", "core/job"}},
	{"core/limits", []string{"core/rawjson"}},
	{"core/jobproc", []string{"core/rawjson", "core/job", "core/lock", "core/progress", "core/retry", "core/wire"}},
	{"core/demand", []string{"core/rawjson", "core/lock", "core/config"}},
	{"core/opcode", []string{"core/rawjson", "core/job", "core/lock", "core/config", "core/demand", "core/limits", "core/retry"}},
	{"core/access", []string{"core/rawjson", "core/job", "core/lock", "core/config", "core/demand", "core/limits", "core/opcode"}},
	{"core/config/view", []string{"core/answer", "core/config", "core/config/history", "core/rawjson", "core/job"}},
	{"core/confd", []string{"core/config", "core/rawjson"}},
	{"core/answer", []string{"core/access", "core/rawjson", "core/job", "core/progress", "core/config/history"}},
	{"core/why", []string{"core", "core/answer", "core/job"}},
	{"core/retention", []string{"core/heap"}},
	{"core/session", []string{"core/access"}},
	{"core/timeline", nil},
	{"core/guard", nil},
	{"core/calendar", nil},
	{"core", []string{"messages", "core/guard", "core/limits", "core/retry", "core/access", "core/answer", "core/session", "core/timeline", "core/calendar", "core/heap", "core/rawjson", "core/natural", "core/haskell", "core/wire", "core/job", "core/paths", "core/ownership", "core/lock", "core/progress", "core/config", "core/config/journal", "core/jobproc", "core/opcode", "core/noded", "core/inquiry"}},
	{"persistence", []string{"core/paths", "core/ownership"}},
	{"actors/kit", nil},
	{"actors", []string{"actors/kit", "core", "messages"}},
	{"edge", []string{"persistence", "actors/kit", "actors", "core", "messages"}},
	{"supervisor", []string{"actors/kit", "actors", "core", "messages"}},
	{"sim", []string{"supervisor", "actors/kit", "actors", "persistence", "core", "messages"}},
	{"sim/study", []string{"sim", "core"}},
	{"cmd", []string{"sim/study", "sim", "supervisor", "edge", "actors/kit", "actors", "persistence", "core", "messages"}},
}

// wingOf returns the wing of a package: the one with the longest path that matches.
func wingOf(pkg string) wing {
	var found wing
	for _, w := range wings {
		if (pkg == w.path || strings.HasPrefix(pkg, w.path+"/")) && len(w.path) > len(found.path) {
			found = w
		}
	}
	return found
}

// mayImport reports whether w may import a wing. Permission for core includes every package of core.
func (w wing) mayImport(other wing) bool {
	return other.path == w.path || slices.ContainsFunc(w.may, func(path string) bool {
		return other.path == path || path == "core" && strings.HasPrefix(other.path, "core/")
	})
}

// source is one parsed file of the module, without tests.
type source struct {
	path string // from the root
	file *ast.File
	set  *token.FileSet
}

func sources(t *testing.T, under string) []source {
	t.Helper()
	var all []source
	err := filepath.WalkDir(filepath.Join("..", under), func(path string, d fs.DirEntry, err error) error {
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

func (s source) imports() []string {
	var paths []string
	for _, spec := range s.file.Imports {
		paths = append(paths, strings.Trim(spec.Path.Value, `"`))
	}
	return paths
}

// lines returns the number of lines.
func (s source) lines() int { return s.set.File(s.file.Pos()).LineCount() }

// TestRooms checks every import against the table. With -v it prints the wings and the imports between them (`make
// rooms`).
func TestRooms(t *testing.T) {
	lines := map[string]int{}
	arrows := map[[2]string]int{}
	for _, s := range sources(t, ".") {
		if strings.HasPrefix(s.path, "docs/") || strings.HasPrefix(s.path, ".") {
			continue
		}
		own := wingOf(filepath.ToSlash(filepath.Dir(s.path)))
		require.NotEmpty(t, own.path, "%s is in no room", s.path)
		if !strings.HasSuffix(s.path, ".pb.go") {
			lines[own.path] += s.lines()
		}
		for _, path := range s.imports() {
			pkg, ours := strings.CutPrefix(path, "lockstep/")
			if !ours {
				continue
			}
			other := wingOf(pkg)
			if !own.mayImport(other) {
				t.Errorf("%s imports %s: %s may import %v", s.path, path, own.path, own.may)
			}
			if own.path != other.path {
				arrows[[2]string{own.path, other.path}]++
			}
		}
	}
	for _, w := range wings {
		var to []string
		for _, a := range slices.SortedFunc(maps.Keys(arrows), func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) }) {
			if a[0] == w.path {
				to = append(to, fmt.Sprintf("%s (%d)", a[1], arrows[a]))
			}
		}
		t.Logf("%-12s %6d lines -> %s", w.path, lines[w.path], strings.Join(to, ", "))
	}
}

// pure are the packages that core may import beside its own. What it uses of them reads no clock, disk, network,
// environment or randomness. Only direct imports count: fmt itself links os. Of io only the types of readers and
// writers are used, of robfig/cron the parser. calendar.LoadZone is the exception: time and time/tzdata read zone data.
var pure = []string{
	"bytes", "cmp", "compress/zlib", "container/list", "crypto/hmac", "crypto/sha1", "crypto/sha256", "embed", "encoding/base64", "encoding/binary", "encoding/hex", "encoding/json", "errors", "fmt", "github.com/robfig/cron/v3", "hash", "hash/crc32", "hash/fnv", "io", "iter", "maps", "math", "math/bits", "net/netip", "path",
	"regexp", "regexp/syntax", "slices", "sort", "strconv", "strings", "sync", "sync/atomic", "time", "time/tzdata", "unicode", "unicode/utf16", "unicode/utf8", "unique",
}

// impure are forbidden calls of packages that are otherwise pure.
var impure = []string{"time.Now", "time.Since", "time.Until", "time.Sleep", "time.After", "time.AfterFunc", "time.NewTimer", "time.NewTicker", "time.Tick"}

func TestCoreIsPure(t *testing.T) {
	for _, s := range sources(t, "core") {
		for _, path := range s.imports() {
			require.True(t, slices.Contains(pure, path) || strings.HasPrefix(path, "lockstep/"), "%s imports %s", s.path, path)
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

// waiting are calls that actors must not make, each with its replacement.
var waiting = map[string]string{
	"SetReceiveTimeout": "act.SendAfter",
	"Stash":             "a slice of what is held",
	"ReenterAfter":      "a message and an answer",
	"RequestFuture":     "ctx.Request; only edges wait",
}

// outside are packages that would let an actor wait or escape the simulator.
var outside = []string{"math/rand", "math/rand/v2", "os", "net", "sync", "github.com/asynkron/protoactor-go/scheduler",
	"github.com/asynkron/protoactor-go/router", "github.com/asynkron/protoactor-go/remote"}

// Actors take the time from kit.Clock, start no goroutine and never wait, because the simulator controls none of
// this, and some of it is broken in the framework. Exceptions are actors/kit, which wraps the framework and the
// clock, and the packages for tests.
func TestActorsDoNotWait(t *testing.T) {
	for _, s := range sources(t, "actors") {
		if strings.HasPrefix(s.path, "actors/kit") || strings.HasPrefix(s.path, "actors/conn/conntest/") ||
			strings.HasPrefix(s.path, "actors/config/configstore/configstoretest/") {
			continue
		}
		for _, path := range s.imports() {
			require.NotContains(t, outside, path, "%s imports %s", s.path, path)
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: actors start no goroutine", s.set.Position(n.Pos()))
			case *ast.SelectorExpr:
				if instead, bad := waiting[n.Sel.Name]; bad {
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

package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A test that draws statuses one by one asks for courses that the table of transitions forbids, and fails on a seed that shows no
// bug. Tests draw them with jobtest.Step and jobtest.Ends. The codec of job files is the exception: a file may say anything.
func TestGeneratorsOfStatusesStep(t *testing.T) {
	files := 0
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		files++
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && drawsStatus(call) {
				t.Errorf("%s: a status is drawn: use jobtest.Step", set.Position(n.Pos()))
			}
			return true
		})
		return err
	}))
	require.NotZero(t, files)
}

// drawsStatus reports whether a call chooses from listed statuses, or makes a status of a number that is drawn.
func drawsStatus(call *ast.CallExpr) bool {
	switch {
	case isSelector(call.Fun, "rapid", "SampledFrom"):
		list, ok := call.Args[0].(*ast.CompositeLit)
		if !ok {
			return false
		}
		elements, ok := list.Type.(*ast.ArrayType)
		return ok && isSelector(elements.Elt, "job", "Status")
	case isSelector(call.Fun, "job", "Status"):
		drawn := false
		ast.Inspect(call.Args[0], func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			drawn = drawn || ok && (s.Sel.Name == "Draw" || strings.HasPrefix(s.Sel.Name, "Int"))
			return true
		})
		return drawn
	}
	return false
}

func isSelector(e ast.Expr, pkg, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg
}

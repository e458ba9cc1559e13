package docs_test

import (
	"go/ast"
	"go/token"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestActorNames checks that an actor of the tree has one name: that of its folder is the name of its package, of its struct and of its
// kind in logs and metrics, of its place in the tree, of the constant with its address, of each field of a Config that has its PID, and of
// its row in actors/doc.go. The folder is in actors, or in actors/config if the actor owns the configuration in one of its forms. Fields
// and constants may have capitals in their middle (ConfdKey).
func TestActorNames(t *testing.T) {
	actors := actorsOfTree(t)
	require.Contains(t, actors, "clusterconfig")
	require.Len(t, actors, 26, "a new actor, or one that the test does not find")
	doc, err := os.ReadFile("../actors/doc.go")
	require.NoError(t, err)
	for name := range actors {
		require.Contains(t, string(doc), "\n//\t"+name+" ", "actors/doc.go has no row for %s", name)
	}
	for _, s := range sources(t, "actors") {
		folder, below, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(path.Dir(s.path), "actors/"), "config/"), "/")
		if !actors[folder] {
			continue
		}
		require.Equal(t, path.Base(path.Dir(s.path)), s.file.Name.Name, "the package of %s", s.path)
		for _, decl := range s.file.Decls {
			if f, is := decl.(*ast.FuncDecl); is && f.Recv == nil && f.Name.Name == "Props" && below == "" {
				checkProps(t, s, folder, f)
			}
		}
		for _, field := range pidFields(s.file) {
			known := field == "Master" // the actor of supervisor/node.go, which has no folder
			for name := range actors {
				known = known || strings.EqualFold(field, name)
			}
			require.True(t, known, "%s: the field %s of Config has the PID of an actor and not its name", s.path, field)
		}
	}
}

// actorsOfTree returns the folders of the actors that supervisor starts, and checks each child of its groups and each constant
// with an address.
func actorsOfTree(t *testing.T) map[string]bool {
	t.Helper()
	made := map[string]string{} // function that makes props to the package of the actor
	for _, s := range sources(t, "supervisor") {
		for _, decl := range s.file.Decls {
			if f, is := decl.(*ast.FuncDecl); is && strings.HasSuffix(f.Name.Name, "Props") {
				made[f.Name.Name] = packageOfProps(f)
			}
		}
	}
	actors := map[string]bool{}
	for _, pkg := range made {
		if pkg != "" {
			actors[pkg] = true
		}
	}
	for _, s := range sources(t, "supervisor") {
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				name, props := text(member(n, "name")), member(n, "props")
				if maker, is := props.(*ast.Ident); is && made[maker.Name] != "" {
					require.Equal(t, made[maker.Name], name, "%s: the name in the tree of the actor that %s makes", s.path, maker.Name)
				}
			case *ast.ValueSpec:
				checkAddress(t, s, n, actors)
			}
			return true
		})
	}
	return actors
}

// checkAddress checks the constant of an actor's address: its last element is the actor's name, and the constant is called after it.
func checkAddress(t *testing.T, s source, spec *ast.ValueSpec, actors map[string]bool) {
	t.Helper()
	if len(spec.Values) != 1 {
		return
	}
	sum, is := spec.Values[0].(*ast.BinaryExpr)
	if !is || sum.Op != token.ADD || !strings.HasPrefix(text(sum.Y), "/") {
		return
	}
	name, constant := path.Base(text(sum.Y)), spec.Names[0].Name
	require.True(t, actors[name] || name == "master", "%s: %s is the address of no actor: %s", s.path, constant, name)
	own := strings.TrimSuffix(constant, "Name")
	require.True(t, strings.EqualFold(own, name) || strings.EqualFold(own, "node"+name), "%s: %s is the address of %s", s.path, constant, name)
}

// packageOfProps is the package whose Props a function returns, and "" if it does not.
func packageOfProps(f *ast.FuncDecl) string {
	found := ""
	ast.Inspect(f, func(n ast.Node) bool {
		if call, is := n.(*ast.CallExpr); is {
			if sel, is := call.Fun.(*ast.SelectorExpr); is && sel.Sel.Name == "Props" {
				if pkg, is := sel.X.(*ast.Ident); is {
					found = pkg.Name
				}
			}
		}
		return true
	})
	return found
}

// checkProps checks the function that makes an actor: the kind that it gives and the struct that it makes.
func checkProps(t *testing.T, s source, name string, f *ast.FuncDecl) {
	t.Helper()
	kinds, structs := 0, 0
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if sel, is := n.Fun.(*ast.SelectorExpr); is && strings.HasSuffix(sel.Sel.Name, "Props") {
				for _, arg := range n.Args {
					if kind := text(arg); kind != "" {
						require.Equal(t, name, kind, "%s: the kind of the actor", s.path)
						kinds++
					}
				}
			}
		case *ast.FuncLit:
			if made := madeStruct(n.Body); made != "" {
				require.Equal(t, name, made, "%s: the struct of the actor", s.path)
				structs++
			}
		}
		return true
	})
	require.Positive(t, kinds, "%s: Props gives no kind", s.path)
	require.Positive(t, structs, "%s: Props makes no struct", s.path)
}

// madeStruct is the name of the package's struct that a function ends by returning, as &name{...} or in a variable that has this value.
func madeStruct(body *ast.BlockStmt) string {
	ret, is := body.List[len(body.List)-1].(*ast.ReturnStmt)
	if !is || len(ret.Results) != 1 {
		return ""
	}
	value := ret.Results[0]
	if variable, is := value.(*ast.Ident); is {
		for _, stmt := range body.List {
			if set, is := stmt.(*ast.AssignStmt); is && set.Tok == token.DEFINE && set.Lhs[0].(*ast.Ident).Name == variable.Name {
				value = set.Rhs[0]
			}
		}
	}
	if address, is := value.(*ast.UnaryExpr); is && address.Op == token.AND {
		if lit, is := address.X.(*ast.CompositeLit); is {
			if name, is := lit.Type.(*ast.Ident); is {
				return name.Name
			}
		}
	}
	return ""
}

// pidFields are the fields of the struct Config that have one PID.
func pidFields(file *ast.File) []string {
	var fields []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.TypeSpec)
		if !is || spec.Name.Name != "Config" {
			return true
		}
		config, is := spec.Type.(*ast.StructType)
		if !is {
			return false
		}
		for _, field := range config.Fields.List {
			star, is := field.Type.(*ast.StarExpr)
			if !is {
				continue
			}
			if sel, is := star.X.(*ast.SelectorExpr); is && sel.Sel.Name == "PID" {
				for _, name := range field.Names {
					fields = append(fields, name.Name)
				}
			}
		}
		return false
	})
	return fields
}

// member is the value of a field of a literal; nil if the literal has none.
func member(lit *ast.CompositeLit, field string) ast.Expr {
	for _, e := range lit.Elts {
		if kv, is := e.(*ast.KeyValueExpr); is {
			if key, is := kv.Key.(*ast.Ident); is && key.Name == field {
				return kv.Value
			}
		}
	}
	return nil
}

// text is the value of a string literal, and "" of another expression.
func text(e ast.Expr) string {
	lit, is := e.(*ast.BasicLit)
	if !is || lit.Kind != token.STRING {
		return ""
	}
	value, _ := strconv.Unquote(lit.Value)
	return value
}

package opcodes

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"testing"

	"lockstep/core/answer"
	"lockstep/core/opcode"
)

// The opcodes described as built-in are those with a case in lockstep-job.
func TestBuiltinOpcodesAreThoseOfTheJobProcess(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../../lockstep-job/execute.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var cases []string
	ast.Inspect(file, func(n ast.Node) bool {
		clause, ok := n.(*ast.CaseClause)
		if !ok {
			return true
		}
		for _, one := range clause.List {
			if literal, ok := one.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				name, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				cases = append(cases, name)
			}
		}
		return true
	})
	slices.Sort(cases)
	if said := slices.Sorted(maps.Keys(builtinOpcodes())); !slices.Equal(cases, said) {
		t.Errorf("lockstep-job runs %q, the command line describes %q", cases, said)
	}
	builtin := opcode.Builtin()
	said := slices.DeleteFunc(slices.Clone(builtin.Names()), func(name string) bool {
		known, _ := builtin.Lookup(name)
		return !known.Runs()
	})
	if !slices.Equal(cases, said) {
		t.Errorf("lockstep-job runs %q, the daemon says %q", cases, said)
	}
}

// The examples are submissions that the daemon would accept.
func TestExamplesOfOpcodesAreValid(t *testing.T) {
	catalogue, err := opcode.Builtin().With([]opcode.Definition{{
		Name: "OP_A", Command: []string{"a"}, Params: []opcode.ParamDefinition{
			{Name: "locks", Type: "List of LockName", Required: true},
			{Name: "path", Type: "AbsolutePath", Required: true},
			{Name: "pair", Type: "Tuple of (String, Seconds)", Required: true},
			{Name: "nested", Type: "Tuple of (String, (Tuple of (Integer, Boolean)))", Required: true},
			{Name: "ip", Type: "IPv6Address", Required: true},
			{Name: "either", Type: "None or IPv6Network", Required: true},
			{Name: "pass", Type: "String", Required: true, Secret: true},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range catalogue.Names() {
		known, _ := catalogue.Lookup(name)
		o := Opcode{answer.Opcode{Name: name}}
		for i := range known.Params {
			p := &known.Params[i]
			o.Params = append(o.Params, answer.OpcodeParam{Name: p.Name, Type: fmt.Sprint(p.Type), Required: p.Required()})
		}
		var ops []json.RawMessage
		if err := json.Unmarshal([]byte(o.example()), &ops); err != nil {
			t.Errorf("%s: %s: %v", name, o.example(), err)
			continue
		}
		if _, err := catalogue.Parse(ops[0]); err != nil {
			t.Errorf("%s: %v", o.example(), err)
		}
	}
}

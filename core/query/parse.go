package query

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"lockstep/core/rawjson"
)

// Limits of an expression. The longest are lists of job ids, about 20 bytes each.
const (
	SizeMax  = 4 << 20 // bytes
	depthMax = 256     // lists that are open around a place
)

// ParseError says what is wrong in an expression, and where.
type ParseError struct {
	Path   string // indices from the outside inwards, as "[1][2]"; "" for the expression itself
	Reason string
}

func (e *ParseError) Error() string { return "filter" + e.Path + ": " + e.Reason }

// Parse reads an expression (queue.md 2.1). Empty data is the same as null, which every item matches. The error is a
// *ParseError.
func Parse(data json.RawMessage) (*Expr, error) { return NewPatternBudget().Parse(data) }

// Parse is the function Parse within a budget, from which it takes the patterns. The error is a *ParseError.
func (a *PatternBudget) Parse(data json.RawMessage) (*Expr, error) {
	if len(data) > SizeMax {
		return nil, &ParseError{"", fmt.Sprintf("%d bytes are too many, at most %d are allowed", len(data), SizeMax)}
	}
	if len(bytes.TrimSpace(data)) == 0 {
		data = json.RawMessage("null")
	}
	var raw json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil { // unlike a Decoder, it refuses text after the value
		return nil, &ParseError{"", "not valid JSON: " + err.Error()}
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, &ParseError{"", "not valid JSON: " + err.Error()}
	}
	p := parser{expr: &Expr{}, fields: map[string]int{}, patterns: map[string]*Pattern{}, budget: a}
	tree, err := p.expression(value)
	if err != nil {
		return nil, err
	}
	p.expr.tree = tree
	p.expr.first = p.expr.link(&p.expr.tree, Yes, No)
	p.expr.cost = p.expr.costOfLeaves()
	return p.expr, nil
}

type parser struct {
	expr     *Expr
	fields   map[string]int      // index in expr.fields
	patterns map[string]*Pattern // a pattern that is repeated is compiled once
	budget   *PatternBudget      // for the other patterns
	path     []int               // the place of the list being read
}

// fail is an error at the list being read, or at an element of it, to which further indices lead.
func (p *parser) fail(further []int, format string, args ...any) error {
	var path []byte
	for _, i := range p.path {
		path = appendIndex(path, i)
	}
	for _, i := range further {
		path = appendIndex(path, i)
	}
	return &ParseError{string(path), fmt.Sprintf(format, args...)}
}

func (p *parser) expression(value any) (node, error) {
	if value == nil {
		return node{op: And}, nil
	}
	list, isList := value.([]any)
	if !isList || len(list) == 0 {
		return node{}, p.fail(nil, "an expression is null, or a list that begins with an operator; found %s", kindOf(value))
	}
	if len(p.path) >= depthMax {
		return node{}, p.fail(nil, "nested too deeply, at most %d levels are allowed", depthMax)
	}
	name, isString := list[0].(string)
	if !isString {
		return node{}, p.fail([]int{0}, "an operator is a string, found %s", kindOf(list[0]))
	}
	op, known := operatorOf(name)
	switch {
	case !known:
		return node{}, p.fail([]int{0}, "unknown operator %s, allowed are %s and =", rawjson.Quoted(name), strings.Join(operatorNames[:], " "))
	case op == Not && len(list) != 2:
		return node{}, p.fail(nil, "%q has 1 operand, an expression; found %d operands", name, len(list)-1)
	case op.inner():
		return p.inner(op, list)
	}
	return p.leaf(op, list)
}

func (p *parser) inner(op Operator, list []any) (node, error) {
	n := node{op: op}
	if len(list) > 1 {
		n.args = make([]node, 0, len(list)-1)
	}
	for i := 1; i < len(list); i++ {
		p.path = append(p.path, i)
		arg, err := p.expression(list[i])
		if err != nil {
			return node{}, err
		}
		p.path = p.path[:len(p.path)-1]
		n.args = append(n.args, arg)
	}
	return n, nil
}

func (p *parser) leaf(op Operator, list []any) (node, error) {
	switch {
	case op == True && len(list) != 2:
		return node{}, p.fail(nil, "%q has 1 operand, a field; found %d operands", list[0], len(list)-1)
	case op != True && len(list) != 3:
		return node{}, p.fail(nil, "%q has 2 operands, a field and what to compare it with; found %d operands", list[0], len(list)-1)
	}
	field, isString := list[1].(string)
	if !isString {
		return node{}, p.fail([]int{1}, "the name of a field is a string, found %s", kindOf(list[1]))
	}
	leaf := Leaf{Operator: op, Field: p.field(field)}
	var err error
	switch op {
	case True:
	case Matches:
		leaf.Pattern, err = p.pattern(list[2])
	case NotEqual:
		leaf.Operator = Equal
		fallthrough
	default:
		leaf.Value, err = p.literal(list[2])
	}
	p.expr.leaves = append(p.expr.leaves, leaf)
	return node{op: op, leaf: len(p.expr.leaves) - 1}, err
}

func (p *parser) field(name string) int {
	i, known := p.fields[name]
	if !known {
		i = len(p.expr.fields)
		p.fields[name] = i
		p.expr.fields = append(p.expr.fields, name)
	}
	return i
}

func (p *parser) pattern(value any) (*Pattern, error) {
	text, isString := value.(string)
	if !isString {
		return nil, p.fail([]int{2}, "a pattern is a string, found %s", kindOf(value))
	}
	if pattern, known := p.patterns[text]; known {
		return pattern, nil
	}
	pattern, err := p.budget.compile(text)
	if err != nil {
		return nil, p.fail([]int{2}, "%v", err)
	}
	p.patterns[text] = pattern
	return pattern, nil
}

func (p *parser) literal(value any) (Literal, error) {
	switch value := value.(type) {
	case string:
		return Literal{IsText: true, Text: value}, nil
	case json.Number:
		number, whole, fits := wholeNumber(value.String())
		switch {
		case !whole:
			return Literal{}, p.fail([]int{2}, "%s is not a whole number", rawjson.Clipped(value.String()))
		case !fits:
			return Literal{}, p.fail([]int{2}, "the number %s is out of range", rawjson.Clipped(value.String()))
		}
		return Literal{Number: number}, nil
	}
	return Literal{}, p.fail([]int{2}, "a value is a string or a whole number, found %s", kindOf(value))
}

// kindOf names a decoded JSON value in an error.
func kindOf(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(value)
	case string:
		return "the string " + rawjson.Quoted(value)
	case json.Number:
		return "the number " + rawjson.Clipped(value.String())
	case []any:
		if len(value) == 0 {
			return "an empty list"
		}
		return "a list"
	}
	return "an object"
}

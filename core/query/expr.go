package query

import (
	"slices"
	"strconv"

	"lockstep/core/rawjson"
)

// Operator is the first element of a list of an expression (queue.md 2.1).
type Operator uint8

const (
	And Operator = iota
	Or
	Not
	True // the field is boolean and true
	Equal
	NotEqual
	Less
	Greater
	LessEqual
	GreaterEqual
	Matches  // the field is a string in which the pattern is found
	Contains // the field is a list that contains the value
)

var operatorNames = [...]string{
	And: "&", Or: "|", Not: "!", True: "?", Equal: "==", NotEqual: "!=",
	Less: "<", Greater: ">", LessEqual: "<=", GreaterEqual: ">=", Matches: "=~", Contains: "=[]",
}

// String is the operator as clients write it.
func (o Operator) String() string { return operatorNames[o] }

// operatorOf is the inverse of String; false for any other text. It also accepts =, the old spelling of ==.
func operatorOf(name string) (Operator, bool) {
	if name == "=" {
		return Equal, true
	}
	i := slices.Index(operatorNames[:], name)
	return Operator(max(i, 0)), i >= 0
}

// Expr is a parsed expression, a query's filter or the parameter of a filter rule's predicate. It is immutable, so any
// number of readers may share it.
//
// It has two forms. The tree is the expression as it was written. An evaluation uses only the leaves: each has the next
// leaf for both of its results. This gives the order and the short-circuiting of the tree. The caller decides whether a
// leaf holds, because queries and rules define that differently.
type Expr struct {
	tree   node
	leaves []Leaf   // in the order of the text
	fields []string // each once, in the order of first use
	first  Step
	cost   int // of one evaluation, in tests of a field
}

// node is one list of the expression: And, Or or Not with args, or another operator with a leaf.
type node struct {
	op   Operator
	args []node
	leaf int // index in Expr.leaves
}

// Leaf is a test of one field.
type Leaf struct {
	Operator Operator // never And, Or or Not; NotEqual is Equal with exchanged next steps
	Field    int      // index in Fields()
	Value    Literal  // of all operators but True and Matches
	Pattern  *Pattern // of Matches only
	yes, no  Step
}

// Step is the next step of an evaluation: the index of a leaf, or an end.
type Step int32

const (
	Yes Step = -1 // the expression holds
	No  Step = -2 // the expression does not hold
)

// First is the first step of an evaluation. It is Yes or No if the result depends on no leaf, as in ["|", null, …].
func (e *Expr) First() Step { return e.first }

// Leaf is the leaf at step s, which must not be an end.
func (e *Expr) Leaf(s Step) *Leaf { return &e.leaves[s] }

// Leaves are all leaves, indexed by Step.
func (e *Expr) Leaves() []Leaf { return e.leaves }

// Fields are the names of the fields that are mentioned, each once, in the order of first use.
func (e *Expr) Fields() []string { return e.fields }

// Next is the next step, which depends on whether the leaf holds.
func (l *Leaf) Next(holds bool) Step {
	if holds {
		return l.yes
	}
	return l.no
}

// Holds reports whether a comparison is true of a field that is less than (negative), equal to (0) or greater than
// (positive) the value. It is false for operators that do not compare.
func (l *Leaf) Holds(order int) bool {
	switch l.Operator {
	case Equal:
		return order == 0
	case Less:
		return order < 0
	case Greater:
		return order > 0
	case LessEqual:
		return order <= 0
	case GreaterEqual:
		return order >= 0
	}
	return false
}

// link sets the next steps of the leaves below n, and returns the first step. Without leaves that is an end: And
// without arguments holds, Or does not.
func (e *Expr) link(n *node, yes, no Step) Step {
	switch n.op {
	case And:
		for i := len(n.args) - 1; i >= 0; i-- {
			yes = e.link(&n.args[i], yes, no)
		}
		return yes
	case Or:
		for i := len(n.args) - 1; i >= 0; i-- {
			no = e.link(&n.args[i], yes, no)
		}
		return no
	case Not:
		return e.link(&n.args[0], no, yes)
	case NotEqual:
		yes, no = no, yes
	}
	leaf := &e.leaves[n.leaf]
	leaf.yes, leaf.no = yes, no
	return Step(n.leaf)
}

// Literal is a value that a field is compared with: a string, or a whole number.
type Literal struct {
	IsText bool
	Text   string
	Number int64
}

// String is the literal as JSON.
func (v Literal) String() string {
	if v.IsText {
		return string(rawjson.Quote(v.Text))
	}
	return strconv.FormatInt(v.Number, 10)
}

// Path is the place of a leaf in the expression: "[2][1]" is the first operand of the second.
func (e *Expr) Path(s Step) string {
	path, found := appendPath(nil, &e.tree, int(s))
	if !found {
		panic("no leaf " + strconv.Itoa(int(s)))
	}
	return string(path)
}

func appendPath(dst []byte, n *node, leaf int) (path []byte, found bool) {
	if !n.op.inner() {
		return dst, n.leaf == leaf
	}
	for i := range n.args {
		if path, found = appendPath(appendIndex(dst, i+1), &n.args[i], leaf); found {
			return path, true
		}
	}
	return nil, false
}

func appendIndex(dst []byte, i int) []byte {
	return append(strconv.AppendInt(append(dst, '['), int64(i), 10), ']')
}

// inner reports whether the operands are expressions.
func (o Operator) inner() bool { return o <= Not }

// String is the expression as JSON, which Parse reads. It writes = as ==, and null as an And without operands.
func (e *Expr) String() string { return string(e.appendNode(nil, &e.tree)) }

func (e *Expr) appendNode(dst []byte, n *node) []byte {
	dst = append(dst, `["`...)
	dst = append(dst, n.op.String()...)
	dst = append(dst, '"')
	for i := range n.args {
		dst = e.appendNode(append(dst, ','), &n.args[i])
	}
	if !n.op.inner() {
		leaf := &e.leaves[n.leaf]
		dst = append(append(dst, ','), rawjson.Quote(e.fields[leaf.Field])...)
		switch n.op {
		case True:
		case Matches:
			dst = append(append(dst, ','), rawjson.Quote(leaf.Pattern.String())...)
		default:
			dst = append(append(dst, ','), leaf.Value.String()...)
		}
	}
	return append(dst, ']')
}

// FieldValues are the values of queue.md 2.3: if the expression selects only items whose field has one of these values,
// only those items need to be examined. They are in the order of the expression, with repetitions.
func (e *Expr) FieldValues(field string) (names []Literal, only bool) {
	if !e.comparesOnly(&e.tree, field) {
		return nil, false
	}
	for i := range e.leaves {
		names = append(names, e.leaves[i].Value)
	}
	return names, true
}

func (e *Expr) comparesOnly(n *node, field string) bool {
	if n.op == Or {
		return !slices.ContainsFunc(n.args, func(arg node) bool { return !e.comparesOnly(&arg, field) })
	}
	return n.op == Equal && e.fields[e.leaves[n.leaf].Field] == field
}

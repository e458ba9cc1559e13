package query

import (
	"slices"
	"strconv"

	"lockstep/core/rawjson"
)

// Operator is what a list of an expression begins with (queue.md 2.1).
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
	Matches  // the pattern is found somewhere in the field, which is a string
	Contains // the field is a list with the value among its elements
)

var operatorNames = [...]string{
	And: "&", Or: "|", Not: "!", True: "?", Equal: "==", NotEqual: "!=",
	Less: "<", Greater: ">", LessEqual: "<=", GreaterEqual: ">=", Matches: "=~", Contains: "=[]",
}

// String is the operator as clients write it.
func (o Operator) String() string { return operatorNames[o] }

// operatorOf is the inverse of String, and knows the old spelling of ==.
func operatorOf(name string) (Operator, bool) {
	if name == "=" {
		return Equal, true
	}
	i := slices.Index(operatorNames[:], name)
	return Operator(max(i, 0)), i >= 0
}

// Expr is a parsed expression, a query's filter or the parameter of a filter rule's predicate. It is never changed, so
// that any number of readers may share it.
//
// It is kept in two forms. The tree is the expression as it was written. For evaluation only the leaves matter: each
// knows which one to try next, once it is known whether it holds. That is the order and the short-circuiting of the tree
// without the tree, and it leaves what a leaf means to those who evaluate: a query and a rule do not agree on it.
type Expr struct {
	tree   node
	leaves []Leaf   // in the order in which they are written
	fields []string // each once, in the order of first mention
	first  Step
	cost   int // of one evaluation, in tests of a field
}

// node is one list of the expression: either And, Or or Not with args, or any other operator with a leaf.
type node struct {
	op   Operator
	args []node
	leaf int // index in Expr.leaves
}

// Leaf is a test of one field.
type Leaf struct {
	Operator Operator // never And, Or, Not; nor NotEqual, which is Equal with what follows exchanged
	Field    int      // index in Fields()
	Value    Literal  // of all operators but True and Matches
	Pattern  *Pattern // of Matches only
	yes, no  Step
}

// Step is where an evaluation goes on: the index of a leaf, or an end.
type Step int32

const (
	Yes Step = -1 // the expression holds
	No  Step = -2 // it does not
)

// First is where an evaluation begins. It is Yes or No at once if no leaf matters, as in ["|", null, …].
func (e *Expr) First() Step { return e.first }

// Leaf is the leaf to be tested at s, which is no end.
func (e *Expr) Leaf(s Step) *Leaf { return &e.leaves[s] }

// Leaves are all leaves; the index of each is its Step.
func (e *Expr) Leaves() []Leaf { return e.leaves }

// Fields are the names of the fields that are mentioned, each once, in the order of first mention.
func (e *Expr) Fields() []string { return e.fields }

// Next is where to go on, given whether the leaf holds.
func (l *Leaf) Next(holds bool) Step {
	if holds {
		return l.yes
	}
	return l.no
}

// Holds tells whether a comparison is true of a field that is less than (negative), equal to (0) or greater than
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

// link tells the leaves below n where to go on, and returns the first of them to be tested. If there is none it is the
// end itself: And without arguments holds, Or does not.
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

// inner: the operands are expressions.
func (o Operator) inner() bool { return o <= Not }

// String is the expression as JSON, which Parse reads. The old spelling of == has become the new one, and null an And
// without operands.
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

// FieldValues is the shortcut of queue.md 2.3: if the expression selects only items whose field name has one of some
// values, only those need to be examined. They are in the order asked, repetitions included.
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

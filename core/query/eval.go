package query

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"lockstep/core/job"
	"lockstep/core/rawjson"
)

// ValueStatus says whether a field has a value, or why it has none. The numbers are those on the wire (queue.md 2.4).
type ValueStatus uint8

const (
	Normal      ValueStatus = iota
	Unknown                 // no such field
	NoData                  // the value could not be determined
	Unavailable             // this item has no such value
	Offline                 // the node that knows the value is marked offline
)

// CompareMode is how a field is compared (queue.md 2.2).
type CompareMode uint8

const (
	ComparePlain    CompareMode = iota
	CompareSeconds              // a moment; only the whole seconds are compared
	CompareHostName             // also equal if the value is the part of the name before a dot
)

// Value is the value of a field of one item. Data is valid only if the status is Normal. It is nil, bool, string, int,
// int32, int64, job.ID, float64, json.Number, job.Timestamp, [2]int64 (seconds and microseconds), []string, []int,
// []any of these, or json.RawMessage for any of them in JSON. Data of another type compares with nothing.
type Value struct {
	Status ValueStatus
	Mode   CompareMode
	Data   any
}

// ValueSource gives the values of one item's fields to an expression, by name.
type ValueSource interface {
	Field(name string) Value
}

// FieldError is the error for a field that does not exist, or that has another type than the expression needs. It
// concerns the query as a whole, not an item (queue.md 2.2).
type FieldError struct {
	Path   string // of the test, as in ParseError
	Field  string
	Reason string
}

func (e *FieldError) Error() string { return "filter" + e.Path + ": " + e.Reason }

// CheckFields checks that all fields exist, also in branches that no evaluation reaches. The error is a *FieldError.
func (e *Expr) CheckFields(known func(name string) bool) error {
	for i, name := range e.fields {
		if known(name) {
			continue
		}
		at := slices.IndexFunc(e.leaves, func(l Leaf) bool { return l.Field == i })
		return e.fieldError(Step(at), unknownField(name))
	}
	return nil
}

func unknownField(name string) string { return "unknown field " + rawjson.Quoted(name) }

func (e *Expr) fieldError(at Step, reason string) error {
	return &FieldError{Path: e.Path(at), Field: e.fields[e.leaves[at].Field], Reason: reason}
}

// Match reports whether an item satisfies the expression (queue.md 2.2). The error is a *FieldError.
func (e *Expr) Match(item ValueSource) (bool, error) {
	at := e.first
	for at >= 0 {
		leaf := &e.leaves[at]
		name := e.fields[leaf.Field]
		holds, problem := leaf.evaluate(name, item.Field(name))
		if problem != "" {
			return false, e.fieldError(at, problem)
		}
		at = leaf.Next(holds)
	}
	return at == Yes, nil
}

// MayMatch reports whether an item may satisfy the expression, whatever the values of the unknown fields are. Two tests of an unknown field
// count as independent. An item with a *FieldError may satisfy it, so that Match reports the error.
func (e *Expr) MayMatch(item ValueSource, unknown func(field string) bool) bool {
	reached := make([]bool, len(e.leaves)) // each next step is a later leaf, or an end
	yes := false
	reach := func(s Step) {
		if s >= 0 {
			reached[s] = true
		}
		yes = yes || s == Yes
	}
	reach(e.first)
	for i := range e.leaves {
		if !reached[i] {
			continue
		}
		leaf := &e.leaves[i]
		name := e.fields[leaf.Field]
		if unknown(name) {
			reach(leaf.Next(true))
			reach(leaf.Next(false))
			continue
		}
		holds, problem := leaf.evaluate(name, item.Field(name))
		if problem != "" {
			return true
		}
		reach(leaf.Next(holds))
	}
	return yes
}

// costOfLeaves is the greatest cost of one evaluation, in tests of a field. A pattern costs by its instructions.
func (e *Expr) costOfLeaves() int {
	cost := len(e.leaves)
	for i := range e.leaves {
		if p := e.leaves[i].Pattern; p != nil {
			cost += p.cost
		}
	}
	return cost
}

// evaluate reports whether the leaf holds for a value, or what is wrong with it ("" if nothing is). A field that does not exist is wrong.
// A leaf holds for every other value that is not Normal, because it is not known to be false.
func (l *Leaf) evaluate(name string, v Value) (holds bool, problem string) {
	if v.Status == Unknown {
		return false, unknownField(name)
	}
	if v.Status != Normal {
		return true, ""
	}
	data := v.Data
	if raw, ok := data.(json.RawMessage); ok {
		data = decoded(raw)
	}
	var ok bool
	switch l.Operator {
	case True:
		holds, ok = data.(bool)
		problem = "is not boolean"
	case Matches:
		var text string
		text, ok = data.(string)
		holds = ok && l.Pattern.MatchesIn(text)
		problem = "is not a string, so that no pattern can match"
	case Contains:
		holds, ok = l.Value.isElementOf(data)
		problem = "is not a list of values like "
	default:
		holds, ok = l.compare(data, v.Mode)
		problem = "cannot be compared with "
	}
	if ok {
		return holds, ""
	}
	if l.Operator != True && l.Operator != Matches {
		problem += rawjson.Clipped(l.Value.String())
	}
	return false, "the field " + rawjson.Quoted(name) + " " + problem
}

// compare is false, false if the value is not of the literal's type.
func (l *Leaf) compare(data any, mode CompareMode) (holds, ok bool) {
	if mode == CompareSeconds {
		data = seconds(data)
	}
	if !l.Value.IsText {
		order, ok := compareNumber(data, l.Value.Number)
		return ok && l.Holds(order), ok
	}
	text, ok := data.(string)
	if !ok {
		return false, false
	}
	if mode == CompareHostName && l.Operator == Equal {
		rest, begins := strings.CutPrefix(text, l.Value.Text)
		return begins && (rest == "" || rest[0] == '.'), true
	}
	return l.Holds(strings.Compare(text, l.Value.Text)), true
}

// seconds is the compared part of a moment, or data itself if it has another form.
func seconds(data any) any {
	switch data := data.(type) {
	case job.Timestamp:
		return data.Sec
	case [2]int64:
		return data[0]
	case []any:
		if len(data) > 0 {
			return data[0]
		}
	case float64:
		return math.Floor(data)
	}
	return data
}

func compareNumber(data any, n int64) (order int, ok bool) {
	switch data := data.(type) {
	case int:
		return cmp.Compare(int64(data), n), true
	case int32:
		return cmp.Compare(int64(data), n), true
	case int64:
		return cmp.Compare(data, n), true
	case job.ID:
		return cmp.Compare(int64(data), n), true
	case json.Number:
		return CompareNumber([]byte(data), n), true
	case float64:
		return compareFloat(data, n), !math.IsNaN(data)
	}
	return 0, false
}

// isElementOf reports whether the value is an element of data. It is false, false if data is not a list of values of
// the same type, strings or whole numbers.
func (v Literal) isElementOf(data any) (found, ok bool) {
	switch data := data.(type) {
	case []string:
		return v.IsText && slices.Contains(data, v.Text), v.IsText || len(data) == 0
	case []int:
		return !v.IsText && slices.Contains(data, int(v.Number)), !v.IsText || len(data) == 0
	case []any:
		for _, element := range data {
			same, ok := v.equals(element)
			if !ok {
				return false, false
			}
			found = found || same
		}
		return found, true
	}
	return false, false
}

// equals compares with an element of a list. It is false, false for an element of the wrong type and for a number that
// is not whole.
func (v Literal) equals(element any) (same, ok bool) {
	if v.IsText {
		text, ok := element.(string)
		return text == v.Text, ok
	}
	switch element := element.(type) {
	case json.Number:
		n, whole, fits := wholeNumber(element.String())
		return fits && n == v.Number, whole
	case float64:
		return compareFloat(element, v.Number) == 0, element == math.Trunc(element)
	}
	order, ok := compareNumber(element, v.Number)
	return ok && order == 0, ok
}

// decoded is the decoded value, in which numbers are json.Number; raw itself if it is not JSON, nil if it is empty.
func decoded(raw json.RawMessage) any {
	if len(raw) == 0 { // null, as in job.Op
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return raw
	}
	return value
}

package query

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Question is what a client wants to know of one kind: these fields of the items that a filter lets through. It belongs
// to one conversation.
type Question[T any] struct {
	names  []string
	table  *Table[T]
	fields []*Field[T] // nil: there is no such field
	filter *Expr       // nil: everything matches
	tests  int         // of fields, that the filter may still make
	source source[T]
}

// testsMax bounds what the filter of one question costs, in tests of a field: those of twenty fields of a million jobs are
// a fiftieth of it. To make so many takes about a minute.
const testsMax = 1_000_000_000

// TooMuchWork is the error of a question whose filter would take too long.
type TooMuchWork struct{ Each int }

func (e *TooMuchWork) Error() string {
	return fmt.Sprintf("the filter takes too long: it costs %d tests for each item, and %d for all items are allowed; patterns are counted by their instructions", e.Each, testsMax)
}

// source gives the filter an item's values, as far as they are at hand.
type source[T any] struct {
	table *Table[T]
	item  *T
	have  Needs
	lacks bool // the filter has asked for more
}

func (s *source[T]) Field(name string) Value {
	f := s.table.byName[name]
	if f.Needs > s.have {
		s.lacks = true
		return unavailable()
	}
	return f.Value(s.item)
}

// Ask makes the question of a Query: unknown fields are no error, but for those in the filter. The error is a *ParseError
// or a *FieldError.
func (t *Table[T]) Ask(names []string, filter json.RawMessage) (*Question[T], error) {
	fields, _ := t.Find(names) // unknown ones are said to be that, cell by cell
	q := &Question[T]{names: names, table: t, fields: fields, source: source[T]{table: t}, tests: testsMax}
	expr, err := Parse(filter)
	if err != nil {
		return nil, err
	}
	if err := expr.CheckFields(func(name string) bool { return t.byName[name] != nil }); err != nil {
		return nil, err
	}
	if expr.First() != Yes {
		q.filter = expr
	}
	return q, nil
}

// AskPlainly makes the question of a classic call, which has no filter. The error is an *UnknownFields.
func (t *Table[T]) AskPlainly(names []string) (*Question[T], error) {
	fields, err := t.Find(names)
	if err != nil {
		return nil, err
	}
	return &Question[T]{names: names, table: t, fields: fields}, nil
}

// Definitions are those of the fields asked for.
func (q *Question[T]) Definitions() []Definition {
	if len(q.names) == 0 {
		return []Definition{}
	}
	return q.table.Define(q.names)
}

// Needs is what has to be at hand of an item for its row.
func (q *Question[T]) Needs() Needs {
	needs := NeedsListing
	for _, f := range q.fields {
		if f != nil {
			needs = max(needs, f.Needs)
		}
	}
	return needs
}

// Wants tells whether a field is asked for.
func (q *Question[T]) Wants(name string) bool { return slices.Contains(q.names, name) }

// Names are the values of the key field if the filter asks for nothing but items with one of these (queue.md 2.3): then
// none but these need to be looked at. They are in the order asked, repetitions included.
func (q *Question[T]) Names() (names []Literal, only bool) {
	if q.filter == nil || q.table.Key == "" {
		return nil, false
	}
	return q.filter.Names(q.table.Key)
}

// DropFilter lets every item match: for whoever looks at none but those that the filter names.
func (q *Question[T]) DropFilter() { q.filter = nil }

// Match tells whether an item is asked for. have is what is at hand of it; undecided means that the filter needs more.
// The error, a *FieldError or *TooMuchWork, is one of the whole question.
func (q *Question[T]) Match(item *T, have Needs) (matches, undecided bool, err error) {
	if q.filter == nil {
		return true, false, nil
	}
	if q.tests -= q.filter.cost; q.tests < 0 {
		return false, false, &TooMuchWork{q.filter.cost}
	}
	q.source.item, q.source.have, q.source.lacks = item, have, false
	matches, err = q.filter.Match(&q.source)
	q.source.item = nil
	if q.source.lacks {
		return false, true, nil
	}
	return matches, false, err
}

// AppendCells appends an item's row of a Query's answer: a list of [status, value]. A row by which dst becomes longer than
// limit is cut off.
func (q *Question[T]) AppendCells(dst []byte, item *T, limit int) []byte {
	dst = append(dst, '[')
	for i, f := range q.fields {
		if len(dst) > limit {
			return dst
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		v := Value{Status: Unknown}
		if f != nil {
			v = f.value(item)
		}
		dst = append(dst, '[', '0'+byte(v.Status), ',')
		dst = append(appendBare(dst, v), ']')
	}
	return append(dst, ']')
}

// AppendBare appends an item's row of a classic call's answer: a list of values, null for those that are not normal. A row
// by which dst becomes longer than limit is cut off.
func (q *Question[T]) AppendBare(dst []byte, item *T, limit int) []byte {
	dst = append(dst, '[')
	for i, f := range q.fields {
		if len(dst) > limit {
			return dst
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendBare(dst, f.value(item))
	}
	return append(dst, ']')
}

func appendBare(dst []byte, v Value) []byte {
	if v.Status != Normal {
		return append(dst, "null"...)
	}
	return appendJSON(dst, v.Data)
}

// Row is an item's values as a classic call gives them. A field that does not exist is null.
func Row[T any](fields []*Field[T], item *T) []any {
	row := make([]any, len(fields))
	for i, f := range fields {
		if f == nil {
			continue
		}
		if v := f.value(item); v.Status == Normal {
			row[i] = v.Data
		}
	}
	return row
}

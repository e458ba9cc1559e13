package query

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Query is what a client asks about one kind: these fields of the items that a filter selects. It belongs to one
// conversation.
type Query[T any] struct {
	names     []string
	table     *Table[T]
	fields    []*Field[T] // nil: there is no such field
	filter    *Expr       // nil: everything matches
	testsLeft int         // of fields, that the filter may still make
	source    partialItem[T]
}

// testsMax bounds what the filter of one query costs, in tests of a field: those of twenty fields of a million jobs
// are a fiftieth of it. To make so many takes about a minute.
const testsMax = 1_000_000_000

// FilterTooExpensive is the error of a query whose filter would take too long.
type FilterTooExpensive struct{ CostPerItem int }

func (e *FilterTooExpensive) Error() string {
	return fmt.Sprintf("the filter takes too long: it costs %d tests for each item, and %d for all items are allowed; patterns are counted by their instructions", e.CostPerItem, testsMax)
}

// partialItem gives the filter an item's values, as far as they are loaded.
type partialItem[T any] struct {
	table      *Table[T]
	item       *T
	level      DataLevel
	incomplete bool // the filter has asked for a value that is not loaded
}

func (s *partialItem[T]) Field(name string) Value {
	f := s.table.byName[name]
	if f.Level > s.level {
		s.incomplete = true
		return unavailable()
	}
	return f.Value(s.item)
}

// NewQuery makes a query: unknown fields are no error, except in the filter. The error is a *ParseError or a
// *FieldError.
func (t *Table[T]) NewQuery(names []string, filter json.RawMessage) (*Query[T], error) {
	fields, _ := t.Find(names) // unknown ones are said to be that, cell by cell
	q := &Query[T]{names: names, table: t, fields: fields, source: partialItem[T]{table: t}, testsLeft: testsMax}
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

// NewClassicQuery makes the query of a classic call, which has no filter. The error is an *UnknownFields.
func (t *Table[T]) NewClassicQuery(names []string) (*Query[T], error) {
	fields, err := t.Find(names)
	if err != nil {
		return nil, err
	}
	return &Query[T]{names: names, table: t, fields: fields}, nil
}

// Definitions are those of the fields asked for.
func (q *Query[T]) Definitions() []Definition {
	if len(q.names) == 0 {
		return []Definition{}
	}
	return q.table.Define(q.names)
}

// Level is how much must be loaded of an item for its row.
func (q *Query[T]) Level() DataLevel {
	level := LevelListing
	for _, f := range q.fields {
		if f != nil {
			level = max(level, f.Level)
		}
	}
	return level
}

// HasField tells whether a field is asked for.
func (q *Query[T]) HasField(name string) bool { return slices.Contains(q.names, name) }

// KeyValues are the values of the key field if the filter selects only items with one of these (queue.md 2.3): then
// only these need to be examined. They are in the order asked, repetitions included.
func (q *Query[T]) KeyValues() (names []Literal, only bool) {
	if q.filter == nil || q.table.Key == "" {
		return nil, false
	}
	return q.filter.FieldValues(q.table.Key)
}

// DropFilter lets every item match, for callers that examine only the items that the filter names.
func (q *Query[T]) DropFilter() { q.filter = nil }

// Match tells whether an item is selected. level is how much of it is loaded; undecided means that the filter needs
// more. The error, a *FieldError or *FilterTooExpensive, is about the complete query.
func (q *Query[T]) Match(item *T, level DataLevel) (matches, undecided bool, err error) {
	if q.filter == nil {
		return true, false, nil
	}
	if q.testsLeft -= q.filter.cost; q.testsLeft < 0 {
		return false, false, &FilterTooExpensive{q.filter.cost}
	}
	q.source.item, q.source.level, q.source.incomplete = item, level, false
	matches, err = q.filter.Match(&q.source)
	q.source.item = nil
	if q.source.incomplete {
		return false, true, nil
	}
	return matches, false, err
}

// AppendRow appends an item's row of a Query's answer: a list of [status, value]. A row by which dst becomes longer
// than limit is cut off.
func (q *Query[T]) AppendRow(dst []byte, item *T, limit int) []byte {
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
		dst = append(appendData(dst, v), ']')
	}
	return append(dst, ']')
}

// AppendClassicRow appends an item's row of a classic call's answer: a list of values, null for those that are not
// normal. A row by which dst becomes longer than limit is cut off.
func (q *Query[T]) AppendClassicRow(dst []byte, item *T, limit int) []byte {
	dst = append(dst, '[')
	for i, f := range q.fields {
		if len(dst) > limit {
			return dst
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendData(dst, f.value(item))
	}
	return append(dst, ']')
}

func appendData(dst []byte, v Value) []byte {
	if v.Status != Normal {
		return append(dst, "null"...)
	}
	return appendJSON(dst, v.Data)
}

// ClassicRow is an item's values as a classic call gives them. A field that does not exist is null.
func ClassicRow[T any](fields []*Field[T], item *T) []any {
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

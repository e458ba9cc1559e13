package query

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Query selects items of one kind by a filter and makes a row of each from some of its fields. One goroutine uses it.
type Query[T any] struct {
	names     []string
	table     *Table[T]
	fields    []*Field[T] // nil: the field does not exist
	filter    *Expr       // nil: everything matches
	testsLeft int         // the number of tests of fields that the filter may still make
	source    partialItem[T]
}

// testsMax bounds the cost of the filter of one query, in tests of a field. Twenty fields of a million jobs are a
// fiftieth of it. This many tests take about a minute.
const testsMax = 1_000_000_000

// FilterTooExpensive is the error of a query whose filter would take too long.
type FilterTooExpensive struct{ CostPerItem int }

func (e *FilterTooExpensive) Error() string {
	return fmt.Sprintf("the filter takes too long: it costs %d tests for each item, and %d for all items are allowed; "+
		"patterns are counted by their instructions", e.CostPerItem, testsMax)
}

// partialItem returns the loaded values of an item to the filter.
type partialItem[T any] struct {
	table      *Table[T]
	item       *T
	level      DataLevel
	incomplete bool // the filter needed a value that is not loaded
}

func (s *partialItem[T]) Field(name string) Value {
	f := s.table.byName[name]
	if f.Level > s.level {
		s.incomplete = true
		return unavailable()
	}
	return f.Value(s.item)
}

// NewQuery makes a query. Unknown fields are an error only in the filter. The error is a *ParseError or a *FieldError.
func (t *Table[T]) NewQuery(names []string, filter json.RawMessage) (*Query[T], error) {
	fields, _ := t.Find(names) // each cell of an unknown field has the status Unknown
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

// Definitions are the definitions of the query's fields.
func (q *Query[T]) Definitions() []Definition {
	if len(q.names) == 0 {
		return []Definition{}
	}
	return q.table.Define(q.names)
}

// Level is the part of an item that must be loaded for its row.
func (q *Query[T]) Level() DataLevel {
	level := LevelListing
	for _, f := range q.fields {
		if f != nil {
			level = max(level, f.Level)
		}
	}
	return level
}

// HasField reports whether the query has the field.
func (q *Query[T]) HasField(name string) bool { return slices.Contains(q.names, name) }

// KeyValues are the values of the key field if the filter selects only items with one of these values (queue.md 2.3).
// Then only those items need to be examined. The values are in the order of the filter, with repetitions.
func (q *Query[T]) KeyValues() (names []Literal, only bool) {
	if q.filter == nil || q.table.Key == "" {
		return nil, false
	}
	return q.filter.FieldValues(q.table.Key)
}

// Work is about the cost of Match, in steps of about 20 ns, if the texts are short.
func (q *Query[T]) Work() int {
	if q.filter == nil {
		return 1
	}
	return q.filter.cost
}

// DropFilter makes every item match, for callers that examine only the items that the filter names.
func (q *Query[T]) DropFilter() { q.filter = nil }

// Match reports whether the filter selects an item. level is the loaded part of the item; undecided means that the
// filter needs a further part. The error, a *FieldError or *FilterTooExpensive, is about the complete query.
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

// Copies is how often the query names the field that it names most often: how large a row is at most, in sizes of its item.
func (q *Query[T]) Copies() int { return Copies(q.fields) }

// Copies is how often the most frequent of these fields is there.
func Copies[T any](fields []*Field[T]) (most int) {
	times := make(map[*Field[T]]int, len(fields))
	for _, f := range fields {
		times[f]++
		most = max(most, times[f])
	}
	return most
}

// AppendRow appends an item's row of a Query's answer: a list of [status, value]. The row is cut off where dst becomes
// longer than limit.
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
// normal. The row is cut off where dst becomes longer than limit.
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

// ClassicRow is the values of an item in the form of a classic call. A field that does not exist is null.
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

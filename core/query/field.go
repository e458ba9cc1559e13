package query

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockstep/core/natural"
	"lockstep/core/rawjson"
)

// FieldType says how clients show a field (queue.md 2.4).
type FieldType string

const (
	UnknownType FieldType = "unknown"
	Text        FieldType = "text"
	Bool        FieldType = "bool"
	Number      FieldType = "number"
	Float       FieldType = "float"
	Unit        FieldType = "unit" // of storage or memory, in MiB
	Time        FieldType = "timestamp"
	Other       FieldType = "other"
)

// Definition describes a field to clients.
type Definition struct {
	Name  string    `json:"name"`
	Title string    `json:"title"`
	Type  FieldType `json:"kind"`
	Doc   string    `json:"doc"`
}

// DataLevel is the part of an item that must be loaded for the value of a field. Each level includes those before it.
type DataLevel uint8

const (
	LevelListing DataLevel = iota // nothing; the item must exist
	LevelInfo                     // the part in memory
	LevelFile                     // the file on the disk
	LevelLive                     // what only node daemons know
)

// Field is one field of a kind of items. T is an item.
type Field[T any] struct {
	Definition
	Mode  CompareMode
	Level DataLevel
	Live  LivePart // what of node daemons the value needs; 0: nothing
	value func(*T) Value
}

// Value is the value of the field for an item.
func (f *Field[T]) Value(item *T) Value {
	v := f.value(item)
	v.Mode = f.Mode
	return v
}

// field makes a Field of a kind whose items are loaded completely.
func field[T any](name, title string, kind FieldType, doc string, value func(*T) Value) Field[T] {
	return Field[T]{Definition: Definition{name, title, kind, doc}, value: value}
}

func normal(data any) Value { return Value{Data: data} }

func unavailable() Value { return Value{Status: Unavailable} }

// Table is the fields of one kind of items.
type Table[T any] struct {
	// Key is the field whose values select the items to examine (queue.md 2.3); "" for none.
	Key    string
	live   LivePart    // what of node daemons every query needs
	fields []*Field[T] // in natural order
	byName map[string]*Field[T]
}

func newTable[T any](key string, lists ...[]Field[T]) *Table[T] {
	t := &Table[T]{Key: key, byName: map[string]*Field[T]{}}
	for _, list := range lists {
		for i := range list {
			f := &list[i]
			if t.byName[f.Name] != nil {
				panic("the field " + f.Name + " is there twice")
			}
			t.byName[f.Name] = f
			t.fields = append(t.fields, f)
		}
	}
	slices.SortFunc(t.fields, func(a, b *Field[T]) int { return natural.Compare(a.Name, b.Name) })
	return t
}

// UnknownFields is the error of a classic query that asks for fields that do not exist (queue.md 1.3).
type UnknownFields struct{ Names []string }

func (e *UnknownFields) Error() string {
	return "Unknown output fields selected: " + strings.Join(e.Names, ", ")
}

// Find finds fields by name, in the order asked. A field that does not exist is nil in the result and named in the
// error, an *UnknownFields.
func (t *Table[T]) Find(names []string) ([]*Field[T], error) {
	fields := make([]*Field[T], len(names))
	var unknown []string
	for i, name := range names {
		if fields[i] = t.byName[name]; fields[i] == nil {
			unknown = append(unknown, name)
		}
	}
	if unknown != nil {
		return fields, &UnknownFields{unknown}
	}
	return fields, nil
}

// Define are the definitions of the named fields, in that order, or of all fields if none is named. A field that does
// not exist has the type "unknown".
func (t *Table[T]) Define(names []string) []Definition {
	definitions := make([]Definition, 0, max(len(names), len(t.fields)))
	if len(names) == 0 {
		for _, f := range t.fields {
			definitions = append(definitions, f.Definition)
		}
		return definitions
	}
	for _, name := range names {
		if f := t.byName[name]; f != nil {
			definitions = append(definitions, f.Definition)
		} else {
			definitions = append(definitions, Definition{name, name, UnknownType, "There is no field " + rawjson.Quoted(name)})
		}
	}
	return definitions
}

// kinds are the kinds of items that clients may query. Each is a Table.
var kinds = map[string]interface{ Define([]string) []Definition }{
	"job": Jobs, "lock": Locks, "filter": Filters,
	"node": Nodes.Table, "group": Groups.Table, "instance": Instances.Table, "network": Networks.Table, "export": Exports.Table,
}

// OpcodeOnly reports whether only an opcode can query the kind (queue.md 2.4).
func OpcodeOnly(kind string) bool { return kind == "cluster" || kind == "os" }

// UnknownKind is the error for a kind that does not exist.
type UnknownKind struct{ Kind string }

func (e *UnknownKind) Error() string {
	return fmt.Sprintf("%s is not a kind of things that can be asked for; there are %s",
		rawjson.Quoted(e.Kind), strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
}

// Definitions is Define of the kind's table. The error is an *UnknownKind.
func Definitions(kind string, names []string) ([]Definition, error) {
	table, known := kinds[kind]
	if !known {
		return nil, &UnknownKind{kind}
	}
	return table.Define(names), nil
}

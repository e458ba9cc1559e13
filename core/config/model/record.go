package model

import (
	"errors"
	"fmt"
	"slices"

	"lockstep/core/rawjson"
)

// field is one field of a type, or several fields that are decoded together. decode gets one raw value per name, nil if absent.
// A lenient object can lack strict fields (config.md 2.5).
type field[T any] struct {
	names  []string
	decode func(t *table[T], v *T, raw [][]byte, lenient bool) error
	append func(t *table[T], dst []byte, v *T) []byte // writes "name":value, for each that is to be written
}

// table is the list of fields of a type in encoding order.
type table[T any] struct {
	fields  []field[T]
	slots   map[string]int // number of a name
	allowed []string       // the names, ascending
	// forthcoming returns the mark of forthcoming objects; nil for types that have none.
	forthcoming func(*T) *bool
}

func newTable[T any](parts ...[]field[T]) *table[T] {
	t := &table[T]{fields: slices.Concat(parts...), slots: map[string]int{}}
	for _, f := range t.fields {
		for _, name := range f.names {
			t.slots[name] = len(t.slots)
			t.allowed = append(t.allowed, name)
		}
	}
	slices.Sort(t.allowed)
	return t
}

// errAbsent reports a missing required field. decodeFields replaces it by the full text.
var errAbsent = errors.New("absent")

// codec returns the codec of objects of the type. In lenient objects no strict field is required.
func (t *table[T]) codec(lenient bool) codec[T] {
	return codec[T]{
		decode: func(raw []byte) (T, error) { return t.decode(raw, lenient) },
		append: func(dst []byte, v T) []byte { return t.append(dst, &v) },
	}
}

// decode decodes an object. Unknown keys are errors, and of a repeated key the first value counts (config.md 1.1). lenient permits that
// fields are absent; an object that is marked as forthcoming is lenient, too.
func (t *table[T]) decode(raw []byte, lenient bool) (v T, err error) {
	if len(raw) == 0 || raw[0] != '{' {
		if t.forthcoming != nil {
			return v, errors.New("Need an object to branch on key forthcoming")
		}
		return v, errObject
	}
	values := make([][]byte, len(t.slots))
	var superfluous []string
	marked := false
	err = rawjson.ReadObject(raw, func(key, value []byte) {
		slot, known := t.slots[string(key)]
		switch {
		case known && values[slot] == nil:
			values[slot] = value
		case known:
		case t.forthcoming != nil && string(key) == "forthcoming":
			lenient = lenient || !marked && string(value) == "true"
			marked = true
		default:
			superfluous = append(superfluous, string(key))
		}
	})
	if err == nil && len(superfluous) > 0 {
		slices.Sort(superfluous)
		err = fmt.Errorf("Superfluous dictionary keys: %s, but only %s allowed.", textList(superfluous), textList(t.allowed))
	}
	if err != nil {
		return v, err
	}
	if t.forthcoming != nil {
		*t.forthcoming(&v) = lenient
	}
	return v, t.decodeFields(&v, raw, values, lenient)
}

func (t *table[T]) decodeFields(v *T, raw []byte, values [][]byte, lenient bool) error {
	first := 0
	for _, f := range t.fields {
		of := values[first : first+len(f.names)]
		first += len(f.names)
		if err := f.decode(t, v, of, lenient); errors.Is(err, errAbsent) {
			missing := slices.IndexFunc(of, func(raw []byte) bool { return raw == nil })
			return fmt.Errorf("key '%s' not found, object contains only %s", f.names[missing], textList(keys(raw)))
		} else if err != nil {
			return err
		}
	}
	return nil
}

// keys returns the keys of an object in their order.
func keys(raw []byte) []string {
	var all []string
	_ = rawjson.ReadObject(raw, func(key, _ []byte) { all = append(all, string(key)) }) // decode has checked the syntax
	return all
}

func textList(all []string) []byte { return list(text).append(nil, all) }

func (t *table[T]) append(dst []byte, v *T) []byte {
	dst = append(dst, '{')
	if t.forthcoming != nil && *t.forthcoming(v) {
		dst = append(dst, `"forthcoming":true,`...)
	}
	for _, f := range t.fields {
		dst = f.append(t, dst, v)
	}
	return closeWith(dst, '{')
}

// decodeField decodes the value of a field; an error names the field as Ganeti's decoder does.
func decodeField[V any](name string, c codec[V], raw []byte) (V, error) {
	v, err := c.decode(raw)
	if err != nil {
		return v, fmt.Errorf("Can't parse value for '%s': %w", name, err)
	}
	return v, nil
}

func appendField[V any](dst []byte, name string, c codec[V], v V) []byte {
	dst = append(append(append(dst, '"'), name...), '"', ':')
	return append(c.append(dst, v), ',')
}

// required returns a field that must be present.
func required[T, V any](name string, c codec[V], at func(*T) *V) field[T] {
	return field[T]{
		names: []string{name},
		decode: func(_ *table[T], v *T, raw [][]byte, _ bool) (err error) {
			if raw[0] == nil {
				return errAbsent
			}
			*at(v), err = decodeField(name, c, raw[0])
			return err
		},
		append: func(_ *table[T], dst []byte, v *T) []byte { return appendField(dst, name, c, *at(v)) },
	}
}

// optional returns a field that can be absent or null, which leaves it unset.
func optional[T, V any](name string, c codec[V], at func(*T) *Opt[V]) field[T] {
	f := strict(name, c, at)
	decode := f.decode
	f.decode = func(t *table[T], v *T, raw [][]byte, _ bool) error { return decode(t, v, raw, true) }
	return f
}

// strict returns a field that must be present. In lenient objects it can be absent or null, which leaves it unset.
func strict[T, V any](name string, c codec[V], at func(*T) *Opt[V]) field[T] {
	return field[T]{
		names: []string{name},
		decode: func(_ *table[T], v *T, raw [][]byte, lenient bool) error {
			if lenient && (raw[0] == nil || isNull(raw[0])) {
				return nil
			}
			if raw[0] == nil {
				return errAbsent
			}
			value, err := decodeField(name, c, raw[0])
			*at(v) = Some(value)
			return err
		},
		append: func(_ *table[T], dst []byte, v *T) []byte {
			if o := at(v); o.Set {
				dst = appendField(dst, name, c, o.Value)
			}
			return dst
		},
	}
}

// withDefault returns a field that has a default when it is absent or null. It is always encoded.
func withDefault[T, V any](name string, c codec[V], value V, at func(*T) *V) field[T] {
	f := required(name, c, at)
	decode := f.decode
	f.decode = func(t *table[T], v *T, raw [][]byte, lenient bool) error {
		if raw[0] == nil || isNull(raw[0]) {
			*at(v) = value
			return nil
		}
		return decode(t, v, raw, lenient)
	}
	return f
}

// unlessEmpty returns a container that is encoded only if it has entries.
func unlessEmpty[T, V any](name string, c codec[Dict[V]], at func(*T) *Dict[V]) field[T] {
	f := withDefault(name, c, nil, at)
	write := f.append
	f.append = func(t *table[T], dst []byte, v *T) []byte {
		if len(*at(v)) == 0 {
			return dst
		}
		return write(t, dst, v)
	}
	return f
}

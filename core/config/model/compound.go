package model

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"lockstep/core/rawjson"
)

// Opt is an optional value. The JSON value null counts as absent (config.md 1.1).
type Opt[V any] struct {
	Value V
	Set   bool
}

// Some returns a value that is set.
func Some[V any](v V) Opt[V] { return Opt[V]{v, true} }

// Dict is a JSON object whose keys are free, such as tags or parameters by hypervisor. Entries are sorted, and keys are unique.
type Dict[V any] []DictEntry[V]

// DictEntry is one entry of a Dict.
type DictEntry[V any] struct {
	Key   string
	Value V
}

// Get returns the value of a key; found is false without one.
func (d Dict[V]) Get(key string) (value V, found bool) {
	for i := range d { // linear: containers by hypervisor have another order
		if d[i].Key == key {
			return d[i].Value, true
		}
	}
	return value, false
}

func isNull(raw []byte) bool { return string(raw) == "null" }

// list returns the codec of lists.
func list[V any](c codec[V]) codec[[]V] {
	return codec[[]V]{
		decode: func(raw []byte) ([]V, error) {
			var all []V
			return all, elements(raw, func(value []byte) error {
				v, err := c.decode(value)
				all = append(all, v)
				return err
			})
		},
		append: func(dst []byte, all []V) []byte {
			dst = append(dst, '[')
			for _, v := range all {
				dst = append(c.append(dst, v), ',')
			}
			return closeWith(dst, '[')
		},
	}
}

// elements calls element for each element of a list. It stops at the first error.
func elements(raw []byte, element func(value []byte) error) error {
	if raw[0] != '[' {
		return errList
	}
	var bad error
	err := rawjson.ReadList(raw, func(value []byte) {
		if bad == nil {
			bad = element(value)
		}
	})
	return cmp.Or(bad, err)
}

// set is the codec of sets of strings. It sorts them and removes duplicates.
var set = codec[[]string]{
	decode: func(raw []byte) ([]string, error) {
		all, err := list(text).decode(raw)
		slices.Sort(all)
		return slices.Compact(all), err
	},
	append: list(text).append,
}

// dict returns the codec of containers that are sorted by key.
func dict[V any](c codec[V]) codec[Dict[V]] { return orderedDict(c, strings.Compare, nil) }

// orderedDict returns the codec of containers with a given order of keys. The last of several equal keys wins. check refuses keys when
// decoding; nil: all are good.
func orderedDict[V any](c codec[V], order func(a, b string) int, check func(key string) error) codec[Dict[V]] {
	decode := func(raw []byte) (Dict[V], error) {
		var d Dict[V]
		err := members(raw, func(key string, value []byte) error {
			if check != nil {
				if err := check(key); err != nil {
					return err
				}
			}
			v, err := c.decode(value)
			if err != nil {
				return fmt.Errorf("key '%s': %w", key, err)
			}
			d = append(d, DictEntry[V]{key, v})
			return nil
		})
		slices.SortStableFunc(d, func(a, b DictEntry[V]) int { return order(a.Key, b.Key) })
		kept := d[:0]
		for i, e := range d {
			if i+1 == len(d) || d[i+1].Key != e.Key {
				kept = append(kept, e)
			}
		}
		return kept, err
	}
	return codec[Dict[V]]{decode, func(dst []byte, d Dict[V]) []byte {
		dst = append(dst, '{')
		for _, e := range d {
			dst = append(c.append(append(AppendText(dst, e.Key), ':'), e.Value), ',')
		}
		return closeWith(dst, '{')
	}}
}

// members calls member for each member of a container. After the first error it calls no more, and returns that error. null is an error.
func members(raw []byte, member func(key string, value []byte) error) error {
	if isNull(raw) {
		return errors.New("Failed to load container, expected object but got null")
	}
	if len(raw) == 0 || raw[0] != '{' {
		return errObject
	}
	var bad error
	err := rawjson.ReadObject(raw, func(key, value []byte) {
		if bad == nil {
			bad = member(string(key), value)
		}
	})
	return cmp.Or(bad, err)
}

// enum returns the codec of a string that must be one of words. typeName names the enumeration in errors.
func enum(typeName string, words ...string) codec[string] {
	return codec[string]{
		decode: func(raw []byte) (string, error) {
			s, err := DecodeText(raw)
			if err != nil {
				return "", err
			}
			if i := slices.Index(words, s); i >= 0 {
				return words[i], nil // not s, which would keep its own memory
			}
			return "", fmt.Errorf("Invalid string value for type %s: %s", typeName, AppendText(nil, s))
		},
		append: AppendText,
	}
}

// tuple returns the elements of a list that must have a given length.
func tuple(raw []byte, want int, wrong error) ([][]byte, error) {
	var all [][]byte
	if err := elements(raw, func(value []byte) error { all = append(all, value); return nil }); err != nil || len(all) != want {
		return nil, wrong
	}
	return all, nil
}

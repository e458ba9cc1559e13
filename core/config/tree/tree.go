// Package tree implements a persistent sorted map. Put and Delete return a new map that shares all but a few nodes with the
// old one. A change therefore costs O(log n), and a reader of one version does not see later versions. Pure.
package tree

import (
	"iter"
	"slices"
	"sync/atomic"
)

// fanout is the maximum number of entries of a node. A change copies one node per level.
const fanout = 16

// Entry is a key and its value.
type Entry[V any] struct {
	Key   string
	Value V
}

// Map is an immutable map from strings to values. The zero Map is empty. Keys are ordered by bytes.
type Map[V any] struct {
	root  *node[V]
	count int
}

// node is a leaf (values) or an inner node (children). It does not change after it is part of a map, except for the cache chunk.
//
// Invariant: keys ascend. In an inner node, keys[i] is the lowest key below children[i]. Every node has at least one key.
type node[V any] struct {
	keys     []string
	values   []V
	children []*node[V]
	chunk    atomic.Pointer[[]byte] // of a leaf: what Chunks made of it
}

// Of builds a map from entries in ascending order of their keys, without duplicates.
func Of[V any](sorted []Entry[V]) Map[V] {
	var level []*node[V]
	for part := range slices.Chunk(sorted, fanout*3/4) {
		leaf := &node[V]{}
		for _, e := range part {
			leaf.keys, leaf.values = append(leaf.keys, e.Key), append(leaf.values, e.Value)
		}
		level = append(level, leaf)
	}
	for len(level) > 1 {
		var upper []*node[V]
		for part := range slices.Chunk(level, fanout*3/4) {
			inner := &node[V]{children: slices.Clone(part)}
			for _, child := range part {
				inner.keys = append(inner.keys, child.keys[0])
			}
			upper = append(upper, inner)
		}
		level = upper
	}
	if len(level) == 0 {
		return Map[V]{}
	}
	return Map[V]{level[0], len(sorted)}
}

// Len returns the number of entries.
func (m Map[V]) Len() int { return m.count }

// Get returns the value of a key; found is false without one.
func (m Map[V]) Get(key string) (value V, found bool) {
	n := m.root
	for n != nil && n.children != nil {
		n = n.children[n.child(key)]
	}
	if n == nil {
		return value, false
	}
	i, found := slices.BinarySearch(n.keys, key)
	if found {
		value = n.values[i]
	}
	return value, found
}

// Has reports whether the map contains a key.
func (m Map[V]) Has(key string) bool {
	_, found := m.Get(key)
	return found
}

// child returns the index of the child that contains key, or would contain it.
func (n *node[V]) child(key string) int {
	i, found := slices.BinarySearch(n.keys, key)
	if !found && i > 0 {
		i--
	}
	return i
}

// Put returns the map with key set to value. The map m stays as it is.
func (m Map[V]) Put(key string, value V) Map[V] {
	if m.root == nil {
		return Map[V]{&node[V]{keys: []string{key}, values: []V{value}}, 1}
	}
	left, right, added := m.root.put(key, value)
	if right != nil {
		left = &node[V]{keys: []string{left.keys[0], right.keys[0]}, children: []*node[V]{left, right}}
	}
	if added {
		m.count++
	}
	return Map[V]{left, m.count}
}

// put returns the node with the entry. If that exceeds fanout, it is split into left and right; else right is nil. added is false if the
// entry replaces one.
func (n *node[V]) put(key string, value V) (left, right *node[V], added bool) {
	c := &node[V]{keys: slices.Clone(n.keys)}
	if n.children == nil {
		i, found := slices.BinarySearch(n.keys, key)
		c.values = slices.Clone(n.values)
		if found {
			c.values[i] = value
			return c, nil, false
		}
		c.keys, c.values = slices.Insert(c.keys, i, key), slices.Insert(c.values, i, value)
		left, right = c.split()
		return left, right, true
	}
	i := n.child(key)
	c.children = slices.Clone(n.children)
	c.children[i], right, added = n.children[i].put(key, value)
	c.keys[i] = c.children[i].keys[0]
	if right != nil {
		c.keys, c.children = slices.Insert(c.keys, i+1, right.keys[0]), slices.Insert(c.children, i+1, right)
	}
	left, right = c.split()
	return left, right, added
}

func (n *node[V]) split() (left, right *node[V]) {
	if len(n.keys) <= fanout {
		return n, nil
	}
	half := len(n.keys) / 2
	right = &node[V]{keys: slices.Clone(n.keys[half:])}
	left = &node[V]{keys: n.keys[:half:half]}
	if n.children == nil {
		left.values, right.values = n.values[:half:half], slices.Clone(n.values[half:])
	} else {
		left.children, right.children = n.children[:half:half], slices.Clone(n.children[half:])
	}
	return left, right
}

// Delete returns the map without key. Small nodes are not merged, because the maps kept here rarely shrink.
func (m Map[V]) Delete(key string) Map[V] {
	if !m.Has(key) {
		return m
	}
	root := m.root.without(key)
	for root != nil && len(root.children) == 1 {
		root = root.children[0]
	}
	return Map[V]{root, m.count - 1}
}

// without returns the node without key, or nil if no entry is left. The node contains key.
func (n *node[V]) without(key string) *node[V] {
	i := n.child(key)
	if n.children != nil {
		if child := n.children[i].without(key); child != nil {
			c := &node[V]{keys: slices.Clone(n.keys), children: slices.Clone(n.children)}
			c.children[i], c.keys[i] = child, child.keys[0]
			return c
		}
	}
	if len(n.keys) == 1 {
		return nil
	}
	c := &node[V]{keys: slices.Delete(slices.Clone(n.keys), i, i+1)}
	if n.children == nil {
		c.values = slices.Delete(slices.Clone(n.values), i, i+1)
	} else {
		c.children = slices.Delete(slices.Clone(n.children), i, i+1)
	}
	return c
}

// All iterates over the entries in ascending order.
func (m Map[V]) All() iter.Seq2[string, V] { return m.From("") }

// From iterates over the entries with key >= low in ascending order.
func (m Map[V]) From(low string) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		if m.root != nil {
			m.root.each(low, yield)
		}
	}
}

// Chunks iterates over the chunks that encode makes of neighbouring entries: all entries, in ascending order. A chunk is made once
// for all maps that share its entries, so all calls for a map, and for those derived from it, must have the same encode. The
// caller must not modify a chunk.
func (m Map[V]) Chunks(encode func(keys []string, values []V) []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if m.root != nil {
			m.root.eachChunk(encode, yield)
		}
	}
}

func (n *node[V]) eachChunk(encode func(keys []string, values []V) []byte, yield func([]byte) bool) bool {
	for _, child := range n.children {
		if !child.eachChunk(encode, yield) {
			return false
		}
	}
	if n.children != nil {
		return true
	}
	chunk := n.chunk.Load()
	if chunk == nil {
		made := encode(n.keys, n.values)
		chunk = &made
		n.chunk.Store(chunk)
	}
	return yield(*chunk)
}

func (n *node[V]) each(low string, yield func(string, V) bool) bool {
	i := 0
	if low != "" {
		i = n.child(low)
	}
	for ; i < len(n.keys); i++ {
		if n.children != nil {
			if !n.children[i].each(low, yield) {
				return false
			}
			continue
		}
		if n.keys[i] >= low && !yield(n.keys[i], n.values[i]) {
			return false
		}
	}
	return true
}

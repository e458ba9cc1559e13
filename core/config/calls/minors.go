package calls

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"lockstep/core/config/model"
)

// Calls about DRBD minors (config.md 4.6 and 5.3).

func quotedList(all []string) string {
	var quoted []string
	for _, s := range all {
		quoted = append(quoted, string(model.AppendText(nil, s)))
	}
	return "[" + strings.Join(quoted, ",") + "]"
}

func allocateDRBDMinor(a *arguments) step {
	a.count(2)
	disk := a.text(0)
	nodes := read(a, 1, decodeTexts)
	return func(t *tx) ([]byte, error) {
		if len(slices.Compact(slices.Sorted(slices.Values(nodes)))) != len(nodes) {
			return nil, reservation("Duplicate nodes detected in list '" + quotedList(nodes) + "'")
		}
		var minors []int64
		t.Reserved, minors = t.Reserved.AllocateMinors(disk, nodes, t.env.Caller, t.config().Minors)
		dst := []byte{'['}
		for i, minor := range minors {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendInt(dst, minor, 10)
		}
		return append(dst, ']'), nil
	}
}

func releaseDRBDMinors(a *arguments) step {
	a.count(1)
	disk := a.text(0)
	return func(t *tx) ([]byte, error) {
		t.Reserved = t.Reserved.ReleaseMinors(disk)
		return void, nil
	}
}

// minorMap maps nodes and minors to disks, the last one found first.
type minorMap map[string]map[int64][]string

func (m minorMap) add(node string, minor int64, disk string) {
	if m[node] == nil {
		m[node] = map[int64][]string{}
	}
	m[node][minor] = append([]string{disk}, m[node][minor]...)
}

func (t *tx) minorMap() minorMap {
	m := minorMap{}
	for node := range t.config().Nodes.All() {
		m[node] = map[int64][]string{}
	}
	for uuid, top := range t.config().Disks.All() {
		top.Value.Each(func(d *model.Disk) {
			if l, is := d.DRBD(); is {
				m.add(l.A, l.MinorA, uuid)
				m.add(l.B, l.MinorB, uuid)
			}
		})
	}
	for _, node := range t.Reserved.MinorNodes() {
		for minor, disk := range t.Reserved.Minors(node) {
			m.add(node, minor, disk)
		}
	}
	return m
}

func computeDRBDMap(a *arguments) step {
	a.count(0)
	return func(t *tx) ([]byte, error) {
		m := t.minorMap()
		if twice := m.duplicates(); len(twice) > 0 {
			return nil, reservation("Duplicate DRBD ports detected: [" + strings.Join(twice, ",") + "]") // Ganeti's wording
		}
		dst := []byte{'['}
		for i, node := range slices.Sorted(maps.Keys(m)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(model.AppendText(append(dst, '['), node), ",["...)
			for j, minor := range slices.Sorted(maps.Keys(m[node])) {
				if j > 0 {
					dst = append(dst, ',')
				}
				dst = fmt.Appendf(dst, "[%d,%s]", minor, model.AppendText(nil, m[node][minor][0]))
			}
			dst = append(dst, "]]"...)
		}
		return append(dst, ']'), nil
	}
}

// duplicates formats the minors that several disks use as Ganeti's error has them, one text for each node that has such minors.
func (m minorMap) duplicates() []string {
	var nodes []string
	for _, node := range slices.Sorted(maps.Keys(m)) {
		var minors []string
		for _, minor := range slices.Sorted(maps.Keys(m[node])) {
			if disks := m[node][minor]; len(disks) > 1 {
				minors = append(minors, fmt.Sprintf("(%d,%s)", minor, quotedList(disks)))
			}
		}
		if len(minors) > 0 {
			nodes = append(nodes, fmt.Sprintf("(%s,[%s])", model.AppendText(nil, node), strings.Join(minors, ",")))
		}
	}
	return nodes
}

package reserve

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

func minorKey(node string, minor int64) string {
	return fmt.Sprintf("%s%s%019d", node, separator, minor)
}

func splitMinor(key string) (node string, minor int64) {
	node, digits, _ := strings.Cut(key, separator)
	minor, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		panic("reserve: not a key of a minor: " + key)
	}
	return node, minor
}

// Minors iterates over the reserved DRBD minors of a node in ascending order, with their disks.
func (s State) Minors(node string) iter.Seq2[int64, string] {
	return func(yield func(int64, string) bool) {
		for key, held := range s.minors.From(node + separator) {
			of, minor := splitMinor(key)
			if of != node || !yield(minor, held.Disk) {
				return
			}
		}
	}
}

// MinorNodes returns the uuids of the nodes with reserved minors, sorted.
func (s State) MinorNodes() []string {
	var nodes []string
	for key := range s.minors.All() {
		node, _ := splitMinor(key)
		nodes = append(nodes, node)
	}
	return slices.Compact(nodes)
}

// AllocateMinors reserves the lowest free minor of each node for a disk. used iterates over the minors in the configuration.
func (s State) AllocateMinors(disk string, nodes []string, by Caller, used func(node string) iter.Seq2[int64, string]) (State, []int64) {
	minors := []int64{}
	for _, node := range nodes {
		taken := map[int64]bool{}
		for minor := range used(node) {
			taken[minor] = true
		}
		for minor := range s.Minors(node) {
			taken[minor] = true
		}
		minor := int64(0)
		for taken[minor] {
			minor++
		}
		s.minors = s.minors.Put(minorKey(node, minor), minorReservation{disk, by})
		minors = append(minors, minor)
	}
	return s, minors
}

// ReleaseMinors returns the state without the reserved minors of a disk.
func (s State) ReleaseMinors(disk string) State {
	s.minors = without(s.minors, func(held minorReservation) bool { return held.Disk == disk })
	return s
}

// Equal reports whether two states have equal encodings.
func (s State) Equal(other State) bool {
	return string(s.Encode()) == string(other.Encode()) && string(s.EncodeExtra()) == string(other.EncodeExtra())
}

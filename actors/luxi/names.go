package luxi

import (
	"maps"
	"slices"
)

// Methods are the names of all methods, in order.
func Methods() []string { return slices.Sorted(maps.Keys(methods)) }

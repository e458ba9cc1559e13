package history

import (
	"slices"
	"strings"
)

// Query selects entries. The zero Query selects all.
type Query struct {
	Since float64 `json:"since,omitempty"` // time of the oldest entry
	// Object is the name or uuid of a changed object, perhaps after its kind and a slash; a kind; or the first labels of a name.
	Object string `json:"object,omitempty"`
	From   int64  `json:"from,omitempty"`  // the lowest serial number; 0: any
	To     int64  `json:"to,omitempty"`    // the highest serial number; 0: any
	Limit  int    `json:"limit,omitempty"` // how many of the newest entries; 0: all
	// Unlocked selects the changes of an object by a client without its lock.
	Unlocked bool `json:"unlocked,omitempty"`
}

// Select returns the entries that meet all conditions of a query, in their order. Of more than q.Limit entries it returns the last ones.
func Select(entries []Entry, q Query) []Entry {
	selected := slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool {
		return e.Time < q.Since || q.Unlocked && !e.IsUnlocked() || q.From > 0 && e.Serial < q.From || q.To > 0 && e.Serial > q.To ||
			q.Object != "" && !slices.ContainsFunc(e.Objects, func(d Difference) bool { return d.is(q.Object) })
	})
	if q.Limit > 0 && len(selected) > q.Limit {
		selected = selected[len(selected)-q.Limit:]
	}
	return selected
}

// is reports whether a reference of a query means the object.
func (d *Difference) is(reference string) bool {
	if reference == d.Kind {
		return true
	}
	reference = strings.TrimPrefix(reference, d.Kind+"/")
	return reference == d.UUID || d.Name != "" && (reference == d.Name || strings.HasPrefix(d.Name, reference+"."))
}

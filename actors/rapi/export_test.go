package rapi

import "slices"

// Resources are the methods, paths and names of all operations.
func Resources() []string {
	var all []string
	for _, r := range resources {
		for method, o := range r.operations {
			all = append(all, method+" "+r.path+" "+o.name)
		}
	}
	slices.Sort(all)
	return all
}

// ObjectOf and the like are for fuzzing.
func ObjectOf(body []byte) (map[string]raw, error) { return objectOf(body) }

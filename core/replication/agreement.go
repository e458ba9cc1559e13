package replication

import (
	"maps"
	"slices"

	"lockstep/messages"
)

// Agreement says what a comparison of the files of all nodes with the master's means (design.md "Equal files").
type Agreement struct {
	// Repair are the files that differ on some node while the master and others, a majority of the voters, have the same.
	Repair []string
	// Contested are the other files that differ: the master may be the one that is wrong.
	Contested []*messages.ContestedFile
}

// Agree judges the differences of the other nodes. A file is repaired from the master if a majority of the voters has it as the master
// does, else it is contested. A voter that did not answer does not count as agreeing.
func Agree(members []*messages.Member, master string, compared []*messages.NodeDifferences) Agreement {
	voters := map[string]bool{}
	for _, m := range members {
		if m.Voter {
			voters[m.Name] = true
		}
	}
	differs := map[string][]string{} // the nodes whose file differs, by path
	answering := 0                   // voters, the master included
	if voters[master] {
		answering = 1
	}
	for _, n := range compared {
		if !n.Answers {
			continue
		}
		if voters[n.Name] {
			answering++
		}
		for _, f := range n.Files {
			differs[f.Path] = append(differs[f.Path], n.Name)
		}
	}
	var a Agreement
	for _, path := range slices.Sorted(maps.Keys(differs)) {
		agreeing := answering
		for _, name := range differs[path] {
			if voters[name] {
				agreeing--
			}
		}
		if agreeing > len(voters)/2 {
			a.Repair = append(a.Repair, path)
		} else {
			a.Contested = append(a.Contested, &messages.ContestedFile{Path: path, Nodes: differs[path]})
		}
	}
	return a
}

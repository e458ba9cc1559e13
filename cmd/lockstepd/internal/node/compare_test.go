package node

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/messages"
)

// A difference is reported if it is found twice with the same content on the node: entries in transit are no difference.
func TestOnlyStandingDifferencesAreReported(t *testing.T) {
	master := checksums{"a": "1", "b": "1", "c": "1", "d": "1"}
	later := checksums{"a": "2", "b": "1", "c": "2", "d": "1"}
	node, nodeLater := checksums{"b": "0", "c": "0", "x": "1", "y": "1"}, checksums{"a": "2", "b": "0", "c": "1", "y": "1"}
	one := func(master, node checksums) comparison {
		return comparison{files: len(master), nodes: []comparedNode{{differs: differencesOf(master, node)}}}
	}
	first := one(master, node)
	require.Len(t, first.nodes[0].differs, 6)
	first.keepStanding(one(later, nodeLater))
	answer := first.answer([]*messages.Member{{Name: "n2"}})
	require.Equal(t, int64(4), answer.Files)
	found := map[string]messages.FileDifference_What{}
	for _, f := range answer.Nodes[0].Files {
		found[f.Path] = f.What
	}
	require.Equal(t, map[string]messages.FileDifference_What{
		"b": messages.FileDifference_DIFFERS, // the same content twice
		"d": messages.FileDifference_MISSING,
		"y": messages.FileDifference_EXTRA,
	}, found, "a came meanwhile, c has changed, x is gone")
}

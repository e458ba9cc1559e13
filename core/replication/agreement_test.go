package replication_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/replication"
	"lockstep/messages"
)

// n1 is the master. A node after "!" does not answer, one in parentheses has no vote.
func TestAgree(t *testing.T) {
	for name, c := range map[string]struct{ others, repair, contested string }{
		"nothing differs":                               {"n2: n3:", "", ""},
		"one of three differs":                          {"n2:a n3:", "a", ""},
		"both others differ":                            {"n2:a n3:a", "", "a on n2,n3"},
		"a node is away":                                {"n2:a !n3:", "", "a on n2"},
		"the other one of two":                          {"n2:a", "", "a on n2"},
		"a node without a vote":                         {"(n2):a", "a", ""},
		"it does not count for the majority":            {"n2:a (n3): (n4):", "", "a on n2"},
		"two of five differ, two files":                 {"n2:a,b n3:b n4: n5:", "a b", ""},
		"two of five differ, and one is away":           {"n2:a n3:b,a n4: !n5:", "b", "a on n2,n3"},
		"what a silent node is said to have is nothing": {"n2: !n3:a", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			members := []*messages.Member{{Name: "n1", Voter: true}}
			var compared []*messages.NodeDifferences
			for _, other := range strings.Fields(c.others) {
				node, files, _ := strings.Cut(other, ":")
				bare := strings.Trim(node, "!()")
				members = append(members, &messages.Member{Name: bare, Voter: !strings.HasPrefix(node, "(")})
				d := &messages.NodeDifferences{Name: bare, Answers: !strings.HasPrefix(node, "!")}
				for _, f := range strings.FieldsFunc(files, func(r rune) bool { return r == ',' }) {
					d.Files = append(d.Files, &messages.FileDifference{Path: f})
				}
				compared = append(compared, d)
			}
			a := replication.Agree(members, "n1", compared)
			require.Equal(t, c.repair, strings.Join(a.Repair, " "))
			var contested []string
			for _, x := range a.Contested {
				contested = append(contested, fmt.Sprintf("%s on %s", x.Path, strings.Join(x.Nodes, ",")))
			}
			require.Equal(t, c.contested, strings.Join(contested, " "))
		})
	}
}

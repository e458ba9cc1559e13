package jobs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJobsAreBelowTheirParents(t *testing.T) {
	var shown []string
	for _, job := range tree([]ListedJob{{ID: 3}, {ID: 4, Parent: 3}, {ID: 5}, {ID: 6, Parent: 4}, {ID: 7, Parent: 3}, {ID: 8, Parent: 2}, {ID: 9, Parent: 9}}) {
		shown = append(shown, treeMark(job.depth)+job.Status+string(rune('0'+job.ID)))
	}
	require.Equal(t, []string{"3", "└ 4", "  └ 6", "└ 7", "5", "8", "9"}, shown)
}

func TestTheIndentOfATreeIsBounded(t *testing.T) {
	require.Equal(t, strings.Repeat("  ", 9)+"└ ", treeMark(10))
	require.Equal(t, strings.Repeat("  ", 9)+"└ (11) ", treeMark(11))
	require.Equal(t, strings.Repeat("  ", 9)+"└ (5000) ", treeMark(5000))
}

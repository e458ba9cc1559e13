package sched

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/lock"
)

// designed is the table of designs.md "Job promotion algorithm". Tests compare with it
// too, not with the table under test.
type designed [demandKinds][demandKinds]struct{ apart, overlap float64 }

var ifSame = regexp.MustCompile(`^if j=i then ([0-9.]+) else ([0-9.]+)$`)

func readDesign(t require.TestingT) *designed {
	text, err := os.ReadFile("testdata/comparison.txt")
	require.NoError(t, err)
	var rows [][]string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	number := func(s string) float64 {
		x, err := strconv.ParseFloat(s, 64)
		require.NoError(t, err)
		return x
	}
	var d designed
	require.Len(t, rows, demandKinds+1)
	for r, row := range rows[1:] {
		require.Len(t, row, demandKinds+1)
		require.Equal(t, strings.ReplaceAll(rows[0][r+1], "j", "i"), row[0])
		for c, text := range row[1:] {
			if m := ifSame.FindStringSubmatch(text); m != nil {
				d[r][c].overlap, d[r][c].apart = number(m[1]), number(m[2])
			} else {
				d[r][c].apart = number(text)
				d[r][c].overlap = d[r][c].apart
			}
		}
	}
	return &d
}

func TestConflictsAreTheDesigns(t *testing.T) {
	want := readDesign(t)
	for r := range conflicts {
		for c, cell := range conflicts[r] {
			require.EqualValues(t, math.Round(10*want[r][c].apart), cell.apart, "row %d column %d", r, c)
			require.EqualValues(t, math.Round(10*want[r][c].overlap), cell.overlap, "row %d column %d", r, c)
		}
	}
}

// A demandMask has one bit for a common name, whichever claims conflict.
func TestANameInCommonIsTheWorstCase(t *testing.T) {
	for r := range conflicts {
		for c, cell := range conflicts[r] {
			require.Contains(t, []int32{cell.apart, valueMax}, cell.overlap)
			if cell.apart != cell.overlap {
				mode := map[lock.DemandKind]lock.Mode{lock.SharedSet: lock.Shared, lock.ExclusiveSet: lock.Exclusive}[lock.DemandKind(c)]
				require.True(t, conflictsWith(lock.DemandKind(r), mode))
			}
		}
	}
	require.False(t, conflictsWith(lock.SharedSet, lock.Shared))
}

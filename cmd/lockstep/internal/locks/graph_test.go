package locks

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/cmd/internal/term"
	"lockstep/core/answer"
)

// The tree of many owners that wait for many has one line per pair.
func TestWaitGraphShowsEachPairOnce(t *testing.T) {
	const layers, each = 6, 6
	state := lockState{}
	for layer := 1; layer < layers; layer++ {
		for i := range each {
			wait := answer.JobWait{ID: int64(100*layer + i)}
			for j := range each {
				wait.On = append(wait.On, answer.AwaitedJob{ID: int64(100*(layer-1) + j)})
			}
			state.Jobs = append(state.Jobs, wait)
		}
	}
	var out bytes.Buffer
	newWaitGraph(state).print(&out, term.Palette{})
	roots, pairs := each, (layers-1)*each*each
	require.Equal(t, roots+pairs, strings.Count(out.String(), "\n"))
}

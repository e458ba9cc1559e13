package job

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheNameOfASubmission(t *testing.T) {
	for input, want := range map[string]string{
		`{}`: "", `{"reason": []}`: "", `not JSON`: "", `{"reason": "lockstep:request"}`: "",
		`{"reason": [["a", "b", 1], ["lockstep:request", "x", 2]]}`:                 "x",
		`{"reason": [["lockstep:request"], ["lockstep:request", "y", 2]]}`:          "y",
		`{"reason": [["a", "lockstep:request", 1]]}`:                                "",
		`{"reason": [["lockstep:request", 5, 1]]}`:                                  "",
		`{"reason": [["lockstep:request", "` + strings.Repeat("x", 201) + `", 1]]}`: "",
	} {
		require.Equal(t, want, RequestName(json.RawMessage(input)), input)
	}
}

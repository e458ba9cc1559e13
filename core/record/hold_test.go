package record

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHold(t *testing.T) {
	_, held := Record{}.Hold()
	require.False(t, held)
	was := Record{}.WithName("nightly")
	r := was.WithHold(Hold{By: "uid=0(root), pid=1", SinceUs: 5})
	require.JSONEq(t, `{"name":"nightly","hold":{"by":"uid=0(root), pid=1","since":5}}`, string(r.Encode()))
	read, err := Decode(r.Encode())
	require.NoError(t, err)
	hold, held := read.Hold()
	require.True(t, held)
	require.Equal(t, Hold{By: "uid=0(root), pid=1", SinceUs: 5}, hold)
	require.Equal(t, was.Encode(), read.WithoutHold().Encode())
	require.Equal(t, "nightly", read.Name(), "the former record is as it was")

	later, err := Decode([]byte(`{"hold": "of a later version"}`))
	require.NoError(t, err)
	_, held = later.Hold()
	require.True(t, held)
}

package wire

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

type picky struct{}

var errPicky = errors.New("picky")

func (*picky) UnmarshalJSON([]byte) error { return errPicky }

func TestArguments(t *testing.T) {
	var text string
	var number int
	args := []json.RawMessage{json.RawMessage(`"a"`), json.RawMessage(`null`)}
	require.NoError(t, Arguments(args, &text, &number))
	require.Equal(t, "a", text)
	require.EqualError(t, RequiredArguments(args, &text, &number), "argument 2 is null")
	require.EqualError(t, Arguments(args, &text), "2 arguments, expected 1")
	require.EqualError(t, Arguments(args, &number, &number), "argument 1: a string is not what belongs here")
	var invalid *ArgumentError
	require.ErrorAs(t, Arguments(args, &picky{}, &number), &invalid)
	require.Equal(t, 1, invalid.Number)
	require.ErrorIs(t, invalid, errPicky)
}

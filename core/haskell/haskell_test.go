package haskell

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQuote(t *testing.T) {
	for s, want := range map[string]string{
		"":                `""`,
		"a \"b\"\\":       `"a \"b\"\\"`,
		"\n\t\r\x00\x1f1": `"\n\t\r\NUL\US1"`,
		"\x0eH\x0eh":      `"\SO\&H\SOh"`,
		"\x7fä1é\u20ac2x": `"\DEL\228\&1\233\8364\&2x"`,
		"\ufffd1\xff":     `"\65533\&1\65533"`,
	} {
		require.Equal(t, want, Quote(s))
	}
}

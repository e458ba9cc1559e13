package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAYearOfAFewDays(t *testing.T) {
	out, err := done(newYearCommand(), "--days", "4", "--kills", "2")
	require.NoError(t, err)
	require.Regexp(t, `^4 days, 2 kills, \d masters, \d+ steps in .* s\n96 due times: \d+ jobs on time, .*: good\n$`, out)
	out, err = done(newYearCommand(), "--days", "4", "--kills", "0", "--plant", "lost-firing")
	require.ErrorIs(t, err, errBroken)
	require.Contains(t, out, "the history has no such job")
	_, err = done(newYearCommand(), "--days", "1")
	require.ErrorContains(t, err, "at least 4 days")
}

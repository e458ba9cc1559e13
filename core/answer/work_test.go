package answer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
)

func TestWorkIsWhatPeopleTyped(t *testing.T) {
	for _, c := range []struct {
		summaries []string
		shown     int
		want      string
	}{
		{nil, 3, ""},
		{[]string{"RUN_COMMAND(rsync -a /srv/ backup:/srv/)"}, 3, "rsync -a /srv/ backup:/srv/"},
		{[]string{"RUN_COMMAND(sh -c (true))", "TEST_DELAY(1.0)"}, 3, "sh -c (true), TEST_DELAY(1.0)"},
		{[]string{"RUN_COMMAND(a)", "RUN_COMMAND(b)", "INSTANCE_STARTUP(i)"}, 1, "a and 2 more"},
		{[]string{"RUN_COMMAND"}, 1, "RUN_COMMAND"},
		{[]string{"RUN_COMMAND(a long comm…)"}, 1, "a long comm…"},
	} {
		require.Equal(t, c.want, answer.Work(c.summaries, c.shown))
	}
}

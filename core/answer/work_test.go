package answer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
)

func TestWorkIsWhatPeopleTyped(t *testing.T) {
	for _, c := range []struct {
		summaries []string
		want      string
	}{
		{nil, ""},
		{[]string{"RUN_COMMAND(rsync -a /srv/ backup:/srv/)"}, "rsync -a /srv/ backup:/srv/"},
		{[]string{"RUN_COMMAND(sh -c (true))", "TEST_DELAY(1.0)"}, "sh -c (true), TEST_DELAY(1.0)"},
		{[]string{"RUN_COMMAND(a)", "RUN_COMMAND(b)", "INSTANCE_STARTUP(i)", "c", "d"}, "a, b, INSTANCE_STARTUP(i) and 2 more"},
		{[]string{"RUN_COMMAND"}, "RUN_COMMAND"},
		{[]string{"RUN_COMMAND(a long comm…)"}, "a long comm…"},
	} {
		require.Equal(t, c.want, answer.Work(c.summaries))
	}
}

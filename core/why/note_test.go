package why_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
	"lockstep/core/why"
)

// One text stands beside a job in all lists: its end, why it waits, or its try.
func TestTheNoteBesideAJob(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(d time.Duration) *answer.Time { return &answer.Time{Time: now.Add(d)} }
	second := &answer.Try{Number: 2, Most: 6, Last: "exit 75"}
	for _, test := range []struct {
		want, why string
		job       answer.ListedJob
	}{
		{"", "", answer.ListedJob{Status: "running"}},
		{"", "", answer.ListedJob{Status: "running", Try: &answer.Try{Number: 1, Most: 6}}},
		{"try 2 of 6", "", answer.ListedJob{Status: "running", Try: second}},
		{"try 2 of 6 in 40s", "", answer.ListedJob{Status: "waiting", Try: second, Due: at(40 * time.Second)}},
		{"try 2 of 6 in 40s", "try 2 of 6 in 1m", answer.ListedJob{Status: "waiting", Try: second, Due: at(40 * time.Second)}}, // it counts down
		{"try 2 of 6 in 1s", "", answer.ListedJob{Status: "waiting", Try: second, Due: at(time.Millisecond)}},
		{"try 2 of 6", "try 2 of 6 in 1s", answer.ListedJob{Status: "waiting", Try: second, Due: at(-time.Second)}},
		{"held by ada", "held by ada", answer.ListedJob{Status: "waiting", Try: second, Due: at(time.Minute)}},
		{"no free slot", "no free slot", answer.ListedJob{Status: "waiting", Try: second, Due: at(-time.Second)}},
		{"starts in 2h", "", answer.ListedJob{Status: "queued", Due: at(2 * time.Hour)}},
		{"exit 75 (6 tries)", "", answer.ListedJob{Status: "error", Result: "exit 75 (6 tries)", Try: second, Ended: *at(0)}},
		{"", "", answer.ListedJob{Status: "success", Try: second, Ended: *at(0)}},
	} {
		require.Equal(t, test.want, why.Note(&test.job, test.why, now), "%+v", test)
	}
}

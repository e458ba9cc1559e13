package follow

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/cmd/internal/term"
	"lockstep/core/answer"
)

// Each job with progress has a line. The lines are overwritten together, and gone before other text.
func TestTheProgressOfSeveralJobs(t *testing.T) {
	now := time.Unix(1000, 0)
	said := func(id int64, text string) answer.ListedJob {
		return answer.ListedJob{ID: id, Progress: answer.NewProgress(-1, text, now.UnixMicro(), now.UnixMicro())}
	}
	var out bytes.Buffer
	l := ProgressLine{StatusLine: term.StatusLine{Out: &out, On: true}, Width: 20, Now: func() time.Time { return now }}
	written := func() string {
		defer out.Reset()
		return out.String()
	}
	show := func(jobs ...answer.ListedJob) string {
		l.Show(jobs, &JobOutput{}, "")
		return written()
	}
	const erase, above = "\r\x1b[K", "\x1b[A\r\x1b[K"
	require.Empty(t, show(answer.ListedJob{ID: 1}))
	require.Equal(t, erase+"job 1: a", show(said(1, "a"), answer.ListedJob{ID: 2}))
	require.Equal(t, erase+"job 1: a\r\njob 2: a text that…", show(said(1, "a"), said(2, "a text that is long")))
	require.Empty(t, show(said(1, "a"), said(2, "a text that is long")))
	require.Equal(t, erase+above+"job 2: b", show(said(2, "b")))
	require.Equal(t, erase, show())
	many := make([]answer.ListedJob, 100)
	for i := range many {
		many[i] = said(int64(i+1), "x")
	}
	require.Equal(t, erase+"job 1: x\r\njob 2: x\r\njob 3: x\r\njob 4: x\r\njob 5: x\r\nand 95 more jobs w…", show(many...))
	l.Clear()
	require.Equal(t, erase+above+above+above+above+above, written())
}

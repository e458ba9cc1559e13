package replicator

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/core/rawjson"
	"lockstep/core/replication"
	"lockstep/messages"
)

// contentOf is the file of a running job; begun opcodes are running, and log is its log.
func contentOf(id int64, begun int, log string) []byte {
	input := json.RawMessage(`{"OP_ID": "OP_TEST_DELAY", "duration": 1.0, "reason": []}`)
	j := job.New(job.ID(id), []json.RawMessage{input, input}, []int{0, 0}, job.Timestamp{Sec: 1}, "/l")
	j.Livelock = "/run/livelocks/" + paths.JobLivelockNameStart(id) + "_1"
	for i := range begun {
		j.Ops[i].Status, j.Ops[i].Start = job.Running, job.Timestamp{Sec: 2}
	}
	if log != "" {
		j.Ops[0].Log = append(j.Ops[0].Log, job.LogEntry{Serial: 1, Payload: rawjson.Quote(log)})
	}
	return job.Encode(j)
}

var (
	report = requester{}
	asks   = func(n uint64) requester { return requester{request: n} }
)

func TestOneEntryAboutAJobIsOnItsWay(t *testing.T) {
	s := observations{}
	first, second, third := contentOf(1, 0, ""), contentOf(1, 1, ""), contentOf(1, 2, "")
	require.Equal(t, hasChange, s.observe(1, first, report, logView{}))
	o := s[1]
	require.Equal(t, first, o.take())
	require.Equal(t, hasChange, s.observe(1, second, asks(7), logView{proposals: 1}))
	require.Nil(t, o.take(), "an entry is on its way")
	require.Equal(t, hasChange, s.observe(1, third, report, logView{proposals: 1}))
	require.Empty(t, s.proposed(1, o, true))
	require.Equal(t, third, o.take(), "the latest content")
	require.Equal(t, []requester{asks(7)}, s.proposed(1, o, false))
	require.Empty(t, s, "that was the last content")
}

func TestAReportOfLogLinesIsIgnored(t *testing.T) {
	s := observations{}
	s.observe(1, contentOf(1, 1, ""), report, logView{})
	s.proposed(1, s[1], true)
	require.Equal(t, ignored, s.observe(1, contentOf(1, 1, "text"), report, logView{}))
	require.Equal(t, hasChange, s.observe(1, contentOf(1, 1, "text"), asks(1), logView{}), "a request is not")
}

func TestAReportThatIsOlderThanTheLogIsIgnored(t *testing.T) {
	s := observations{}
	j, err := job.Decode(contentOf(1, 2, ""))
	require.NoError(t, err)
	require.Equal(t, ignored, s.observe(1, contentOf(1, 0, ""), report, logView{progress: replication.Progress(j)}))
	require.Equal(t, ignored, s.observe(1, contentOf(1, 2, ""), report, logView{proposals: 1}), "the daemon writes the file")
	require.Equal(t, ignored, s.observe(1, []byte("no job"), report, logView{}))
}

func TestARequestForAContentThatTheLogHasOrGets(t *testing.T) {
	s := observations{}
	content := contentOf(1, 1, "")
	require.Equal(t, inLog, s.observe(1, content, asks(1), logView{content: content}))
	require.Equal(t, hasChange, s.observe(1, content, asks(2), logView{}))
	o := s[1]
	o.take()
	require.Equal(t, ignored, s.observe(1, content, asks(3), logView{proposals: 1}))
	require.Equal(t, []requester{asks(2), asks(3)}, s.proposed(1, o, true))
}

func TestAWriteOfTheDaemonSupersedesAReport(t *testing.T) {
	s := observations{}
	write := &messages.WriteFiles{Files: []*messages.FileWrite{{Path: "queue/job-1"}, {Path: "config.data"}}}
	s.observe(1, contentOf(1, 1, ""), report, logView{})
	s.supersede(write)
	require.Empty(t, s)
	s.observe(1, contentOf(1, 1, ""), asks(1), logView{})
	s.supersede(write)
	require.NotNil(t, s[1].next, "a request is answered")
}

func TestEndedJobsAreForgotten(t *testing.T) {
	s := observations{}
	for id := range int64(20) {
		s.observe(id, contentOf(id, 1, ""), report, logView{})
	}
	running := replication.RunningJobs{3: {}}
	s.forgetEnded(running)
	require.Equal(t, "[3]", fmt.Sprint(keysOf(s)))
}

func keysOf(s observations) (ids []int64) {
	for id := range s {
		ids = append(ids, id)
	}
	return ids
}

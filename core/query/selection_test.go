package query

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/access"
	"lockstep/core/answer"
	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/core/record"
	"lockstep/messages"
)

func selected(id int64, status job.Status) *messages.JobInfo {
	return &messages.JobInfo{Id: id, Status: int32(status), Summary: []string{"RUN_COMMAND(make)", "TEST_DELAY(1.0)"}, ReceivedUs: id * 1e6,
		EndUs: 100e6 - id*1e6}
}

func TestASelection(t *testing.T) {
	info := &messages.JobInfo{Id: 7, Name: "nightly-2", User: "uid=1000(alice)", Summary: []string{"RUN_COMMAND(make)", "TEST_DELAY(1.0)"},
		Reasons: []string{"weekly", "disk 3 of n1"}, Status: int32(job.Error), ReceivedUs: 10, StartUs: 20, EndUs: 30}
	for text, want := range map[string]bool{
		`{}`: true, `{"ids": [6, 7]}`: true, `{"ids": [6]}`: false, `{"ids": []}`: false,
		`{"names": ["weekly", "nightly-2"]}`: true, `{"names": ["nightly"]}`: false, `{"names": ["night*"]}`: true, `{"names": ["nightly-?"]}`: true,
		`{"users": ["alice"]}`: true, `{"users": ["1000"]}`: true, `{"users": ["uid=1000"]}`: false, `{"users": [""]}`: false,
		`{"opcodes": ["OP_TEST_DELAY"]}`: true, `{"opcodes": ["TEST_*"]}`: true, `{"opcodes": ["OP_TEST"]}`: false,
		`{"reasons": ["disk 3"]}`: true, `{"reasons": ["disk 4"]}`: false,
		`{"searches": ["MAKE"]}`: true, `{"searches": ["ghtly-"]}`: true, `{"searches": ["delay(1"]}`: true, `{"searches": ["rsync", "make"]}`: true,
		`{"searches": ["run_command"]}`: false, `{"searches": ["make)"]}`: false, `{"searches": ["make"], "names": ["weekly"]}`: false,
		`{"statuses": ["error", "success"]}`: true, `{"statuses": ["running"]}`: false,
		`{"since_us": 30}`: true, `{"since_us": 31}`: false,
		`{"names": ["night*"], "statuses": ["running"]}`: false,
	} {
		var wanted answer.JobSelection
		require.NoError(t, json.Unmarshal([]byte(text), &wanted))
		s, err := NewSelection(wanted)
		require.NoError(t, err, text)
		require.Equal(t, want, s.Matches(info), text)
	}
	s, err := NewSelection(answer.JobSelection{Users: []string{"deploy"}, Names: []string{"*"}})
	require.NoError(t, err)
	require.False(t, s.Matches(&messages.JobInfo{User: "user=deploy"}), "a job without a name matches no pattern")
	require.True(t, s.Matches(&messages.JobInfo{User: "user=deploy", Name: "x"}))
}

func TestWhatIsNoSelection(t *testing.T) {
	for _, s := range []answer.JobSelection{
		{Names: []string{"[a"}}, {Names: []string{`\`}}, {Opcodes: []string{"a/b"}}, {Statuses: []string{"done"}}, {Limit: -1}, {MaxEnded: -1},
		{Users: make([]string, 1001)}, {Names: slices.Repeat([]string{"a*"}, 21)}, {Opcodes: []string{strings.Repeat("?", 101)}},
		{Names: slices.Repeat([]string{"a*"}, 11), Reasons: slices.Repeat([]string{"x"}, 10)}, {Reasons: []string{strings.Repeat("x", 101)}},
		{Searches: []string{strings.Repeat("x", 101)}}, {Searches: slices.Repeat([]string{"x"}, 21)},
	} {
		_, err := NewSelection(s)
		require.Error(t, err)
	}
}

// Names without patterns are compared, so that there may be many.
func TestASelectionOfManyNames(t *testing.T) {
	s, err := NewSelection(answer.JobSelection{Names: append(slices.Repeat([]string{strings.Repeat("n", 200)}, 900), "nightly", "b*")})
	require.NoError(t, err)
	require.True(t, s.Matches(&messages.JobInfo{Name: "nightly"}))
	require.True(t, s.Matches(&messages.JobInfo{Name: "beta"}))
	require.False(t, s.Matches(&messages.JobInfo{Name: "n"}))
}

// The work of the most expensive selection is about what it takes.
func BenchmarkMostExpensiveSelection(b *testing.B) {
	pattern := strings.Repeat("*a", 49) + "*b"
	s, err := NewSelection(answer.JobSelection{Names: slices.Repeat([]string{pattern}, 20)})
	require.NoError(b, err)
	info := &messages.JobInfo{Name: strings.Repeat("a", 200)}
	for b.Loop() {
		s.Matches(info)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(s.Work(info)), "ns/step")
}

func TestTheOrderOfAnAnswer(t *testing.T) {
	jobs := []*messages.JobInfo{selected(5, job.Success), selected(1, job.Queued), selected(2, job.Running), selected(3, job.Waiting), selected(4, job.Running),
		selected(6, job.Error), selected(7, job.Queued)}
	for _, c := range []struct {
		limits answer.JobSelection
		want   []int64
		more   int
	}{
		{answer.JobSelection{}, []int64{1, 2, 3, 4, 5, 6, 7}, 0},
		{answer.JobSelection{Limit: 2}, []int64{6, 7}, 5},
		{answer.JobSelection{MaxUnfinished: 4, MaxEnded: 1}, []int64{2, 4, 3, 1, 5}, 2},
		{answer.JobSelection{MaxUnfinished: 50, MaxEnded: 20}, []int64{2, 4, 3, 1, 7, 6, 5}, 0},
	} {
		s, err := NewSelection(c.limits)
		require.NoError(t, err)
		kept, more := s.Arrange(append([]*messages.JobInfo(nil), jobs...))
		var ids []int64
		for _, info := range kept {
			ids = append(ids, info.Id)
		}
		require.Equal(t, c.want, ids)
		require.Equal(t, c.more, more)
	}
}

// The encoding is that of answer.ListedJob.
func TestListedJobs(t *testing.T) {
	for _, info := range []*messages.JobInfo{
		{Id: 1, Summary: []string{}},
		{Id: 7, Name: "nightly", Status: int32(job.Error), Result: "exit 3 ä\"", User: "uid=0(root)", Priority: -5, Summary: []string{"A", "B(<c>)"},
			ReceivedUs: 1_000_002, StartUs: 2_000_000, EndUs: 3_000_001},
		{Id: 8, Summary: []string{}, Progress: &messages.CommandProgress{Percent: 40, Text: "copying ä\"", SinceUs: 100e6, UpdatedUs: 140e6}},
		{Id: 10, Summary: []string{}, Submitter: access.Submitter{UID: 1000, Name: "alice"}.Encode()},
		{Id: 9, Summary: []string{}, Progress: &messages.CommandProgress{Percent: -1, Text: "copying", SinceUs: 100e6, UpdatedUs: 140e6}},
	} {
		encoded := AppendListed(nil, info, info.Id == 7)
		var listed answer.ListedJob
		require.NoError(t, json.Unmarshal(encoded, &listed))
		back, err := json.Marshal(listed)
		require.NoError(t, err)
		require.JSONEq(t, string(encoded), string(back))
		require.Equal(t, info.Name, listed.Name)
		require.Equal(t, info.Result, listed.Result)
		require.Equal(t, info.Summary, listed.Summary)
		require.Equal(t, info.EndUs, max(0, listed.Ended.UnixMicro()))
		switch info.Id {
		case 8:
			require.Equal(t, 40.0, *listed.Progress.Percent)
			require.Equal(t, "copying ä\"", listed.Progress.Text)
			require.Equal(t, "40%", listed.Progress.Share())
			require.EqualValues(t, 200e6, listed.Progress.End.UnixMicro())
			require.Equal(t, "30s left, copying ä\"", listed.Progress.Words(time.UnixMicro(170e6), time.Duration.String))
			require.Equal(t, "copying ä\"", listed.Progress.Words(time.UnixMicro(200e6), time.Duration.String))
		case 9:
			require.Nil(t, listed.Progress.Percent)
			require.Equal(t, "copying", listed.Progress.Words(time.UnixMicro(170e6), time.Duration.String))
		case 10:
			require.Equal(t, &access.Submitter{UID: 1000, Name: "alice"}, listed.Submitter)
		default:
			require.Nil(t, listed.Submitter)
			require.Nil(t, listed.Progress)
		}
	}
}

func TestTheOriginOfAJob(t *testing.T) {
	j := jobtest.Queued(1)
	j.Ops[0].Input = []byte(`{"OP_ID": "X", "reason": [["gnt:user", "disk 3", 1], ["lockstep:request", "f00", 1], ["gnt:client:lockstep", "run", 1],
		["lockstep:user", "uid=1000(alice), pid=7", 1], ["gnt:opcode:x", "job=1;index=0", 1], 5, ["gnt:library:rlib2:x", "", 1]]}`)
	info := &messages.JobInfo{}
	AddOrigin(info, j)
	AddRecord(info, j, record.Record{}.WithName("nightly"))
	require.Equal(t, "uid=1000(alice)", info.User)
	require.Equal(t, []string{"disk 3"}, info.Reasons)
	require.Equal(t, "nightly", info.Name)
	AddOrigin(info, &job.Job{})
}

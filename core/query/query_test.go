package query

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/config"
	"lockstep/core/job"
	"lockstep/messages"
)

func jobItem(id job.ID, status job.Status, startUs int64) *JobItem {
	return &JobItem{ID: id, Info: &messages.JobInfo{Id: int64(id), Status: int32(status), ReceivedUs: 1_700_000_000_500_000, StartUs: startUs,
		Summary: []string{"TEST_DELAY(1.0)"}}}
}

func TestARowAndItsPlainForm(t *testing.T) {
	q, err := Jobs.NewQuery([]string{"id", "nosuch", "status", "start_ts", "received_ts", "summary"}, nil)
	require.NoError(t, err)
	item := jobItem(7, job.Queued, 0)
	require.Equal(t, `[[0,7],[1,null],[0,"queued"],[3,null],[0,[1700000000,500000]],[0,["TEST_DELAY(1.0)"]]]`, string(q.AppendRow(nil, item, 1<<20)))

	plain, err := Jobs.NewClassicQuery([]string{"id", "status", "start_ts"})
	require.NoError(t, err)
	require.Equal(t, `[7,"queued",null]`, string(plain.AppendClassicRow(nil, item, 1<<20)))
	gone := &JobItem{ID: 8, Unknown: true}
	require.Equal(t, `[8,null,null]`, string(plain.AppendClassicRow(nil, gone, 1<<20)))
	require.Equal(t, `[[0,8],[1,null],[3,null],[3,null],[3,null],[3,null]]`, string(q.AppendRow(nil, gone, 1<<20)))

	_, err = Jobs.NewClassicQuery([]string{"id", "a", "b"})
	require.EqualError(t, err, "Unknown output fields selected: a, b")
	none, err := Jobs.NewQuery(nil, nil)
	require.NoError(t, err)
	require.Empty(t, none.Definitions())
	require.Equal(t, `[]`, string(none.AppendRow(nil, item, 1<<20)))
}

func TestFiltersOnJobs(t *testing.T) {
	started, queued := jobItem(5, job.Running, 1_700_000_100_900_000), jobItem(6, job.Queued, 0)
	gone := &JobItem{ID: 7, Unknown: true}
	for filter, want := range map[string][3]bool{
		`null`:                                    {true, true, true},
		`["|"]`:                                   {false, false, false},
		`["==", "id", 6]`:                         {false, true, false},
		`["=", "status", "queued"]`:               {false, true, true},
		`["!", ["=", "status", "queued"]]`:        {true, false, false},
		`["==", "start_ts", 1700000100]`:          {true, true, true}, // only seconds count; jobs without a start match
		`[">", "start_ts", 1700000100]`:           {false, true, true},
		`["!", [">", "start_ts", 1700000100]]`:    {true, false, false},
		`["<=", "received_ts", 1700000000]`:       {true, true, true},
		`["=[]", "summary", "TEST_DELAY(1.0)"]`:   {true, true, true},
		`["?", "archived"]`:                       {false, false, true},
		`["=~", "status", "^(running|waiting)$"]`: {true, false, true},
	} {
		q, err := Jobs.NewQuery([]string{"id"}, json.RawMessage(filter))
		require.NoError(t, err)
		for i, item := range []*JobItem{started, queued, gone} {
			matches, undecided, err := q.Match(item, LevelFile)
			require.NoError(t, err)
			require.False(t, undecided)
			require.Equal(t, want[i], matches, "%s %d", filter, item.ID)
		}
	}
}

// A filter loads no further part of an item than it needs.
func TestAFilterThatNeedsTheFile(t *testing.T) {
	item := jobItem(5, job.Running, 1)
	for filter, undecided := range map[string]bool{
		`["&", ["==", "id", 6], ["=[]", "opstatus", "running"]]`: false,
		`["&", ["==", "id", 5], ["=[]", "opstatus", "running"]]`: true,
		`["=[]", "opstatus", "running"]`:                         true,
		`["!", ["=[]", "opstatus", "running"]]`:                  true,
		`["|", ["==", "id", 5], ["=[]", "opstatus", "running"]]`: false,
		`["&", ["=[]", "opstatus", "running"], ["?", "status"]]`: true, // the error waits for the file
	} {
		q, err := Jobs.NewQuery([]string{"id"}, json.RawMessage(filter))
		require.NoError(t, err)
		_, got, err := q.Match(item, LevelInfo)
		require.NoError(t, err)
		require.Equal(t, undecided, got, filter)
	}
	q, err := Jobs.NewQuery([]string{"id"}, json.RawMessage(`["==", "status", "running"]`))
	require.NoError(t, err)
	_, undecided, err := q.Match(&JobItem{ID: 5, Archived: true}, LevelListing)
	require.NoError(t, err)
	require.True(t, undecided)
}

func TestWhatIsWrongWithAQuery(t *testing.T) {
	for filter, want := range map[string]string{
		`["==", "nosuch", 1]`: `filter: unknown field "nosuch"`,
		`["|", ["==", "id", 5], ["&", ["|"], ["?", "gone"]]]`: `filter[2][2]: unknown field "gone"`, // not evaluated
		`["=*", "id", 1]`:       `filter[0]: unknown operator "=*", allowed are & | ! ? == != < > <= >= =~ =[] and =`,
		`["==", "id", 1.5]`:     `filter[2]: 1.5 is not a whole number`,
		`["=~", "status", "("]`: "filter[2]: the pattern \"(\" is not in RE2 syntax: error parsing regexp: missing closing ): `(`",
		`{`:                     `filter: not valid JSON: unexpected end of JSON input`,
	} {
		_, err := Jobs.NewQuery([]string{"id"}, json.RawMessage(filter))
		require.EqualError(t, err, want)
	}
	for filter, want := range map[string]string{
		`["==", "id", "5"]`:      `filter: the field "id" cannot be compared with "5"`,
		`["==", "status", 5]`:    `filter: the field "status" cannot be compared with 5`,
		`["?", "status"]`:        `filter: the field "status" is not boolean`,
		`["=~", "id", "5"]`:      `filter: the field "id" is not a string, so that no pattern can match`,
		`["=[]", "status", "q"]`: `filter: the field "status" is not a list of values like "q"`,
		`["==", "summary", "q"]`: `filter: the field "summary" cannot be compared with "q"`,
	} {
		q, err := Jobs.NewQuery([]string{"id"}, json.RawMessage(filter))
		require.NoError(t, err)
		_, _, err = q.Match(jobItem(1, job.Queued, 0), LevelFile)
		var wrong *FieldError
		require.ErrorAs(t, err, &wrong)
		require.EqualError(t, err, want)
	}
}

func TestTheJobsThatAFilterNames(t *testing.T) {
	for filter, want := range map[string][]int64{
		`["==", "id", 5]`: {5},
		`["|", ["=", "id", 7], ["|", ["==", "id", 5], ["=", "id", 7]]]`: {7, 5},
		`["|", ["=", "id", 7], ["=", "status", "queued"]]`:              nil,
		`["&", ["=", "id", 7]]`:                                         nil,
		`["!=", "id", 7]`:                                               nil,
		`["==", "id", "7"]`:                                             nil,
		`["==", "id", -7]`:                                              nil,
		`null`:                                                          nil,
		`["|", ["==", "id", 9], ["==", "id", 9], ["==", "id", 8]]`:            {9, 8},
		`["|", ["|", ["=", "id", 1]], ["|", ["=", "id", 2], ["=", "id", 3]]]`: {1, 2, 3},
	} {
		q, err := Jobs.NewQuery([]string{"id"}, json.RawMessage(filter))
		require.NoError(t, err)
		ids, only := JobIDs(q)
		require.Equal(t, want, ids, filter)
		require.Equal(t, want != nil, only, filter)
	}
	q, err := Jobs.NewQuery(nil, json.RawMessage(`["|"]`))
	require.NoError(t, err)
	ids, only := JobIDs(q)
	require.True(t, only, "nobody is asked for")
	require.Empty(t, ids)
}

func TestALockThatNobodyHolds(t *testing.T) {
	q, err := Locks.NewQuery([]string{"name", "mode", "owner", "pending"}, json.RawMessage(`["=~", "name", "^job/"]`))
	require.NoError(t, err)
	item := &LockItem{Name: "job/5", Pending: []LockWaiters{{Mode: "success,error", Owners: []string{"job/6", "job/7"}}}}
	matches, _, err := q.Match(item, LevelFile)
	require.NoError(t, err)
	require.True(t, matches)
	require.Equal(t, `[[0,"job/5"],[0,null],[0,[]],[0,[["success,error",["job/6","job/7"]]]]]`, string(q.AppendRow(nil, item, 1<<20)))
}

func TestARuleAsItIsStored(t *testing.T) {
	var rule config.Object
	require.NoError(t, json.Unmarshal([]byte(`{"uuid":"u","watermark":5,"predicates":[["jobid",[">","id","watermark"]]],"action":["RATE_LIMIT",3]}`), &rule))
	q, err := Filters.NewQuery([]string{"uuid", "watermark", "predicates", "action", "priority"}, json.RawMessage(`["|", ["==", "uuid", "u"]]`))
	require.NoError(t, err)
	_, only := q.KeyValues()
	require.False(t, only, "a uuid is no name")
	require.Equal(t, `[[0,"u"],[0,5],[0,[["jobid",[">","id","watermark"]]]],[0,["RATE_LIMIT",3]],[3,null]]`, string(q.AppendRow(nil, &rule, 1<<20)))
}

package luxi_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/luxi"
)

// A request is as large as it is, whatever the order of its keys.
func TestTheExtentOfARequest(t *testing.T) {
	for frame, want := range map[string]luxi.Extent{
		`{"method": "QueryJobs", "args": [[], ["id"]], "version": 1}`:      luxi.Whole,
		`{"args": [[ ], ["id"]], "method": "QueryJobs"}`:                   luxi.Whole,
		`{"method":"QueryJobs","args":[null,["id"]]}`:                      luxi.Whole,
		`{"method": "QueryJobs", "args": [[1, 2], ["id"]]}`:                luxi.Paged,
		`{"version": 1, "method": "LockstepPageJobs", "args": [{}]}`:       luxi.Paged,
		`{"method": "Query", "args": ["job", ["id"], null]}`:               luxi.Whole,
		`{"method": "SubmitJob", "args": [[]]}`:                            luxi.Part,
		`{"method": "WaitForJobChange", "args": [1, ["status"], [], 0]}`:   luxi.Waits,
		`{"method": "LockstepTestFilter", "args": [null, 0, [], "PAUSE"]}`: luxi.Preview,
		`{"method": "Nonsense`:                                             luxi.Part,
		``:                                                                 luxi.Part,
	} {
		require.Equal(t, want, luxi.ExtentOf([]byte(frame)), frame)
	}
}

func TestWhichRequestsDependOnTheJobOfTheirClient(t *testing.T) {
	for frame, want := range map[string]bool{
		`{"method": "SubmitJob", "args": [[]]}`:                                                    true,
		`{"args": [[6]], "method": "LockstepAwaitJobs"}`:                                           true,
		`{"method": "WaitForJobChange", "args": [6, ["status"], null, null, 10], "version": 3000}`: true,
		`{"method": "QueryJobs", "args": [[6], ["status"]]}`:                                       false,
		`SubmitJob`: false,
	} {
		require.Equal(t, want, luxi.DependsOnJob([]byte(frame)), frame)
	}
}

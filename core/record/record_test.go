package record_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/core/record"
)

func TestARecord(t *testing.T) {
	var none record.Record
	require.True(t, none.Empty())
	require.Equal(t, "{}\n", string(none.Encode()))

	one := none.WithDependencyEnd(12, job.Success)
	two := one.WithDependencyEnd(3, job.Canceled)
	require.Equal(t, `{"dependencies":{"12":"success"}}`+"\n", string(one.Encode()), "With changes no other record")
	require.Equal(t, `{"dependencies":{"12":"success","3":"canceled"}}`+"\n", string(two.Encode()))
	status, known := two.DependencyEnd(3)
	require.True(t, known)
	require.Equal(t, job.Canceled, status)
	_, known = two.DependencyEnd(4)
	require.False(t, known)
	require.Equal(t, one.Encode(), two.WithoutDependencyEnd(3).Encode())
	require.True(t, one.WithoutDependencyEnd(12).Empty())
	require.Panics(t, func() { none.WithDependencyEnd(1, job.Running) })
}

// Keys that a later version has written survive a rewrite by this version.
func TestUnknownKeysAreKept(t *testing.T) {
	r, err := record.Decode([]byte(`{"who": {"uid": 7}, "dependencies": {"1": "success", "2": "vanished", "x": "error"}}`))
	require.NoError(t, err)
	require.False(t, r.Empty())
	_, known := r.DependencyEnd(2)
	require.False(t, known, "not a status of this version")
	require.JSONEq(t, `{"who": {"uid": 7}, "dependencies": {"1": "success", "2": "vanished", "x": "error", "4": "error"}}`,
		string(r.WithDependencyEnd(4, job.Error).Encode()))

	r, err = record.Decode([]byte(`{"later": [1]}`))
	require.NoError(t, err)
	require.False(t, r.Empty())
	require.Equal(t, `{"later":[1]}`+"\n", string(r.Encode()))
}

func TestWhatIsNoRecord(t *testing.T) {
	for _, data := range []string{"", "null", "[]", "{", `{"dependencies": []}`, `{"dependencies": {"1": 2}}`} {
		_, err := record.Decode([]byte(data))
		require.Error(t, err, data)
	}
}

func TestRecordsComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r record.Record
		want := map[int64]job.Status{}
		ends := rapid.SliceOfN(rapid.SampledFrom(jobtest.Ends()), 6, 6).Draw(t, "ends")
		for range rapid.IntRange(0, 8).Draw(t, "steps") {
			id := rapid.Int64Range(0, 5).Draw(t, "id")
			if rapid.Bool().Draw(t, "add") {
				want[id] = ends[id]
				r = r.WithDependencyEnd(id, want[id])
			} else {
				delete(want, id)
				r = r.WithoutDependencyEnd(id)
			}
		}
		back, err := record.Decode(r.Encode())
		require.NoError(t, err)
		for id := range int64(6) {
			status, known := back.DependencyEnd(id)
			expected, there := want[id]
			require.Equal(t, there, known)
			if known {
				require.Equal(t, expected, status)
			}
		}
		require.Equal(t, len(want) == 0, r.Empty())
	})
}

func TestTheParentOfAJob(t *testing.T) {
	var none record.Record
	require.Zero(t, none.Parent())
	r, err := record.Decode(none.WithParent(12).Encode())
	require.NoError(t, err)
	require.Equal(t, int64(12), r.Parent())
	require.Panics(t, func() { none.WithParent(0) })

	for _, data := range []string{`{"parent": "12"}`, `{"parent": -1}`, `{"parent": null}`} {
		r, err := record.Decode([]byte(data))
		require.NoError(t, err)
		require.Zero(t, r.Parent(), data)
	}
}

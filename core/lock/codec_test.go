package lock

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// golden is what Ganeti writes: no blanks, owners in order, locks ascending, pending requests in pending order.
const golden = `[[[["luxid-ThreadId 7","/run/livelocks/luxi-daemon_1",1],[["cluster/config","exclusive"]]],` +
	`[[12,"/run/livelocks/job_000012_1",34],[["cluster/BGL","shared"],["node/[lockset]","exclusive"]]]],` +
	`[[-20,[14,"/run/livelocks/job_000014_1",36],[["node/b","shared"]]],` +
	`[0,[13,"/run/livelocks/job_000013_1",35],[["node/a","exclusive"],["instance/x","release"]]]]]`

func TestLocksDataIsGanetis(t *testing.T) {
	snap, err := Decode([]byte(golden))
	require.NoError(t, err)
	require.Equal(t, golden, string(Encode(snap)))
	s, restored, err := Restore(Settings{Hierarchy: Implied}, epoch, snap)
	require.NoError(t, err)
	require.Zero(t, restored)
	inspect(t, s)
	require.Equal(t, golden, string(Encode(s.Snapshot())))
	require.Equal(t, `[[],[]]`, string(Encode(New(Settings{Hierarchy: Implied}).Snapshot())))
}

func TestDecodeNamesThePlace(t *testing.T) {
	for text, want := range map[string]string{
		``:                        "value: want a list, found the end of the data (byte 0)",
		`null`:                    "value: want a list, found null (byte 0)",
		`[[],[],[]]`:              "3 elements, want a list of 2",
		`[null,[]]`:               "allocation: value: want a list, found null (byte 0)",
		`[[[]],[]]`:               "allocation[0]: 0 elements, want a list of 2",
		`[[[[1,"/l"],[]]],[]]`:    "allocation[0][0]: malformed client id: a list of 2 in place of 3",
		`[[[[1,"/l",2],[]]],[]]`:  "allocation[0][1]: no lock",
		`[[[[1,"/l",2],[1]]],[]]`: "allocation[0][1][0]: a lock request is [lock, mode]",
		`[[[[1,"/l",2],[["node-alloc/NAL","shared"]]]],[]]`:           "allocation[0][1][0]: Unknown lock name 'node-alloc/NAL'",
		`[[[[1,"/l",2],[["node/a","shared"],["node/b","mine"]]]],[]]`: `allocation[0][1][1]: unknown lock mode "mine", want shared, exclusive or release`,
		`[[[[1,"/l",2],[["node/a","release"]]]],[]]`:                  "allocation[0][1][0]: a lock is held shared or exclusive",
		`[[],[[0,[1,"/l",2],[]],["0",[1,"/l",2],[]]]]`:                "pending[1][0]: the priority is no number",
		`[[],[[0,[1,"/l",2],[["node/a",null]]]]]`:                     "pending[0][2][0]: want a string",
		`[[],[[0,[1,"/l",2],[["node/a","shared"]]]]]x`:                "value: trailing data (byte 43)",
	} {
		_, err := Decode([]byte(text))
		var located *DecodeError
		require.ErrorAs(t, err, &located, text)
		require.EqualError(t, err, want, text)
	}
}

func TestReplayLeavesOutATornLine(t *testing.T) {
	a, b := jobOwner(1), jobOwner(2)
	held := []Item{{Member(Node, "a"), Exclusive}}
	lines := AppendRecord(nil, Record{Owner: a, Locks: held})
	lines = AppendRecord(lines, Record{Owner: b, Pending: &Pending{-3, b, Request{{Member(Node, "a"), Shared}}}})
	whole := len(lines)
	lines = AppendRecord(lines, Record{Owner: a})
	require.Equal(t, `{"owner":[1,"/livelock/1",101],"locks":[["node/a","exclusive"]],"pending":null}
{"owner":[2,"/livelock/2",102],"locks":[],"pending":[-3,[["node/a","shared"]]]}
{"owner":[1,"/livelock/1",101],"locks":[],"pending":null}
`, string(lines))
	for end := whole; end < len(lines); end++ {
		replayed, err := Replay(Snapshot{}, lines[:end])
		require.NoError(t, err)
		require.Equal(t, whole, replayed.CompleteBytes)
		require.Equal(t, []Holding{{a, held}}, replayed.Snapshot.Holdings)
		require.Len(t, replayed.Snapshot.Pending, 1)
	}
	replayed, err := Replay(Snapshot{}, lines)
	require.NoError(t, err)
	require.Equal(t, len(lines), replayed.CompleteBytes)
	require.Empty(t, replayed.Snapshot.Holdings)
	_, restored, err := Restore(Settings{Hierarchy: Implied}, epoch, replayed.Snapshot)
	require.NoError(t, err)
	require.Equal(t, []Owner{b}, restored.Granted)
}

func TestReplayNamesTheLine(t *testing.T) {
	good := string(AppendRecord(nil, Record{Owner: jobOwner(1)}))
	for line, want := range map[string]string{
		"\n":                                    "line 2: value: want an object, found the end of the data (byte 1)",
		"{}\n":                                  "line 2: want owner, locks and pending",
		good[:len(good)-1] + good:               "line 2: value: trailing data (byte 57)",
		`{"owner":[1,"/l",2],"lock":[]}` + "\n": `line 2: unknown field "lock"`,
		`{"owner":[1],"locks":[],"pending":null}` + "\n":                      "line 2: owner: malformed client id: a list of 1 in place of 3",
		`{"owner":[1,"/l",2],"locks":[["x","shared"]],"pending":null}` + "\n": "line 2: locks[0]: Unknown lock name 'x'",
		`{"owner":[1,"/l",2],"locks":[],"pending":[0]}` + "\n":                "line 2: pending: 1 elements, want a list of 2",
	} {
		_, err := Replay(Snapshot{}, []byte(good+line))
		require.EqualError(t, err, want, line)
	}
}

// A journal that is cut off at any byte can be restored, without conflicting owners. A journal can be replayed on the
// snapshot that contains it.
func TestEachBeginningOfTheJournalIsAState(t *testing.T) {
	onBoth(t, func(t *rapid.T, d domain) {
		settings := Settings{Hierarchy: d.hierarchy, BypassAfter: 1}
		s := New(settings)
		var journal []byte
		for range 12 {
			_, changed := drawOperation(t, d, 5).on(s)
			for _, o := range changed {
				journal = AppendRecord(journal, s.Record(o))
			}
		}
		twice, err := Replay(s.Snapshot(), journal)
		require.NoError(t, err)
		require.Equal(t, Encode(s.Snapshot()), Encode(twice.Snapshot))
		for end := range journal {
			if journal[end] != '\n' {
				continue
			}
			replayed, err := Replay(Snapshot{}, journal[:end+1])
			require.NoError(t, err)
			_, restored, err := Restore(settings, epoch, replayed.Snapshot)
			require.NoError(t, err)
			require.Empty(t, restored.Dropped)
		}
	})
}

// Decode never panics. Encoding a decoded snapshot and decoding it again gives the same snapshot.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(golden))
	f.Add([]byte(`[[],[]]`))
	f.Add([]byte(` [ [ [ [ "a\ud800\/" , "" , 0 ] , [ [ "node\/ä" , "shared" ] ] ] ] , [ [ -0 , [ 1 , "" , 0 ] , [ ] ] ] ] `))
	f.Fuzz(func(t *testing.T, data []byte) {
		original := bytes.Clone(data)
		snap, err := Decode(data)
		require.Equal(t, original, data)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		encoded := Encode(snap)
		require.True(t, json.Valid(encoded))
		again, err := Decode(encoded)
		require.NoError(t, err)
		require.Equal(t, snap, again)
		if s, _, err := Restore(Settings{Hierarchy: Implied}, epoch, snap); err == nil {
			inspect(t, s)
		}
	})
}

// Replay never panics. Decode accepts the encoded result of Replay.
func FuzzReplay(f *testing.F) {
	lines := AppendRecord(nil, Record{Owner: jobOwner(1), Locks: []Item{{BGL, Shared}}})
	lines = AppendRecord(lines, Record{Owner: jobOwner(2), Pending: &Pending{1, jobOwner(2), Request{{BGL, Exclusive}}}})
	f.Add(lines)
	f.Add(lines[:len(lines)-5])
	f.Fuzz(func(t *testing.T, journal []byte) {
		replayed, err := Replay(Snapshot{}, journal)
		if err != nil {
			return
		}
		require.LessOrEqual(t, replayed.CompleteBytes, len(journal))
		again, err := Decode(Encode(replayed.Snapshot))
		require.NoError(t, err)
		require.Equal(t, replayed.Snapshot, again)
	})
}

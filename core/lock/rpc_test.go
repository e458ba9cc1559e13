package lock

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// call makes a call whose arguments are JSON; ME and OTHER are owners.
func call(t *testing.T, s *State, function, args string) (CallResult, error) {
	t.Helper()
	c, err := parse(t, function, args)
	require.NoError(t, err, "%s%s", function, args)
	return c.Do(s, epoch)
}

var callers = strings.NewReplacer("ME", jobOwner(1).String(), "OTHER", jobOwner(2).String())

func parse(t *testing.T, function, args string) (Call, error) {
	t.Helper()
	var list []json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(callers.Replace(args)), &list))
	return ParseCall(function, list)
}

// calls are made one after the other, each with its result, the owners whose records change and the owners to notify.
var calls = []struct{ function, args, result, changed, notify string }{
	{"listAllLocks", `[]`, `[]`, "", ""},
	{"listAllLocksOwners", `[]`, `[]`, "", ""},
	{"listLocksWaitingStatus", `[]`, `[[],[]]`, "", ""},
	{"listLocks", `[ME]`, `[]`, "", ""},
	{"hasPendingRequest", `[ME]`, `false`, "", ""},
	{"tryUpdateLocks", `[ME,[["cluster/BGL","shared"],["node/a","exclusive"]]]`, `[]`, "1", ""},
	{"tryUpdateLocks", `[ME,[["cluster/BGL","shared"],["node/a","exclusive"]]]`, `[]`, "", ""},
	{"tryUpdateLocks", `[OTHER,[["node/a","shared"]]]`, `[ME]`, "", ""},
	{"updateLocksWaiting", `[OTHER,-3,[["node/a","shared"]]]`, `[ME]`, "2", ""},
	{"updateLocksWaiting", `[OTHER,7,[["node/a","shared"]]]`, `[ME]`, "", ""},
	{"hasPendingRequest", `[OTHER]`, `true`, "", ""},
	{"listLocks", `[ME]`, `[["cluster/BGL","shared"],["node/a","exclusive"]]`, "", ""},
	{"listAllLocks", `[]`, `["cluster/[lockset]","cluster/BGL","node/[lockset]","node/a"]`, "", ""},
	{"listAllLocksOwners", `[]`, `[["cluster/[lockset]",[]],["cluster/BGL",[[ME,"shared"]]],["node/[lockset]",[]],["node/a",[[ME,"exclusive"]]]]`, "", ""},
	{"listLocksWaitingStatus", `[]`, `[[["cluster/[lockset]",[]],["cluster/BGL",[[ME,"shared"]]],["node/[lockset]",[]],["node/a",[[ME,"exclusive"]]]],
		[[-3,OTHER,[["node/a","shared"]]]]]`, "", ""},
	{"freeLocksLevel", `[ME,"cluster"]`, `[]`, "1", ""},
	{"downGradeLocksLevel", `[ME,"node"]`, `[]`, "1 2", "2"},
	{"opportunisticLockUnion", `[ME,[["node/b","shared"],["node/c","exclusive"]]]`, `["node/c","node/b"]`, "1", ""},
	{"opportunisticLockUnion", `[ME,[["node/b","shared"]]]`, `[]`, "", ""},
	{"guardedOpportunisticLockUnion", `[2,OTHER,[["node/c","shared"],["node/d","shared"]]]`, `[]`, "", ""},
	{"guardedOpportunisticLockUnion", `[1,OTHER,[["node/c","shared"],["node/d","shared"]]]`, `["node/d"]`, "2", ""},
	{"intersectLocks", `[ME,["node/a","cluster/config"]]`, `[]`, "1", ""},
	{"tryUpdateLocks", `[ME,[["cluster/config","exclusive"]]]`, `[]`, "1", ""},
	{"unlockConfig", `[ME]`, `[]`, "1", ""},
	{"unlockConfig", `[ME]`, `[]`, "", ""},
	{"freeLocks", `[ME]`, `[]`, "1", ""},
	{"freeLocks", `[ME]`, `[]`, "", ""},
	{"listLocks", `[OTHER]`, `[["node/a","shared"],["node/d","shared"]]`, "", ""},
}

func TestCalls(t *testing.T) {
	s := New(Settings{Hierarchy: Implied})
	for n, c := range calls {
		a, err := call(t, s, c.function, c.args)
		require.NoError(t, err, n)
		text, err := json.Marshal(a.Result)
		require.NoError(t, err, n)
		require.JSONEq(t, callers.Replace(c.result), string(text), "%d %s%s", n, c.function, c.args)
		require.Equal(t, c.changed, ownerNames(a.Changed), "%d %s%s", n, c.function, c.args)
		require.Equal(t, c.notify, ownerNames(a.Notify), "%d %s%s", n, c.function, c.args)
		inspect(t, s)
	}
}

// A call that only reads does not add its owner to the State.
func TestWhoAsks(t *testing.T) {
	for _, c := range calls {
		parsed, err := parse(t, c.function, c.args)
		require.NoError(t, err)
		require.Equal(t, c.function, parsed.Function)
		looks := strings.HasPrefix(c.function, "list") || c.function == "hasPendingRequest"
		require.Equal(t, !looks, parsed.ActsForOwner, c.function)
		if parsed.ActsForOwner {
			require.Contains(t, []Owner{jobOwner(1), jobOwner(2)}, parsed.Owner)
		}
	}
}

func TestCallErrors(t *testing.T) {
	_, err := parse(t, "listallLocks", "[]")
	require.ErrorIs(t, err, ErrNoFunction)
	for function := range functions {
		_, err := ParseCall(function, make([]json.RawMessage, 9))
		require.ErrorContains(t, err, "9 arguments, expected ")
	}
	var owner *OwnerError
	var name *NameError
	var level *LevelError
	_, err = parse(t, "listLocks", `[[1,"/livelock"]]`)
	require.ErrorAs(t, err, &owner)
	_, err = parse(t, "tryUpdateLocks", `[ME,[["NAL","shared"]]]`)
	require.ErrorAs(t, err, &name)
	_, err = parse(t, "intersectLocks", `[ME,["cluster/BLG"]]`)
	require.ErrorAs(t, err, &name)
	_, err = parse(t, "freeLocksLevel", `[ME,"Node"]`)
	require.ErrorAs(t, err, &level)

	s := New(Settings{Hierarchy: Implied})
	_, err = call(t, s, "tryUpdateLocks", `[ME,[["node/b","exclusive"]]]`)
	require.NoError(t, err)
	_, err = call(t, s, "updateLocksWaiting", `[ME,0,[["node/a","exclusive"]]]`)
	require.ErrorContains(t, err, "Order violation: ")
	require.Equal(t, "node/b:exclusive", shownItems(s.Allocation().Held(jobOwner(1))))
}

// Every accepted priority can be read from the disk.
func TestPrioritiesAreBounded(t *testing.T) {
	for priority, good := range map[string]bool{"2147483647": true, "-2147483648": true, "2147483648": false, "-2147483649": false, "1e3": false, "true": false} {
		c, err := parse(t, "updateLocksWaiting", `[OTHER,`+priority+`,[["node/a","shared"]]]`)
		require.Equal(t, good, err == nil, priority)
		if !good {
			require.ErrorContains(t, err, "argument 2: ")
			continue
		}
		s := New(Settings{Hierarchy: Implied})
		_, err = call(t, s, "tryUpdateLocks", `[ME,[["node/a","exclusive"]]]`)
		require.NoError(t, err)
		_, err = c.Do(s, epoch)
		require.NoError(t, err)
		replayed, err := Replay(Snapshot{}, AppendRecord(nil, s.Record(jobOwner(2))))
		require.NoError(t, err)
		require.Equal(t, s.Pending(), replayed.Snapshot.Pending)
	}
}

// null does not name a lock.
func TestNullIsNoLock(t *testing.T) {
	var l Lock
	require.Error(t, json.Unmarshal([]byte("null"), &l))
	require.Error(t, json.Unmarshal([]byte("3"), &l))
	require.NoError(t, json.Unmarshal([]byte(`"node/a"`), &l))
	require.Equal(t, Member(Node, "a"), l)
	text, err := json.Marshal(l)
	require.NoError(t, err)
	require.Equal(t, `"node/a"`, string(text))
	for _, args := range []string{`[ME,[null]]`, `[ME,["node/a",null]]`} {
		_, err := parse(t, "intersectLocks", args)
		require.ErrorContains(t, err, "argument 2: want a string")
	}
}

func TestTheJournalsFirstLine(t *testing.T) {
	found, rest, err := CutJournalHeader(append(JournalHeader("b-1"), "more\n"...))
	require.NoError(t, err)
	require.Equal(t, "b-1", found)
	require.Equal(t, "more\n", string(rest))
	for _, nothing := range []string{"", `{"boot":"b-1"}`, `{"bo`} {
		found, rest, err := CutJournalHeader([]byte(nothing))
		require.NoError(t, err)
		require.Empty(t, found)
		require.Empty(t, rest)
	}
	record := AppendRecord(nil, Record{Owner: jobOwner(1)})
	for _, bad := range []string{"\n", "[]\n", "nonsense\n", string(record)} {
		_, _, err := CutJournalHeader([]byte(bad))
		var decode *DecodeError
		require.ErrorAs(t, err, &decode, bad)
	}
}

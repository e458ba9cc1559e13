package locks_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/lock"
)

// bad are calls that are refused, by function: arguments, in which ME is an owner
// that holds node/[lockset] shared and node/b shared, and WAITING one that waits,
// and the text of the error.
var bad = map[string][][2]string{
	"updateLocksWaiting": {
		{`[]`, "RPC input: 0 arguments, expected 3"},
		{`[ME,0,[],0]`, "RPC input: 4 arguments, expected 3"},
		{`{}`, "RPC input: "},
		{`[ME,0,null]`, "RPC input: argument 3 is null"},
		{`[null,0,[]]`, "RPC input: argument 1 is null"},
		{`[[1,"/l"],0,[]]`, "RPC input: malformed client id: a list of 2 in place of 3"},
		{`["me",0,[]]`, "RPC input: malformed client id: not a list"},
		{`[[1,"/l",-1],0,[]]`, "RPC input: malformed client id: the pid is no number from 0 to 2147483647"},
		{`[[1,"/l",2147483648],0,[]]`, "RPC input: malformed client id: the pid is no number from 0 to 2147483647"},
		{`[[-1,"/l",1],0,[]]`, "RPC input: malformed client id: neither a job's number nor a name in first place"},
		{`[[1.5,"/l",1],0,[]]`, "RPC input: malformed client id: neither a job's number nor a name in first place"},
		{`[[null,"/l",1],0,[]]`, "RPC input: malformed client id: neither a job's number nor a name in first place"},
		{`[[1,null,1],0,[]]`, "RPC input: malformed client id: the livelock is no string"},
		{`[ME,"high",[]]`, "RPC input: argument 2: "},
		{`[ME,0.5,[]]`, "RPC input: argument 2: "},
		{`[ME,2147483648,[["node/c","shared"]]]`, "RPC input: argument 2: "},
		{`[ME,0,[["node-alloc/NAL","shared"]]]`, "RPC input: Unknown lock name 'node-alloc/NAL'"},
		{`[ME,0,[["nothing","shared"]]]`, "RPC input: Unknown lock name 'nothing'"},
		{`[ME,0,[["cluster/other","shared"]]]`, "RPC input: Unknown lock name 'cluster/other'"},
		{`[ME,0,[[null,"shared"]]]`, "RPC input: argument 3: want a string"},
		{`[ME,0,[["node/c","both"]]]`, `RPC input: argument 3: unknown lock mode "both", want shared, exclusive or release`},
		{`[ME,0,[["node/c"]]]`, "RPC input: argument 3: a lock request is [lock, mode]"},
		{`[ME,0,[null]]`, "RPC input: argument 3: a lock request is [lock, mode]"},
		{`[ME,0,[["node/a","shared"],["node/a","exclusive"]]]`, `Inconsitent requests for lock Node "a"`},
		{`[ME,0,[["instance/i","shared"]]]`, `Order violation: requesting Instance "i" while holding Node "b"`},
		{`[ME,0,[["node/c","exclusive"]]]`, `Order violation: requesting exclusively Node "c" while holding a shared lock on the group lock NodeLockSet it belongs to.`},
		{`[WAITING,0,[["node/c","shared"]]]`, "cannot update locks while having pending requests"},
	},
	"tryUpdateLocks": {
		{`[ME]`, "RPC input: 1 arguments, expected 2"},
		{`[ME,[["x/y","shared"]]]`, "RPC input: Unknown lock name 'x/y'"},
		{`[ME,[["instance/i","exclusive"]]]`, `Order violation: requesting Instance "i" while holding Node "b"`},
		{`[WAITING,[]]`, "cannot update locks while having pending requests"},
	},
	"lockstepAwaitLocks": {
		{`[ME,0,[]]`, "RPC input: 3 arguments, expected 4"},
		{`[ME,0,[],"soon"]`, "RPC input: argument 4: "},
		{`[ME,0,[],null]`, "RPC input: argument 4 is null"},
		{`[ME,99999999999,[["node/c","shared"]],1]`, "RPC input: argument 2: "},
		{`[ME,0,[["instance/i","shared"]],1]`, `Order violation: requesting Instance "i" while holding Node "b"`},
		{`[WAITING,0,[["node/c","shared"]],1]`, "cannot update locks while having pending requests"},
	},
	"lockstepAwaitUnion": {
		{`[1,ME,[["node/c","shared"]]]`, "RPC input: 3 arguments, expected 4"},
		{`[0,ME,[["node/c","shared"]],1]`, "RPC input: of 1 locks 0 cannot be obtained"},
		{`[2,ME,[["node/c","shared"]],1]`, "RPC input: of 1 locks 2 cannot be obtained"},
		{`[1,ME,[["node/c","release"]],1]`, "RPC input: node/c: a union cannot release"},
		{`[1,ME,[["node/c","shared"],["node/c","exclusive"]],1]`, "RPC input: node/c is there twice"},
		{`[1,ME,[["instance/i","shared"]],1]`, `Order violation: requesting Instance "i" while holding Node "b"`},
		{`[1,WAITING,[["node/c","shared"]],1]`, "cannot update locks while having pending requests"},
	},
	"freeLocks":           {{`[]`, "RPC input: 0 arguments, expected 1"}, {`[[]]`, "RPC input: malformed client id: "}},
	"unlockConfig":        {{`[ME,1]`, "RPC input: 2 arguments, expected 1"}},
	"freeLocksLevel":      {{`[ME]`, "RPC input: 1 arguments, expected 2"}, {`[ME,"disk"]`, "RPC input: Unknown lock-level name 'disk'"}, {`[ME,3]`, "RPC input: argument 2: "}},
	"downGradeLocksLevel": {{`[ME,"node-alloc"]`, "RPC input: Unknown lock-level name 'node-alloc'"}, {`[ME,null]`, "RPC input: argument 2 is null"}},
	"intersectLocks": {{`[ME,["node/b","x"]]`, "RPC input: Unknown lock name 'x'"}, {`[ME,"node/b"]`, "RPC input: argument 2: "},
		{`[ME,[null]]`, "RPC input: argument 2: want a string"}, {`[ME,null]`, "RPC input: argument 2 is null"}},
	"opportunisticLockUnion":        {{`[ME,[["node/c","release"]]]`, "RPC input: node/c: a union cannot release"}, {`[ME]`, "RPC input: 1 arguments, expected 2"}},
	"guardedOpportunisticLockUnion": {{`[ME,1,[]]`, "RPC input: argument 1: "}, {`["1",ME,[]]`, "RPC input: argument 1: "}},
	"hasPendingRequest":             {{`[]`, "RPC input: 0 arguments, expected 1"}},
	"listLocks":                     {{`["me"]`, "RPC input: malformed client id: not a list"}},
	"listAllLocks":                  {{`[1]`, "RPC input: 1 arguments, expected 0"}},
	"listAllLocksOwners":            {{`[[]]`, "RPC input: 1 arguments, expected 0"}},
	"listLocksWaitingStatus":        {{`[null]`, "RPC input: 1 arguments, expected 0"}},
	"cleanupLocks":                  {{`[1]`, "RPC input: 1 arguments, expected 0"}},
	passBGL:                         {{`[]`, "RPC input: 0 arguments, expected 1"}, {`[ME]`, "Cluster destruction requested without owning BGL exclusively"}},
	"freelocks":                     {{`[ME]`, "No such method: freelocks"}},
	"":                              {{`[]`, "No such method: "}},
}

// A refused call gives its reason and changes nothing.
func TestBadInput(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		me, holder, waiting := b.caller(job(1)), b.caller(job(2)), b.caller(job(3))
		me.takeLocks("node/[lockset]:shared node/b:shared")
		holder.takeLocks("network/n:exclusive")
		waiting.update("network/n:shared")
		waiting.expectValue()
		before, written := b.status(), len(b.disk.Calls("append"))
		names := strings.NewReplacer("ME", job(1), "WAITING", job(3))
		for function, table := range bad {
			for _, row := range table {
				text := me.refusal(function, names.Replace(row[0]))
				require.True(t, strings.HasPrefix(text, row[1]), "%s%s: %s", function, row[0], text)
				require.Equal(t, before, b.status(), "%s%s", function, row[0])
			}
		}
		require.Len(t, b.disk.Calls("append"), written)
		require.Empty(t, b.port.takeCalls("wake"))
		require.Equal(t, before, b.onDisk())
	})
}

// refusal is the error of a call, from the parser, as the gateway sends it, or from the
// lock manager.
func (c *caller) refusal(function, args string) string {
	c.Helper()
	_, err := operation(function, args)
	switch {
	case errors.Is(err, lock.ErrNoFunction):
		return "No such method: " + function
	case err != nil:
		return "RPC input: " + err.Error()
	}
	c.call(function, args)
	return c.expectFailure()
}

package sim

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/paths"
	"lockstep/core/wire"
	"lockstep/sim/longtest"
)

// TestUsersDoWhatTheyMay runs random work beside clients of several accounts with different roles, on one node, three and five, and shows
// that the checkers bite.
func TestUsersDoWhatTheyMay(t *testing.T) {
	for nodes, seeds := range map[int]uint64{1: 100, 3: 30, 5: 5} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			t.Parallel()
			requireSeedsGood(t, seeds, "--users 1", runOptions{Nodes: nodes, Users: 1})
		})
	}
	t.Run("bites", func(t *testing.T) {
		t.Parallel()
		longtest.Skip(t)
		for _, c := range []struct{ mutation, want string }{
			{"all-operate", "roles"},
			{"any-owner", "roles"},
			{"believed-claims", "audit log"},
			{"lost-submitters", "submitters"},
			{"daemons-commands", "submitters"},
			{"misattributed", "audit log"},
			{"unaudited-refusals", "audit log"},
		} {
			for _, nodes := range []int{1, 3} {
				requireBite(t, 20, c.want, runOptions{Nodes: nodes, Users: 1}, c.mutation, "none")
			}
		}
	})
}

// A daemon that cannot read the grants refuses who has a role by one of them, until it has read them. This refusal is not held against it.
func TestGrantsThatCannotBeRead(t *testing.T) {
	w := New(Options{Users: true, Checkers: []Checker{}})
	w.users = newUsers(w, 1)
	refusal := &wire.Error{Class: "OpPrereqError", Args: []json.RawMessage{[]byte(`"it needs the role operate"`), []byte(`"not_permitted"`)}}
	c := &checkRoles{grants: map[string]*grantState{"operate user:adam": {role: mayOperate, who: "user:adam", least: true, most: true}},
		owners: map[string]*account{}}
	refused := func(meanwhile ...any) error {
		call := &userCall{account: adam, method: "SetDrainFlag", args: []any{true}}
		require.NoError(t, c.See(w, userCalls{call}))
		for _, event := range meanwhile {
			require.NoError(t, c.See(w, event))
		}
		return c.See(w, userAnswered{call: call, err: refusal})
	}
	require.ErrorContains(t, refused(), "adam has the role for SetDrainFlag")
	unread := diskFailed{node: w.node, path: paths.AccessPath}
	require.NoError(t, refused(unread))
	require.NoError(t, refused())
	require.NoError(t, c.See(w, deciderStarted{}))
	require.ErrorContains(t, refused(), "adam has the role for SetDrainFlag")
}

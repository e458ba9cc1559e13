package access

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What another node says of its client is believed as a whole, and nothing is read into a damaged text.
func TestAForwardedIdentity(t *testing.T) {
	alice := Identity{UID: 1000, Name: "alice", GIDs: []int{1000, 50}, Groups: []string{"alice", "ops"}, Login: 1000, Node: "n2", Program: "lockstep"}
	deploy := Identity{UID: NoUID, Login: NoUID, Remote: "deploy", Role: Operate, Node: "n2"}
	for _, i := range []Identity{alice, deploy, {Node: "n2"}, Unknown(), DaemonItself(0)} {
		require.Equal(t, i, DecodeForwarded(i.Encode(), "uid=0(root), pid=1, node=n2"))
	}
	for _, damaged := range []string{`null`, `[]`, `{"uid": "0"}`, `{"role": 4}`, `"root"`, `{`, `{"uid": 0.5}`} {
		require.Equal(t, Unknown(), DecodeForwarded([]byte(damaged), "uid=0(root), pid=1, node=n2"), damaged)
	}
	require.Equal(t, Unknown(), DecodeForwarded([]byte(`{}`), ""), "no uid is not root's")
	require.Equal(t, None, DecodeForwarded([]byte(`{"remote": "x", "role": "emperor"}`), "").Role)
}

// A node of an older version says in words alone who its client is.
func TestAForwardedIdentityOfAnOlderNode(t *testing.T) {
	for words, want := range map[string]Identity{
		"uid=0(root), pid=4, node=n2":      {UID: 0, Name: "root", Login: NoUID, Node: "n2"},
		"uid=1000(alice), pid=4, node=n2":  {UID: 1000, Name: "alice", Login: NoUID, Node: "n2"},
		"uid=1000, pid=4, node=n2":         {UID: 1000, Login: NoUID, Node: "n2"},
		"user=root, from=1.2.3.4, node=n2": {UID: NoUID, Login: NoUID},
		"uid=4294967295, node=n2":          {UID: NoUID, Login: NoUID, Node: "n2"},
		"uid=-1, node=n2":                  {UID: NoUID, Login: NoUID, Node: "n2"},
		"":                                 Unknown(),
	} {
		got := DecodeForwarded(nil, words)
		if want.Node == "" {
			got.Node = ""
		}
		require.Equal(t, want, got, words)
	}
}

func TestToWhomAJobBelongs(t *testing.T) {
	root := Submitter{Name: "root"}
	for _, s := range []Submitter{{UID: 1000, Name: "alice"}, {UID: 1000}, {UID: NoUID, Remote: "deploy"}, {UID: 7, Name: "dep", Remote: "deploy"}} {
		got, err := DecodeSubmitter(s.Encode(), root)
		require.NoError(t, err)
		require.Equal(t, s, got)
	}
	got, err := DecodeSubmitter(nil, root)
	require.NoError(t, err)
	require.Equal(t, root, got)
	for _, damaged := range []string{`[]`, `{`, `{"uid": "x"}`} {
		got, err := DecodeSubmitter([]byte(damaged), root)
		require.Error(t, err)
		require.Equal(t, Submitter{UID: NoUID}, got, "it is not root")
	}
	for want, s := range map[string]Submitter{"uid=1000": {UID: 1000, Name: "alice"}, "remote=deploy": {UID: 1000, Remote: "deploy"}, "": {UID: NoUID}} {
		require.Equal(t, want, s.Key())
	}
	policy := Policy{DaemonUID: 0, SocketGID: NoUID}
	require.Nil(t, policy.SubmitterOf(Identity{UID: 0}))
	require.Nil(t, policy.SubmitterOf(DaemonItself(0)))
	require.JSONEq(t, `{"uid": 1000, "name": "alice"}`, string(policy.SubmitterOf(Identity{UID: 1000, Name: "alice", Groups: []string{"ops"}})))
	require.JSONEq(t, `{"uid": 0, "remote": "deploy"}`, string(policy.SubmitterOf(Identity{UID: 0, Remote: "deploy"})))
	for role, uid := range map[Role]string{Submit: "-1", Operate: "-1", Admin: "0"} {
		require.JSONEq(t, `{"uid": `+uid+`, "remote": "ops"}`, string(policy.SubmitterOf(Identity{UID: NoUID, Remote: "ops", Role: role})))
	}
}

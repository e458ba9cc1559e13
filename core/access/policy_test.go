package access

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/opcode"
)

var (
	root   = Identity{UID: 0, Name: "root", GIDs: []int{0}, Groups: []string{"root"}, Login: NoUID}
	daemon = Identity{UID: 90, Name: "lockstep", GIDs: []int{90}, Login: NoUID}
	alice  = Identity{UID: 1000, Name: "alice", GIDs: []int{1000, 77}, Groups: []string{"alice", "lockstep-users"}, Login: 1000}
	bob    = Identity{UID: 1001, Name: "bob", GIDs: []int{1001, 77, 500}, Groups: []string{"bob", "lockstep-users", "ops"}, Login: 1001}
	carol  = Identity{UID: 1002, Name: "carol", GIDs: []int{1002}, Groups: []string{"carol"}, Login: 1002}
	deploy = Identity{UID: NoUID, Login: NoUID, Remote: "deploy", Role: Submit}
)

func policy(t require.TestingT, grants ...string) Policy {
	p := Policy{DaemonUID: 90, SocketGID: 77}
	for _, text := range grants {
		role, who, _ := strings.Cut(text, " ")
		parsed, err := ParseRole(role)
		require.NoError(t, err)
		var changed bool
		p.Grants, changed, err = p.Grants.Add(parsed, who)
		require.NoError(t, err)
		require.True(t, changed)
	}
	return p
}

func TestRoles(t *testing.T) {
	plain, owner, named := policy(t), policy(t), policy(t)
	named.SocketGroup = "lockstep-users"
	owner.OwnerOnly = true
	ganeti := Policy{DaemonUID: 90, SocketGID: NoUID, Ganeti: true}
	granted := policy(t, "operate group:ops", "admin carol", "read bob", "read root")
	for _, c := range []struct {
		name   string
		policy Policy
		who    Identity
		want   Role
	}{
		{"root", plain, root, Admin},
		{"a grant does not lower root", granted, root, Admin},
		{"the daemon's user", plain, daemon, Admin},
		{"the daemon", plain, DaemonItself(90), Admin},
		{"a member of the socket's group", plain, alice, Submit},
		{"another account", plain, carol, None},
		{"a member at another node, by the name of the group", named, Identity{UID: 7, GIDs: []int{5}, Groups: []string{"lockstep-users"}, Node: "n2"}, Submit},
		{"another group with that number at another node", named, Identity{UID: 7, GIDs: []int{77}, Groups: []string{"games"}, Node: "n2"}, None},
		{"a member of a group without a name, at another node", plain, Identity{UID: 7, GIDs: []int{77}, Node: "n2"}, Submit},
		{"an unknown client", plain, Unknown(), None},
		{"an unknown client at root's uid", granted, Unknown(), None},
		{"by the group", granted, bob, Operate},
		{"by the name", granted, carol, Admin},
		{"without a grant", granted, alice, Submit},
		{"of the users file", granted, deploy, Submit},
		{"of the users file, with an account", granted, Identity{UID: 1002, Name: "carol", Remote: "c", Role: Read}, Read},
		{"of the users file, without a role", granted, Identity{UID: 0, Remote: "c"}, None},
		{"a daemon that is not root, root", owner, root, Admin},
		{"a daemon that is not root, a member", owner, alice, None},
		{"Ganeti", ganeti, carol, Admin},
		{"Ganeti, a user of the users file", ganeti, deploy, Submit},
		{"a group with gid 0 is not root", plain, Identity{UID: 5, GIDs: []int{0}}, None},
	} {
		role, why := c.policy.Explain(c.who)
		require.Equal(t, c.want, role, c.name)
		require.NotEmpty(t, why)
	}
	none := Policy{DaemonUID: 90, SocketGID: NoUID}
	require.Equal(t, None, none.Role(Identity{UID: 5, GIDs: []int{NoUID}}), "no group of the socket is no group")
	require.Equal(t, Read, policy(t, "read uid:5").Role(Identity{UID: 5}))
	require.Equal(t, Read, policy(t, "read gid:500").Role(bob.with(77)))
}

// with is an identity without one of its groups.
func (i Identity) with(out int) Identity {
	var gids []int
	for _, gid := range i.GIDs {
		if gid != out {
			gids = append(gids, gid)
		}
	}
	i.GIDs = gids
	return i
}

func TestRefusals(t *testing.T) {
	p := policy(t, "operate bob")
	args := func(texts ...string) (all []json.RawMessage) {
		for _, text := range texts {
			all = append(all, json.RawMessage(text))
		}
		return all
	}
	job := Identity{UID: 90, Program: "lockstep-job"}
	for _, c := range []struct {
		who    Identity
		method string
		args   []json.RawMessage
		want   string
	}{
		{alice, "LockstepSetSettings", nil, "to change settings needs the role admin, alice has submit"},
		{bob, "LockstepSetSettings", nil, "to change settings needs the role admin, bob has operate"},
		{carol, "QueryJobs", nil, "to list jobs needs the role read, carol has none"},
		{Unknown(), "QueryJobs", nil, "to list jobs needs the role read, an unknown user has none"},
		{deploy, "SetDrainFlag", nil, "to drain the queue needs the role operate, deploy (remote API) has submit"},
		{alice, "NoSuchMethod", nil, "to call NoSuchMethod needs the role admin, alice has submit"},
		{alice, "ChangeJobPriority", args("12", "-1"), "to give a job priority before those of others needs the role operate, alice has submit"},
		{alice, "ChangeJobPriority", args("12", "5e-1"), "to give a job priority before those of others needs the role operate, alice has submit"},
		{alice, "ChangeJobPriority", args("12", "0"), ""},
		{alice, "LockstepOrderJobs", args(`"priority"`, "[12]", "-1"), "to give a job priority before those of others needs the role operate, alice has submit"},
		{alice, "LockstepOrderJobs", args(`"reschedule"`, "[12]", `"now"`), ""},
		{bob, "ChangeJobPriority", args("12", "-20"), ""},
		{alice, "LockstepReportJob", nil, "only the process of a job may report on a job, not alice"},
		{root, "LockstepReportJob", nil, "only the process of a job may report on a job, not root"},
		{daemon, "LockstepBeginOpcode", nil, "only the process of a job may begin an opcode, not lockstep"},
		{Identity{UID: 1000, Name: "alice", Program: "lockstep-job"}, "LockstepBeginOpcode", nil, "only the process of a job may begin an opcode, not alice"},
		{job, "LockstepReportJob", nil, ""},
		{job, "LockstepOpenSession", nil, "only the console of a node may open a session, not uid 90"},
		{root, "LockstepOpenSession", nil, "only the console of a node may open a session, not root"},
		{DaemonItself(90), "LockstepOpenSession", nil, ""},
		{alice, "LockstepSubmitJobs", nil, ""},
		{carol, "LockstepWhoAmI", nil, ""},
	} {
		err := p.Method(c.who, c.method, c.args)
		if c.want == "" {
			require.NoError(t, err, c.method)
			continue
		}
		require.EqualError(t, err, c.want)
		var refusal *Refusal
		require.ErrorAs(t, err, &refusal)
	}
	require.EqualError(t, p.WConfD(alice), "to use the daemon's socket for locks and configuration needs the role admin, alice has submit")
	require.NoError(t, p.WConfD(daemon))
	require.EqualError(t, RefusedOrder(12, root.Submitter(), "kill it", "alice"),
		"job 12 is root's; to kill it needs the role operate, alice has submit")
	require.Equal(t, "uid=1000", p.OnlyOf(alice))
	require.Equal(t, "remote=deploy", p.OnlyOf(deploy))
	require.Empty(t, p.OnlyOf(bob))
	require.Empty(t, p.OnlyOf(root))
}

func TestSubmissions(t *testing.T) {
	p := policy(t, "operate bob")
	declared, bad := opcode.Builtin().With([]opcode.Definition{
		{Name: "OP_BACKUP", Command: []string{"/bin/true"}},
		{Name: "OP_PING", Command: []string{"/bin/true"}, Submitters: opcode.Submitters{All: true}},
		{Name: "OP_DBA", Command: []string{"/bin/true"}, Submitters: opcode.Submitters{Users: []string{"alice"}, Groups: []string{"ops"}}},
	})
	require.Empty(t, bad)
	command := func(more string) string { return `{"OP_ID": "OP_RUN_COMMAND", "argv": ["id"]` + more + `}` }
	for _, c := range []struct {
		who  Identity
		op   string
		want string
	}{
		{alice, command(``), ""},
		{alice, command(`, "priority": 10, "locks": [["node/n1", "exclusive"], ["node/[lockset]", "shared"], ["cluster/BGL", "shared"], ["lock/x", "exclusive"]]`), ""},
		{alice, command(`, "priority": -10`), "to submit a job before those of others (priority below 0) needs the role operate, alice has submit"},
		{alice, command(`, "locks": [["cluster/BGL", "exclusive"]]`), "to take cluster/BGL exclusively needs the role operate, alice has submit"},
		{alice, command(`, "locks": [["lock/a", "shared"], ["node/[lockset]", "exclusive"]]`),
			"to take node/[lockset] exclusively needs the role operate, alice has submit"},
		{bob, command(`, "priority": -10, "locks": [["cluster/BGL", "exclusive"]]`), ""},
		{alice, `{"OP_ID": "OP_BACKUP"}`, "to submit OP_BACKUP needs the role operate, alice has submit"},
		{bob, `{"OP_ID": "OP_BACKUP", "priority": -10}`, ""},
		{alice, `{"OP_ID": "OP_PING"}`, ""},
		{deploy, `{"OP_ID": "OP_PING"}`, ""},
		{alice, `{"OP_ID": "OP_PING", "priority": -10}`, "to submit a job before those of others (priority below 0) needs the role operate, alice has submit"},
		{alice, `{"OP_ID": "OP_DBA"}`, ""},
		{deploy, `{"OP_ID": "OP_DBA"}`, "to submit OP_DBA needs the role operate, deploy (remote API) has submit"},
		{bob, `{"OP_ID": "OP_TEST_DELAY", "duration": 1}`, "to submit OP_TEST_DELAY needs the role admin, bob has operate"},
		{root, `{"OP_ID": "OP_TEST_DELAY", "duration": 1}`, ""},
		{deploy, command(``), "to submit commands without an account (as=) in the users file needs the role admin, deploy (remote API) has submit"},
		{Identity{UID: 1000, Name: "alice", Remote: "deploy", Role: Submit}, command(``), ""},
		{Identity{UID: NoUID, Remote: "deploy", Role: Admin}, command(``), ""},
	} {
		d, err := declared.Parse(json.RawMessage(c.op))
		require.NoError(t, err)
		if err = p.Submission(c.who, declared, d); c.want == "" {
			require.NoError(t, err, c.op)
		} else {
			require.EqualError(t, err, c.want)
		}
	}
}

func TestWho(t *testing.T) {
	for text, want := range map[string]string{
		"alice": "user:alice", "user:alice": "user:alice", "group:ops": "group:ops", "uid:01000": "uid:1000", "gid:0": "gid:0", `DOM\al ice`: "",
		"jörg": "user:jörg", "": "", "user:": "", "1000": "", "group:7": "", "x:y": "", "uid:-1": "", "uid:99999999999": "", "uid:4294967295": "", "a\nb": "", "a/b": "",
		"a,b": "", "user:a:b": "", "\xff": "", strings.Repeat("x", 257): "", `DOM\alice`: `user:DOM\alice`, "alice@example.org": "user:alice@example.org",
	} {
		got, err := ParseWho(text)
		require.Equal(t, want == "", err != nil, "%q: %v", text, err)
		if err == nil {
			require.Equal(t, want, got)
		}
	}
}

func TestGrantsAreBounded(t *testing.T) {
	var g Grants
	for n := range GrantsMax {
		var changed bool
		var err error
		g, changed, err = g.Add(Read, "uid:"+strconv.Itoa(n))
		require.NoError(t, err)
		require.True(t, changed)
	}
	_, _, err := g.Add(Read, "uid:1000000")
	require.ErrorContains(t, err, "there are 1000 grants")
	_, changed, err := g.Add(Read, "uid:5")
	require.NoError(t, err)
	require.False(t, changed)
	decoded, err := DecodeGrants(g.Encode())
	require.NoError(t, err)
	require.Equal(t, g, decoded)
}

// What a file has that this version cannot read completely gives no role.
func TestADamagedFileGivesNoRole(t *testing.T) {
	content := string(policy(t, "operate group:ops", "admin carol").Grants.Encode())
	require.JSONEq(t, `{"grants": [{"role": "admin", "who": "user:carol"}, {"role": "operate", "who": "group:ops"}]}`, content)
	for _, damaged := range []string{
		"{", "[]", content[:len(content)-3], content + "x", strings.Replace(content, "admin", "emperor", 1),
		strings.Replace(content, `"who"`, `"until": 5, "who"`, 1), strings.Replace(content, "user:carol", "a b", 1), strings.Replace(content, "admin", "none", 1),
	} {
		g, err := DecodeGrants([]byte(damaged))
		require.Error(t, err, damaged)
		require.Empty(t, g.List())
	}
}

// Grants behave as a set: what was added and not removed is in it, and the highest role of an identity counts.
func TestGrantsAreASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g Grants
		model := map[Grant]bool{}
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			grant := Grant{Role: Role(rapid.IntRange(int(Read), int(Admin)).Draw(t, "role")),
				Who: rapid.SampledFrom([]string{"user:alice", "user:bob", "group:ops", "uid:1000", "gid:500"}).Draw(t, "who")}
			var next Grants
			var changed bool
			var err error
			add := rapid.Bool().Draw(t, "add")
			if add {
				next, changed, err = g.Add(grant.Role, grant.Who)
			} else {
				next, changed, err = g.Remove(grant.Role, grant.Who)
			}
			require.NoError(t, err)
			require.Equal(t, model[grant] != add, changed)
			if g = next; add {
				model[grant] = true
			} else {
				delete(model, grant)
			}
		}
		require.Len(t, g.List(), len(model))
		best := None
		for grant := range model {
			if grant.Who == "user:alice" || grant.Who == "uid:1000" {
				best = max(best, grant.Role)
			}
		}
		require.Equal(t, max(best, Submit), Policy{DaemonUID: 90, SocketGID: 77, Grants: g}.Role(alice))
	})
}

package runas

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/access"
	"lockstep/core/jobproc"
	"lockstep/core/opcode"
)

func TestAsWhomACommandRuns(t *testing.T) {
	root, asDaemon, bob := Policy{}, Policy{AsDaemon: true}, Policy{DaemonUID: 1001}
	alice := access.Submitter{UID: 1000, Name: "alice"}.Encode()
	account := &jobproc.User{UID: 1000, Name: "alice"}
	www := &jobproc.User{UID: jobproc.NoUID, Name: "www-data"}
	for name, c := range map[string]struct {
		policy    Policy
		declared  string
		submitter []byte
		user      *jobproc.User
		refused   string
	}{
		"alice":                               {root, opcode.AsSubmitter, alice, account, ""},
		"root, or before the upgrade":         {root, opcode.AsSubmitter, nil, nil, ""},
		"root by its uid":                     {root, opcode.AsSubmitter, access.Submitter{UID: 0, Name: "root"}.Encode(), nil, ""},
		"a remote administrator":              {root, opcode.AsSubmitter, access.Submitter{UID: 0, Remote: "ops"}.Encode(), nil, ""},
		"a remote user with as=alice":         {root, opcode.AsSubmitter, access.Submitter{UID: 1000, Name: "alice", Remote: "deploy"}.Encode(), account, ""},
		"a uid without a name":                {root, opcode.AsSubmitter, access.Submitter{UID: 1005}.Encode(), &jobproc.User{UID: 1005}, ""},
		"a remote user without account":       {root, opcode.AsSubmitter, access.Submitter{UID: access.NoUID, Remote: "deploy"}.Encode(), nil, "deploy (remote API) has no account"},
		"an unknown user":                     {root, opcode.AsSubmitter, access.Submitter{UID: access.NoUID}.Encode(), nil, "not known who has submitted"},
		"a submitter without uid":             {root, opcode.AsSubmitter, []byte(`{"name": "root"}`), nil, "not known who has submitted"},
		"null":                                {root, opcode.AsSubmitter, []byte(`null`), nil, "not known who has submitted"},
		"the number that stands for none":     {root, opcode.AsSubmitter, []byte(`{"uid": 4294967295}`), nil, "uid 4294967295"},
		"a number that wraps to root":         {root, opcode.AsSubmitter, []byte(`{"uid": 4294967296}`), nil, "uid 4294967296"},
		"a negative number":                   {root, opcode.AsSubmitter, []byte(`{"uid": -2}`), nil, "uid -2"},
		"no number":                           {root, opcode.AsSubmitter, []byte(`{"uid": "0"}`), nil, "does not say who"},
		"unreadable":                          {root, opcode.AsSubmitter, []byte(`{"uid": 0`), nil, "does not say who"},
		"a declared opcode":                   {root, "", alice, nil, ""},
		"declared for www-data":               {root, "www-data", alice, www, ""},
		"declared for root":                   {root, "root", alice, nil, ""},
		"--run-as daemon":                     {asDaemon, opcode.AsSubmitter, alice, nil, ""},
		"--run-as daemon, damaged":            {asDaemon, opcode.AsSubmitter, []byte(`null`), nil, ""},
		"--run-as daemon, declared":           {asDaemon, "www-data", alice, www, ""},
		"a daemon of bob":                     {bob, opcode.AsSubmitter, alice, nil, ""},
		"a daemon of bob, declared":           {bob, "", alice, nil, ""},
		"a daemon of bob, declared for alice": {bob, "alice", alice, nil, "only the daemon of root"},
	} {
		t.Run(name, func(t *testing.T) {
			user, err := c.policy.Of(c.declared, c.submitter)
			require.Equal(t, c.user, user)
			if c.refused == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.refused)
		})
	}
}

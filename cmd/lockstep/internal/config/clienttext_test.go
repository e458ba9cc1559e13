package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/config/history"
)

// A process is named by its number only if there is one: the daemon makes changes for users, whose process is gone.
func TestTheClientOfAChange(t *testing.T) {
	uid := 7
	for want, c := range map[string]history.Client{
		"uid=0(root), pid=12":    {Name: "uid=0(root), pid=12"},
		"python3 (pid 4)":        {Name: "python3", PID: 4},
		"python3 (pid 4, uid 7)": {Name: "python3", PID: 4, UID: &uid},
		"job 12 (OP_NODE_ADD)":   {Job: 12, Opcode: "OP_NODE_ADD", PID: 9},
		"-":                      {Unknown: true},
	} {
		require.Equal(t, want, clientText(c))
	}
}

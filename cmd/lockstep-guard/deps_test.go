package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The guard does what the daemon cannot do when it has died. So it shares little with the daemon, and no mistake of that part ends both.
func TestTheGuardStaysSmall(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	for dependency := range strings.FieldsSeq(string(out)) {
		for _, large := range []string{
			"google.golang.org/protobuf", "github.com", "net", "encoding/json", "log", "os/exec", "crypto/tls",
			"lockstep/messages", "lockstep/actors", "lockstep/supervisor", "lockstep/core/job", "lockstep/core/opcode",
		} {
			require.False(t, dependency == large || strings.HasPrefix(dependency, large+"/"), "lockstep-guard links %s", dependency)
		}
	}
}

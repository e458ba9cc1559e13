package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The job process starts in about a millisecond, because it links no large packages (design.md "Processes").
func TestTheJobProcessStaysLight(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	require.NoError(t, err)
	for dependency := range strings.FieldsSeq(string(out)) {
		for _, heavy := range []string{
			"google.golang.org/protobuf", "github.com/asynkron", "github.com/sirupsen", "net/http", "net", "regexp",
			"go.yaml.in", "lockstep/messages", "lockstep/core/opcode", "lockstep/core/answer", "log/slog", "crypto/tls",
		} {
			require.False(t, dependency == heavy || strings.HasPrefix(dependency, heavy+"/"), "lockstep-job links %s", dependency)
		}
	}
}

package datadir

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/cmd/internal/opcodefiles"
	"lockstep/cmd/lockstepd/internal/settings"
	"lockstep/edge/login"
)

// The first start writes examples of opcodes and users, and keeps existing files.
func TestExamplesOfTheFirstStart(t *testing.T) {
	data := t.TempDir()
	c := settings.Config{DataDir: data, OpcodesDir: filepath.Join(data, "opcodes.d"), Rapi: settings.RapiConfig{Users: filepath.Join(data, "rapi", "users")}}
	require.NoError(t, writeExamples(c))
	definitions, err := opcodefiles.Load(c.OpcodesDir)
	require.NoError(t, err)
	require.Empty(t, definitions)
	text, err := os.ReadFile(c.Rapi.Users)
	require.NoError(t, err)
	users, mistakes := login.ParseUsers(text)
	require.Empty(t, users)
	require.Empty(t, mistakes)
	require.NoError(t, os.WriteFile(c.Rapi.Users, []byte("mine"), 0o600))
	require.NoError(t, writeExamples(c))
	text, err = os.ReadFile(c.Rapi.Users)
	require.NoError(t, err)
	require.Equal(t, "mine", string(text))

	// The example without its comment signs is a valid opcode.
	example, err := examples.ReadFile("examples/drain.yaml.example")
	require.NoError(t, err)
	_, body, _ := strings.Cut(string(example), "#\n")
	file := filepath.Join(data, "drain.yaml")
	require.NoError(t, os.WriteFile(file, []byte(regexp.MustCompile(`(?m)^# ?`).ReplaceAllString(body, "")), 0o600))
	definitions, err = opcodefiles.LoadFiles([]string{file})
	require.NoError(t, err)
	require.Len(t, definitions, 1)
}

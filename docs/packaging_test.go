package docs_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// Three nodes with one image and one start secret, each with its own name and volume.
func TestTheComposeFile(t *testing.T) {
	content, err := os.ReadFile("../packaging/container/compose.yaml")
	require.NoError(t, err)
	var file struct {
		Services map[string]struct {
			Image       string
			Hostname    string
			Environment map[string]string
			Volumes     []string
			Secrets     []string
		}
		Secrets, Volumes map[string]any
	}
	require.NoError(t, yaml.Unmarshal(content, &file))
	require.Len(t, file.Services, 3)
	for name, service := range file.Services {
		require.Equal(t, "lockstep:latest", service.Image)
		require.Equal(t, name, service.Hostname)
		require.Equal(t, []string{"lockstep-start"}, service.Secrets)
		require.Equal(t, []string{name + ":/var/lib/lockstep"}, service.Volumes)
		require.Equal(t, map[string]string{"LOCKSTEP_FIRST": "n1:7400"}, service.Environment)
		require.Contains(t, file.Volumes, name)
	}
	require.Contains(t, file.Secrets, "lockstep-start")
}

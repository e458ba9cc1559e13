package config_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/config"
	"lockstep/core/config/journal"
	"lockstep/core/config/verify"
)

// Each released form of lockstep's config.data is read. Those that lack required values are filled; the values that they have do
// not change. All released programs read the filled form.
func TestReleasedForms(t *testing.T) {
	files, err := filepath.Glob("testdata/released/*.json")
	require.NoError(t, err)
	require.Len(t, files, 4)
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			c, isFilled, err := journal.DecodeConfig(data)
			require.NoError(t, err)
			require.Equal(t, filepath.Base(name)[0] == 'l', isFilled, "the name of the fixture begins with lacks")
			require.Empty(t, verify.Of(c).Texts())
			requireContains(t, data, c.JSON())
			cluster, err := config.ClusterOf(c)
			require.NoError(t, err)
			require.NotEmpty(t, cluster.MasterName)
			again, isFilled, err := journal.DecodeConfig(c.JSON())
			require.NoError(t, err)
			require.False(t, isFilled)
			require.Equal(t, c.Hash(), again.Hash())
		})
	}
}

// requireContains requires that all values of part are in whole.
func requireContains(t *testing.T, part, whole json.RawMessage) {
	t.Helper()
	var members map[string]json.RawMessage
	if bytes.HasPrefix(bytes.TrimSpace(part), []byte("{")) && json.Unmarshal(part, &members) == nil {
		var of map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(whole, &of))
		for name, value := range members {
			if string(value) != "null" {
				require.Contains(t, of, name)
				requireContains(t, value, of[name])
			}
		}
		return
	}
	require.JSONEq(t, string(part), string(whole))
}

// A file that is no configuration has the error of the strict decoder.
func TestNoConfigurationIsNotFilled(t *testing.T) {
	for _, data := range []string{"", "x", "[]", "{}", `{"cluster":null}`, `{"cluster":{"mystery":1}}`, `{"cluster":{"max_running_jobs":"x"}}`} {
		_, _, err := journal.DecodeConfig([]byte(data))
		require.Error(t, err, "%s", data)
	}
	_, _, err := journal.DecodeConfig([]byte(`{"version":3000000,"cluster":{"mystery":1}}`))
	require.ErrorContains(t, err, "mystery")
}

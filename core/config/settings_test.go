package config

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSettingsThatAreNotNamedAreTheDefaults(t *testing.T) {
	for _, file := range []string{"", "{}", "null", " {} \n", `{"predictive": null}`, `{"predictive": true}`, `{"of a later lockstep": 7}`} {
		s, err := DecodeSettings([]byte(file))
		require.NoError(t, err, file)
		require.Equal(t, DefaultSettings(), s)
	}
	s, err := DecodeSettings([]byte(`{"predictive": false, "predictive_tick": 1.5, "lock_bypass_after": 0}`))
	require.NoError(t, err)
	require.Equal(t, Settings{Order: OrderPlain, Predictive: false, ReserveAfterSeconds: 1800, PredictiveBase: 1, PredictiveTickSeconds: 1.5, PredictiveTicks: 30, ConfigLockCheck: LockCheckNote, LogLimit: 1_000_000, OutputWaitSeconds: 3600, OutputLimit: 10_000_000_000}, s)
	require.Equal(t, 1500*time.Millisecond, s.PredictiveTick())
	require.Zero(t, s.LockBypass())
	require.Equal(t, 30*time.Second, DefaultSettings().LockBypass())
	require.NoError(t, DefaultSettings().Validate())
}

func TestSettingsThatCannotBe(t *testing.T) {
	for file, want := range map[string]string{
		`{`:                                  "settings: ",
		`[]`:                                 "settings: ",
		`{"predictive": 1}`:                  "settings: ",
		`{"predictive_base": -1}`:            "predictive_base: -1 is not between 0 and 1000000",
		`{"predictive_base": 1000001}`:       "predictive_base: 1000001 is not between 0 and 1000000",
		`{"predictive_base": 0.5}`:           "settings: ",
		`{"predictive_tick": 0}`:             "predictive_tick: 0 is not between 0.001 and 31536000 seconds",
		`{"predictive_tick": 0.0009}`:        "predictive_tick: ",
		`{"predictive_tick": 31536001}`:      "predictive_tick: ",
		`{"predictive_ticks": 0}`:            "predictive_ticks: 0 is not between 1 and 1000000",
		`{"predictive_ticks": 1000001}`:      "predictive_ticks: ",
		`{"config_lock_check": "off"}`:       "config_lock_check: \"off\" is none of note, refuse",
		`{"lock_bypass_after": -0.5}`:        "lock_bypass_after: -0.5 is not between 0 and 31536000 seconds",
		`{"lock_bypass_after": 1e300}`:       "lock_bypass_after: ",
		`{"lock_bypass_after": 1e999}`:       "settings: ",
		`{"lock_bypass_after": "30"}`:        "settings: ",
		`{"lock_bypass_after": 30} trailing`: "settings: ",
	} {
		_, err := DecodeSettings([]byte(file))
		require.ErrorContains(t, err, want, file)
	}
}

func TestSettingsAtTheirLimits(t *testing.T) {
	for _, file := range []string{
		`{"predictive_base": 0, "predictive_tick": 0.001, "predictive_ticks": 1, "lock_bypass_after": 0}`,
		`{"predictive_base": 1000000, "predictive_tick": 31536000, "predictive_ticks": 1000000, "lock_bypass_after": 31536000}`,
	} {
		s, err := DecodeSettings([]byte(file))
		require.NoError(t, err, file)
		require.GreaterOrEqual(t, s.PredictiveTick(), time.Millisecond)
		require.LessOrEqual(t, s.PredictiveTick(), 365*24*time.Hour)
	}
}

// The former setting predictive is false for the plain order. Of the two, the one that was set later counts.
func TestTheOrderAndItsFormerName(t *testing.T) {
	byDefault := DefaultSettings().Order
	for file, want := range map[string]string{
		`{"predictive": false}`: OrderPlain, `{"predictive": true}`: byDefault,
		`{"order": "weights"}`: OrderWeights, `{"order": "plain"}`: OrderPlain, `{"order": "expected"}`: OrderExpected,
		`{"predictive": false, "order": "weights"}`: OrderWeights,
	} {
		s, err := DecodeSettings([]byte(file))
		require.NoError(t, err, file)
		require.Equal(t, want, s.Order, file)
		require.Equal(t, want != OrderPlain, s.Predictive, file)
	}
	file := []byte(`{"predictive": false}`)
	for _, step := range [][3]string{{"order", `"weights"`, OrderWeights}, {"predictive", "false", OrderPlain}, {"predictive", "true", byDefault},
		{"order", `"expected"`, OrderExpected}, {"order", "null", byDefault}} {
		var err error
		file, err = EditSettings(file, changes(map[string]string{step[0]: step[1]}))
		require.NoError(t, err)
		s, err := DecodeSettings(file)
		require.NoError(t, err)
		require.Equal(t, step[2], s.Order)
	}
	for _, bad := range []string{`{"order": "random"}`, `{"order": 1}`, `{"reserve_after": -1}`, `{"log_limit": 63999}`, `{"output_wait": 0}`, `{"output_limit": 999999}`, `{"output_total": -1}`, `{"output_total": 1}`, `{"log_limit": 4000001}`} {
		_, err := DecodeSettings([]byte(bad))
		require.Error(t, err, bad)
	}
}

func changes(values map[string]string) map[string][]byte {
	all := map[string][]byte{}
	for name, value := range values {
		all[name] = []byte(value)
	}
	return all
}

// The file contains only settings that were set. Other settings follow the defaults.
func TestEditSettings(t *testing.T) {
	first, err := EditSettings(nil, changes(map[string]string{"predictive": "false", "predictive_ticks": "7"}))
	require.NoError(t, err)
	require.JSONEq(t, `{"predictive": false, "predictive_ticks": 7}`, string(first))
	require.Equal(t, byte('\n'), first[len(first)-1])
	second, err := EditSettings(first, changes(map[string]string{"predictive": "null", "lock_bypass_after": "0.5"}))
	require.NoError(t, err)
	require.JSONEq(t, `{"predictive_ticks": 7, "lock_bypass_after": 0.5}`, string(second))
	none, err := EditSettings(second, nil)
	require.NoError(t, err)
	require.Equal(t, string(second), string(none))
	kept, err := EditSettings([]byte(`{"of a later lockstep": [1]}`), changes(map[string]string{"predictive": "true"}))
	require.NoError(t, err)
	require.JSONEq(t, `{"of a later lockstep": [1], "predictive": true}`, string(kept))
}

func TestSettingsThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		file    string
		changes map[string]string
		want    string
	}{
		"unknown":       {"", map[string]string{"colour": "1"}, `there is no setting "colour"; there are [archive_after config_lock_check keep_last keep_output lock_bypass_after log_limit order output_limit output_total output_wait predictive predictive_base predictive_tick predictive_ticks remove_archived_after reserve_after]`},
		"out of range":  {"", map[string]string{"predictive_ticks": "0"}, "predictive_ticks: 0"},
		"no JSON":       {"", map[string]string{"predictive_ticks": "{"}, ""},
		"a wrong type":  {"", map[string]string{"predictive": `"yes"`}, "settings: "},
		"a broken file": {"{", map[string]string{"predictive": "true"}, "settings: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := EditSettings([]byte(c.file), changes(c.changes))
			require.ErrorContains(t, err, c.want)
		})
	}
}

// An edited file decodes to the new values.
func TestEditedSettingsAreInForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var file []byte
		want := DefaultSettings().Values()
		for range rapid.IntRange(1, 5).Draw(t, "edits") {
			name := rapid.SampledFrom([]string{"predictive", "predictive_base", "predictive_tick", "predictive_ticks", "lock_bypass_after"}).Draw(t, "name")
			value := rapid.SampledFrom([]string{"null", "true", "false", "1", "30", "0.5", "0"}).Draw(t, "value")
			edited, err := EditSettings(file, changes(map[string]string{name: value}))
			if err != nil {
				continue // the file is unchanged
			}
			file, want[name] = edited, json.RawMessage(value)
			if value == "null" {
				want[name] = DefaultSettings().Values()[name]
			}
			if name == "predictive" {
				want["order"] = DefaultSettings().Values()["order"]
				if value == "false" {
					want["order"] = json.RawMessage(`"plain"`)
				}
			}
		}
		s, err := DecodeSettings(file)
		require.NoError(t, err)
		for name, value := range s.Values() {
			require.JSONEq(t, string(want[name]), string(value), name)
		}
	})
}

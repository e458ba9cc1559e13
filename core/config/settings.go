package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Settings are lockstep's own, which change at run time and are in a file of their
// own: Ganeti's clients refuse a configuration with keys that they do not know
// (design.md 6).
type Settings struct {
	// Predictive puts the jobs that will probably not wait for locks first
	// (designs.md "Predictive queue").
	Predictive bool `json:"predictive"`
	// PredictiveBase is what a job weighs that meets nothing.
	PredictiveBase int `json:"predictive_base"`
	// PredictiveTickSeconds is the unit of a job's age.
	PredictiveTickSeconds float64 `json:"predictive_tick"`
	// PredictiveTicks is the age at which a job weighs nothing.
	PredictiveTicks int `json:"predictive_ticks"`
	// LockBypassSeconds is how long a request for locks may be overtaken by later
	// ones; 0 is without end.
	LockBypassSeconds float64 `json:"lock_bypass_after"`
}

// DefaultSettings are those in force where nothing else is said.
func DefaultSettings() Settings {
	return Settings{Predictive: true, PredictiveBase: 1, PredictiveTickSeconds: 30, PredictiveTicks: 30, LockBypassSeconds: 30}
}

// PredictiveTick is the unit of a job's age.
func (s Settings) PredictiveTick() time.Duration { return seconds(s.PredictiveTickSeconds) }

// LockBypass is how long a request for locks may be overtaken.
func (s Settings) LockBypass() time.Duration { return seconds(s.LockBypassSeconds) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Validate names the first setting that is out of range.
func (s Settings) Validate() error {
	const year = 365 * 24 * 3600
	switch {
	case s.PredictiveBase < 0 || s.PredictiveBase > 1_000_000:
		return fmt.Errorf("predictive_base: %d is not between 0 and 1000000", s.PredictiveBase)
	case !(s.PredictiveTickSeconds >= 0.001 && s.PredictiveTickSeconds <= year):
		return fmt.Errorf("predictive_tick: %v is not between 0.001 and %d seconds", s.PredictiveTickSeconds, year)
	case s.PredictiveTicks < 1 || s.PredictiveTicks > 1_000_000:
		return fmt.Errorf("predictive_ticks: %d is not between 1 and 1000000", s.PredictiveTicks)
	case !(s.LockBypassSeconds >= 0 && s.LockBypassSeconds <= year):
		return fmt.Errorf("lock_bypass_after: %v is not between 0 and %d seconds", s.LockBypassSeconds, year)
	}
	return nil
}

// DecodeSettings reads the file; nothing in it is the defaults.
func DecodeSettings(data []byte) (Settings, error) {
	s := DefaultSettings()
	if len(data) == 0 {
		return s, nil
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("settings: %w", err)
	}
	return s, s.Validate()
}

// EditSettings changes settings by name; values are JSON. The file keeps what is
// not the default, so that a better default is not kept out by a former one. The
// error names the setting.
func EditSettings(data []byte, changes map[string][]byte) ([]byte, error) {
	file, err := decodeObject(data)
	if err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	known := DefaultSettings().Values()
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		if _, exists := known[name]; !exists {
			return nil, fmt.Errorf("there is no setting %q; there are %v", name, slices.Sorted(maps.Keys(known)))
		}
		file[name] = changes[name]
		if string(changes[name]) == "null" {
			delete(file, name) // back to the default
		}
	}
	edited, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return nil, err
	}
	if _, err := DecodeSettings(edited); err != nil {
		return nil, err
	}
	return append(edited, '\n'), nil
}

// Values are the settings by name, as JSON.
func (s Settings) Values() map[string]json.RawMessage {
	encoded, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Errorf("settings cannot be encoded: %w", err)) // they are plain values
	}
	values, err := decodeObject(encoded)
	if err != nil {
		panic(fmt.Errorf("settings are no object: %w", err))
	}
	return values
}

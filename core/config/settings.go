package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Settings are lockstep's own settings. They can change at run time. They have a separate file, because Ganeti's
// clients refuse a configuration with unknown keys (design.md "Scheduling").
type Settings struct {
	// Order decides which of the pending jobs of one priority starts first: OrderExpected, OrderWeights or OrderPlain.
	Order string `json:"order"`
	// Predictive is the former name of the setting: a file with false and no order means OrderPlain. It is always equal to
	// Order != OrderPlain.
	Predictive bool `json:"predictive"`
	// ReserveAfterSeconds is how long a job waits for its locks until no other job may take them before it, in the order
	// OrderExpected.
	ReserveAfterSeconds float64 `json:"reserve_after"`
	// PredictiveBase is the weight of a job without contention.
	PredictiveBase int `json:"predictive_base"`
	// PredictiveTickSeconds is the unit of a job's age.
	PredictiveTickSeconds float64 `json:"predictive_tick"`
	// PredictiveTicks is the age in ticks at which the weight of a job is 0.
	PredictiveTicks int `json:"predictive_ticks"`
	// LockBypassSeconds is how long later requests may overtake a request for locks; 0 means for ever.
	LockBypassSeconds float64 `json:"lock_bypass_after"`
	// ArchiveAfterSeconds is the time after their end after which the daemon archives jobs; 0: never; nil: the option
	// --archive-after of the daemon counts.
	ArchiveAfterSeconds *float64 `json:"archive_after"`
	// KeepLast is how many of the last ended jobs of each name stay in the queue nevertheless.
	KeepLast int `json:"keep_last"`
	// RemoveArchivedAfterSeconds is the time after which archived jobs are removed; 0: never; nil: the option --archive-days
	// of the daemon counts.
	RemoveArchivedAfterSeconds *float64 `json:"remove_archived_after"`
	// ConfigLockCheck is what becomes of a change of an object by a client without its lock: LockCheckNote or LockCheckRefuse.
	ConfigLockCheck string `json:"config_lock_check"`
	// LogLimit bounds the log of one opcode, in bytes. Each write of a job's file writes the logs of its opcodes, and in a cluster the log
	// of the nodes carries them.
	LogLimit int `json:"log_limit"`
	// OutputWaitSeconds is how long a command waits for the client that follows its job and takes no output.
	OutputWaitSeconds float64 `json:"output_wait"`
	// KeepOutput: the output of commands is kept whole in files, unless their opcode says otherwise.
	KeepOutput bool `json:"keep_output"`
	// OutputLimit bounds what is kept of the output of one job, in bytes.
	OutputLimit int64 `json:"output_limit"`
	// OutputTotal bounds what a node keeps of the output of all jobs, in bytes; 0: a tenth of the file system of the data directory.
	OutputTotal int64 `json:"output_total"`
}

// The bounds of OutputLimit and OutputTotal.
const (
	OutputLimitMin = 1_000_000
	OutputLimitMax = 1_000_000_000_000_000
)

// The bounds of LogLimit.
const (
	LogLimitMin = 64_000
	LogLimitMax = 4_000_000
)

// The values of ConfigLockCheck.
const (
	LockCheckNote   = "note"   // the history and a metric have the change
	LockCheckRefuse = "refuse" // the call fails
)

// The orders of pending jobs of one priority.
const (
	OrderExpected = "expected" // only jobs that can get their locks start, those first that are expected to be short
	OrderWeights  = "weights"  // those first that are least likely to wait for locks (designs.md "Predictive queue")
	OrderPlain    = "plain"    // by id
)

// DefaultSettings are the settings without a file.
func DefaultSettings() Settings {
	return Settings{
		Order:                 OrderExpected,
		Predictive:            true,
		ReserveAfterSeconds:   1800,
		PredictiveBase:        1,
		PredictiveTickSeconds: 30,
		PredictiveTicks:       30,
		LockBypassSeconds:     30,
		ConfigLockCheck:       LockCheckNote,
		LogLimit:              1_000_000,
		OutputWaitSeconds:     3600,
		OutputLimit:           10_000_000_000,
	}
}

// PredictiveTick is the unit of a job's age.
func (s Settings) PredictiveTick() time.Duration { return seconds(s.PredictiveTickSeconds) }

// ReserveAfter is ReserveAfterSeconds as a duration.
func (s Settings) ReserveAfter() time.Duration { return seconds(s.ReserveAfterSeconds) }

// LockBypass is LockBypassSeconds as a duration.
func (s Settings) LockBypass() time.Duration { return seconds(s.LockBypassSeconds) }

// ArchiveAfter is ArchiveAfterSeconds as a duration; without the setting it is byDefault.
func (s Settings) ArchiveAfter(byDefault time.Duration) time.Duration {
	return secondsOr(s.ArchiveAfterSeconds, byDefault)
}

// RemoveArchivedAfter is RemoveArchivedAfterSeconds as a duration; without the setting it is byDefault.
func (s Settings) RemoveArchivedAfter(byDefault time.Duration) time.Duration {
	return secondsOr(s.RemoveArchivedAfterSeconds, byDefault)
}

func secondsOr(s *float64, byDefault time.Duration) time.Duration {
	if s == nil {
		return byDefault
	}
	return seconds(*s)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Validate is the error for the first setting that is out of range.
func (s Settings) Validate() error {
	const year = 365 * 24 * 3600
	switch {
	case s.Order != OrderExpected && s.Order != OrderWeights && s.Order != OrderPlain:
		return fmt.Errorf("order: %q is none of expected, weights, plain", s.Order)
	case !(s.ReserveAfterSeconds >= 0 && s.ReserveAfterSeconds <= year):
		return fmt.Errorf("reserve_after: %v is not between 0 and %d seconds", s.ReserveAfterSeconds, year)
	case s.PredictiveBase < 0 || s.PredictiveBase > 1_000_000:
		return fmt.Errorf("predictive_base: %d is not between 0 and 1000000", s.PredictiveBase)
	case !(s.PredictiveTickSeconds >= 0.001 && s.PredictiveTickSeconds <= year):
		return fmt.Errorf("predictive_tick: %v is not between 0.001 and %d seconds", s.PredictiveTickSeconds, year)
	case s.PredictiveTicks < 1 || s.PredictiveTicks > 1_000_000:
		return fmt.Errorf("predictive_ticks: %d is not between 1 and 1000000", s.PredictiveTicks)
	case !(s.LockBypassSeconds >= 0 && s.LockBypassSeconds <= year):
		return fmt.Errorf("lock_bypass_after: %v is not between 0 and %d seconds", s.LockBypassSeconds, year)
	case s.ArchiveAfterSeconds != nil && !(*s.ArchiveAfterSeconds >= 0 && *s.ArchiveAfterSeconds <= 100*year):
		return fmt.Errorf("archive_after: %v is not between 0 and %d seconds", *s.ArchiveAfterSeconds, 100*year)
	case s.ConfigLockCheck != LockCheckNote && s.ConfigLockCheck != LockCheckRefuse:
		return fmt.Errorf("config_lock_check: %q is none of note, refuse", s.ConfigLockCheck)
	case s.LogLimit < LogLimitMin || s.LogLimit > LogLimitMax:
		return fmt.Errorf("log_limit: %d is not between %d and %d bytes", s.LogLimit, LogLimitMin, LogLimitMax)
	case !(s.OutputWaitSeconds >= 0.001 && s.OutputWaitSeconds <= year):
		return fmt.Errorf("output_wait: %v is not between 0.001 and %d seconds", s.OutputWaitSeconds, year)
	case s.OutputLimit < OutputLimitMin || s.OutputLimit > OutputLimitMax:
		return fmt.Errorf("output_limit: %d is not between %d and %d bytes", s.OutputLimit, OutputLimitMin, OutputLimitMax)
	case s.OutputTotal != 0 && (s.OutputTotal < OutputLimitMin || s.OutputTotal > OutputLimitMax):
		return fmt.Errorf("output_total: %d is neither 0 nor between %d and %d bytes", s.OutputTotal, OutputLimitMin, OutputLimitMax)
	case s.KeepLast < 0 || s.KeepLast > 1000:
		return fmt.Errorf("keep_last: %d is not between 0 and 1000", s.KeepLast)
	case s.RemoveArchivedAfterSeconds != nil && !(*s.RemoveArchivedAfterSeconds >= 0 && *s.RemoveArchivedAfterSeconds <= 100*year):
		return fmt.Errorf("remove_archived_after: %v is not between 0 and %d seconds", *s.RemoveArchivedAfterSeconds, 100*year)
	}
	return nil
}

// setAsideKey is the key of settings.json for the paths of damaged contents. It is no setting.
const setAsideKey = "set_aside"

// ProtectiveSettings replace damaged ones, which are in these files now. No job leaves the queue or the archive by its age, and no kept
// output is removed: the damaged file may have forbidden what the defaults and the options of the daemon permit.
func ProtectiveSettings(setAside []string) []byte {
	content, err := json.MarshalIndent(map[string]any{"archive_after": 0, "remove_archived_after": 0, "output_total": OutputLimitMax,
		setAsideKey: setAside}, "", "  ")
	if err != nil {
		panic(fmt.Errorf("settings cannot be encoded: %w", err)) // they are numbers and texts
	}
	return append(content, '\n')
}

// SetAside are the paths of damaged contents that settings have replaced.
func SetAside(data []byte) []string {
	var file struct {
		SetAside []string `json:"set_aside"`
	}
	_ = json.Unmarshal(data, &file) // what is damaged names none
	return file.SetAside
}

// DecodeSettings reads and validates the file. Missing settings, and all settings of an empty file, are the defaults. In a file without
// order, predictive decides about it: false means plain.
func DecodeSettings(data []byte) (Settings, error) {
	s := DefaultSettings()
	if len(data) == 0 {
		return s, nil
	}
	s.Order = ""
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("decode the settings: %w", err)
	}
	if s.Order == "" {
		s.Order = OrderPlain
		if s.Predictive {
			s.Order = DefaultSettings().Order
		}
	}
	s.Predictive = s.Order != OrderPlain
	return s, s.Validate()
}

// EditSettings changes settings by name, in the content of the file. Values are JSON; null brings the default back. A change of order
// removes predictive, and the other way round. The file contains only settings that differ from the defaults, so a new default takes
// effect. The error names the setting.
func EditSettings(data []byte, changes map[string][]byte) ([]byte, error) {
	file, err := decodeObject(data)
	if err != nil {
		return nil, fmt.Errorf("decode the settings: %w", err)
	}
	known := DefaultSettings().Values()
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		if _, exists := known[name]; !exists {
			return nil, fmt.Errorf("there is no setting %q; there are %v", name, slices.Sorted(maps.Keys(known)))
		}
		switch name { // the one that is set later counts
		case "order":
			delete(file, "predictive")
		case "predictive":
			delete(file, "order")
		}
		file[name] = changes[name]
		if string(changes[name]) == "null" {
			delete(file, name) // the default value
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
		panic(fmt.Errorf("settings cannot be encoded: %w", err)) // numbers and booleans
	}
	values, err := decodeObject(encoded)
	if err != nil {
		panic(fmt.Errorf("settings are no object: %w", err))
	}
	return values
}

package words

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// Setting describes a setting. The daemon may have further settings.
type Setting struct {
	Text string // what it means; "": the setting is unknown
	// Duration: the value is a time in seconds, typed with a unit.
	Duration bool
	// Size: the value is a number of bytes, typed with a unit.
	Size bool
	// Choices are the only values, if there are few.
	Choices []string
}

// SettingOf describes the setting with a name.
func SettingOf(key string) Setting {
	switch key {
	case "max_running_jobs":
		return Setting{Text: "maximum number of running jobs"}
	case "order":
		return Setting{Text: "which pending jobs go first: expected, weights or plain", Choices: []string{"expected", "weights", "plain"}}
	case "reserve_after":
		return Setting{
			Text:     "time after which the oldest waiting job of each priority reserves its locks and places in limits",
			Duration: true,
		}
	case "predictive":
		return Setting{Text: "false: the order is plain; true: the default order"}
	case "predictive_base":
		return Setting{Text: "weight of a job without contention"}
	case "predictive_tick":
		return Setting{Text: "time per tick of a waiting job's age", Duration: true}
	case "predictive_ticks":
		return Setting{Text: "ticks after which a job has no weight"}
	case "lock_bypass_after":
		return Setting{Text: "time after which later requests may not overtake a lock request", Duration: true}
	case "config_lock_check":
		return Setting{Text: "a change of an object by a client without its lock: note or refuse", Choices: []string{"note", "refuse"}}
	case "log_limit":
		return Setting{Text: "bound of the log of each opcode, 64kB to 4MB", Size: true}
	case "output_wait":
		return Setting{Text: "time that a command waits for a client that follows it and takes no output", Duration: true}
	case "keep_output":
		return Setting{Text: "true: all output of commands is kept in files, unless their opcode says otherwise"}
	case "output_limit":
		return Setting{Text: "bound of the kept output of each job, 1MB to 1PB", Size: true}
	case "output_total":
		return Setting{Text: "bound of the kept output of all jobs on a node; 0: a tenth of its disk", Size: true}
	case "archive_after":
		return Setting{Text: "time after which ended jobs are archived; 0: never; null: lockstepd --archive-after", Duration: true}
	case "keep_last":
		return Setting{Text: "last ended jobs of each name that are not archived"}
	case "remove_archived_after":
		return Setting{Text: "time after which archived jobs are removed; 0: never; null: lockstepd --archive-days", Duration: true}
	}
	return Setting{}
}

// ParseSetting is the JSON of a typed value, which must have the type of the value that the setting has; durations and sizes may have
// units. The error of the daemon would not show the typed value.
func ParseSetting(key, typed string, have json.RawMessage) (json.RawMessage, error) {
	want := jsonType(have)
	value := json.RawMessage(typed)
	if !json.Valid(value) || want == "a text" && jsonType(value) != want {
		encoded, err := json.Marshal(typed)
		if err != nil {
			return nil, err
		}
		value = encoded
	}
	if SettingOf(key).Duration && typed != "null" && typed != "0" {
		duration, err := ParseDuration(typed)
		if err != nil {
			return nil, fmt.Errorf("the setting %s: %w", key, err)
		}
		return json.RawMessage(strconv.FormatFloat(duration.Seconds(), 'f', -1, 64)), nil
	}
	if SettingOf(key).Size && typed != "null" {
		size, err := parseSize(typed)
		if err != nil {
			return nil, fmt.Errorf("the setting %s: %w", key, err)
		}
		return json.RawMessage(strconv.FormatInt(size, 10)), nil
	}
	if is := jsonType(value); is != want && is != "null" && want != "null" {
		return nil, fmt.Errorf("the setting %s is %s, like %s, not %s", key, want, FormatSetting(key, have), typed)
	}
	return value, nil
}

// FormatSetting is a value in the form that ParseSetting reads, with units.
func FormatSetting(key string, value json.RawMessage) string {
	var seconds float64
	if SettingOf(key).Duration && jsonType(value) == "a number" && json.Unmarshal(value, &seconds) == nil {
		return FormatDuration(time.Duration(seconds * float64(time.Second)).Round(time.Millisecond))
	}
	var size int64
	if SettingOf(key).Size && json.Unmarshal(value, &size) == nil {
		return sizeText(size)
	}
	var text string
	if json.Unmarshal(value, &text) == nil && jsonType(value) == "a text" {
		return shortened(text)
	}
	return shortened(string(value))
}

// jsonType names the type of a value, which must be valid JSON.
func jsonType(value json.RawMessage) string {
	var decoded any
	if json.Unmarshal(value, &decoded) != nil {
		return "nothing"
	}
	switch decoded.(type) {
	case nil:
		return "null"
	case string:
		return "a text"
	case bool:
		return "true or false"
	case float64:
		return "a number"
	case []any:
		return "a list"
	}
	return "an object"
}

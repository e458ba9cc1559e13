package config

import (
	"encoding/json"
	"strconv"

	"github.com/dustin/go-humanize"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
)

// settingInfo describes a setting. The daemon may have further settings.
type settingInfo struct {
	text string
	// duration: the value is a time in seconds, typed with a unit.
	duration bool
	// size: the value is a number of bytes, typed with a unit.
	size bool
}

// SettingText says what a setting means; "": the setting is unknown.
func SettingText(key string) string { return settingInfoOf(key).text }

func settingInfoOf(key string) settingInfo {
	switch key {
	case "max_running_jobs":
		return settingInfo{text: "maximum number of running jobs"}
	case "order":
		return settingInfo{text: "which pending jobs go first: expected, weights or plain"}
	case "reserve_after":
		return settingInfo{
			text:     "time after which the oldest waiting job of each priority reserves its locks and places in limits",
			duration: true,
		}
	case "predictive":
		return settingInfo{text: "false: the order is plain; true: the default order"}
	case "predictive_base":
		return settingInfo{text: "weight of a job without contention"}
	case "predictive_tick":
		return settingInfo{text: "time per tick of a waiting job's age", duration: true}
	case "predictive_ticks":
		return settingInfo{text: "ticks after which a job has no weight"}
	case "lock_bypass_after":
		return settingInfo{text: "time after which later requests may not overtake a lock request", duration: true}
	case "config_lock_check":
		return settingInfo{text: "a change of an object by a client without its lock: note or refuse"}
	case "log_limit":
		return settingInfo{text: "bound of the log of each opcode, 64kB to 4MB", size: true}
	case "output_wait":
		return settingInfo{text: "time that a command waits for a client that follows it and takes no output", duration: true}
	case "keep_output":
		return settingInfo{text: "true: all output of commands is kept in files, unless their opcode says otherwise"}
	case "output_limit":
		return settingInfo{text: "bound of the kept output of each job, 1MB to 1PB", size: true}
	case "output_total":
		return settingInfo{text: "bound of the kept output of all jobs on a node; 0: a tenth of its disk", size: true}
	case "archive_after":
		return settingInfo{text: "time after which ended jobs are archived; 0: never; null: lockstepd --archive-after", duration: true}
	case "keep_last":
		return settingInfo{text: "last ended jobs of each name that are not archived"}
	case "remove_archived_after":
		return settingInfo{text: "time after which archived jobs are removed; 0: never; null: lockstepd --archive-days", duration: true}
	}
	return settingInfo{}
}

// settingValue is the JSON of a typed value, which must have the type of the setting; durations and sizes may have units. The error of
// the daemon would not show the typed value.
func settingValue(key, typed string, have json.RawMessage) (json.RawMessage, error) {
	want := jsonType(have)
	value := json.RawMessage(typed)
	if !json.Valid(value) || want == "a text" && jsonType(value) != want {
		encoded, err := cli.EncodeJSON(typed)
		if err != nil {
			return nil, err
		}
		value = encoded
	}
	if settingInfoOf(key).duration && typed != "null" {
		duration, err := term.ParseDuration(typed)
		if err != nil {
			return nil, cli.Usagef("the setting %s: %v", key, err)
		}
		return json.RawMessage(strconv.FormatFloat(duration.Seconds(), 'f', -1, 64)), nil
	}
	if settingInfoOf(key).size && typed != "null" {
		size, err := humanize.ParseBytes(typed)
		if err != nil {
			return nil, cli.Usagef("the setting %s: %q is not a size: write a number of bytes, or one with a unit, like 64kB or 1MB", key, typed)
		}
		return json.RawMessage(strconv.FormatUint(size, 10)), nil
	}
	if is := jsonType(value); is != want && is != "null" && want != "null" {
		return nil, cli.Usagef("the setting %s is %s, like %s, not %s", key, want, settingText(key, have), typed)
	}
	return value, nil
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

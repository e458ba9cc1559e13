package queue

import (
	"encoding/json"
	"strconv"

	"lockstep/cmd/lockstep/internal/cli"
)

// settingInfo is what is known of a setting: the daemon may have more than these.
type settingInfo struct {
	text string
	// count: it is a number of things, which no time can be.
	count bool
}

func settingInfoOf(key string) settingInfo {
	switch key {
	case "max_running_jobs":
		return settingInfo{text: "how many jobs may run at a time", count: true}
	case "predictive":
		return settingInfo{text: "whether jobs that would contend for locks come later"}
	case "predictive_base":
		return settingInfo{text: "what a job weighs that contends with nobody"}
	case "predictive_tick":
		return settingInfo{text: "seconds after which a waiting job weighs less"}
	case "predictive_ticks":
		return settingInfo{text: "how many ticks make contention count for nothing", count: true}
	case "lock_bypass_after":
		return settingInfo{text: "seconds that a request for locks waits before later ones stand back"}
	}
	return settingInfo{}
}

// settingValue is the JSON for a value that was typed. It must be of the type that the
// setting has: the daemon would say so as well, but not which value was meant.
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
	if want == "a number" && jsonType(value) == "a text" {
		duration, err := cli.ParseDuration(typed)
		if err == nil && !settingInfoOf(key).count {
			return json.RawMessage(strconv.FormatFloat(duration.Seconds(), 'f', -1, 64)), nil
		}
	}
	if is := jsonType(value); is != want && is != "null" && want != "null" {
		return nil, cli.Usagef("the setting %s is %s, like %s, not %s", key, want, settingText(have), typed)
	}
	return value, nil
}

// jsonType names what a value is, which must be valid.
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

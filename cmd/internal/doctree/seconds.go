package doctree

import (
	"encoding/json"
	"strconv"

	"lockstep/core/words"
)

// Seconds is a text that is a duration, such as 10m, as a number of seconds, and any other value unchanged.
func (n Node) Seconds() Node {
	text, isText := n.Scalar.(string)
	if n.Kind != Scalar || !isText {
		return n
	}
	if duration, err := words.ParseDuration(text); err == nil {
		n.Scalar = json.Number(strconv.FormatFloat(duration.Seconds(), 'f', -1, 64))
	}
	return n
}

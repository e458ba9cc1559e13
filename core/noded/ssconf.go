package noded

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"lockstep/core/rawjson"
)

// SsconfMax is the maximum length of a ssconf value, each line with its newline, in bytes. The node daemon stops at a longer
// value and writes no further key of the call (noded.md 5).
const SsconfMax = 131072

// Ssconf encodes the call that writes ssconf files, keys in ascending order. It leaves out values that are too long, so that
// the node keeps its files of these keys; tooLong names them in ascending order.
func Ssconf(values map[string][]string) (r Request, tooLong []string) {
	kept := map[string][]string{}
	for key, lines := range values {
		if lengthOf(lines) > SsconfMax {
			tooLong = append(tooLong, key)
			continue
		}
		kept[key] = append([]string{}, lines...)
	}
	slices.Sort(tooLong)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode([]any{kept}) // strings can always be encoded
	return Request{WriteSsconf, bytes.TrimSpace(b.Bytes())}, tooLong
}

func lengthOf(lines []string) int {
	n := 0
	for _, line := range lines {
		n += len(line) + 1
	}
	return n
}

// DecodeSsconf decodes the body of write_ssconf_files, for fake node daemons.
func DecodeSsconf(body []byte) (map[string][]string, error) {
	args, err := arguments(body, 1)
	if err != nil {
		return nil, err
	}
	var values map[string][]string
	if err := json.Unmarshal(args[0], &values); err != nil {
		return nil, fmt.Errorf("argument 0 is no object of lists: %s", rawjson.Clipped(args[0]))
	}
	return values, nil
}

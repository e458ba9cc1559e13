package model

import (
	"errors"
	"fmt"
)

// FilterRule is a filter rule of the job queue (config.md 2.7). It has no serial number and no times.
type FilterRule struct {
	Watermark   int64
	Priority    int64
	Predicates  []JSON // each a kind and a filter
	Action      Action
	ReasonTrail []JSON
	UUID        string
}

// Action is the action of a rule. Only RATE_LIMIT uses Limit.
type Action struct {
	Word  string
	Limit int64
}

const rateLimit = "RATE_LIMIT"

var filterTable = newTable([]field[FilterRule]{
	required("watermark", natural, func(f *FilterRule) *int64 { return &f.Watermark }),
	required("priority", natural, func(f *FilterRule) *int64 { return &f.Priority }),
	required("predicates", list(predicate), func(f *FilterRule) *[]JSON { return &f.Predicates }),
	required("action", action, func(f *FilterRule) *Action { return &f.Action }),
	required("reason_trail", list(reason), func(f *FilterRule) *[]JSON { return &f.ReasonTrail }),
	required("uuid", text, func(f *FilterRule) *string { return &f.UUID }),
})

var natural = codec[int64]{
	decode: func(raw []byte) (int64, error) {
		v, err := DecodeInt(raw)
		if err == nil && v < 0 {
			err = fmt.Errorf("Invalid value for non-negative type '%d'", v)
		}
		return v, err
	},
	append: integer.append,
}

// predicate is the codec of a pair of kind and filter. The filter expression is not checked here.
var predicate = codec[JSON]{decode: decodePredicate, append: anyJSON.append}

func decodePredicate(raw []byte) (JSON, error) {
	var parts []JSON
	err := elements(raw, func(value []byte) error {
		v, err := decodeJSON(value)
		parts = append(parts, v)
		return err
	})
	if err != nil || len(parts) == 0 || parts[0][0] != '"' {
		return nil, errors.New("malformed FilterPredicate: must be a list with the first entry being a string describing the predicate type")
	}
	kind, err := DecodeText(parts[0])
	if err != nil {
		return nil, err
	}
	switch kind {
	case "jobid", "opcode", "reason":
		if len(parts) == 2 {
			return decodeJSON(raw)
		}
	}
	return nil, fmt.Errorf("malformed FilterPredicate: bad parameter list for '%s' predicate: %s", kind, list(anyJSON).append(nil, parts[1:]))
}

var action = codec[Action]{
	decode: decodeAction,
	append: func(dst []byte, a Action) []byte {
		if a.Word == rateLimit {
			return fmt.Appendf(dst, `["RATE_LIMIT",%d]`, a.Limit)
		}
		return AppendText(dst, a.Word)
	},
}

func decodeAction(raw []byte) (Action, error) {
	v, err := decodeJSON(raw)
	if err != nil {
		return Action{}, err
	}
	switch string(v) {
	case `"ACCEPT"`, `"PAUSE"`, `"REJECT"`, `"CONTINUE"`:
		word, err := DecodeText(v)
		return Action{Word: word}, err
	}
	var parts [][]byte
	if v[0] == '[' {
		err = elements(v, func(value []byte) error { parts = append(parts, value); return nil })
	}
	if err != nil || len(parts) == 0 || string(parts[0]) != `"RATE_LIMIT"` {
		return Action{}, fmt.Errorf("malformed FilterAction JSON: %s", v)
	}
	if len(parts) == 2 {
		if limit, err := DecodeInt(parts[1]); err == nil && limit > 0 {
			return Action{rateLimit, limit}, nil
		}
	}
	return Action{}, errors.New("RATE_LIMIT argument must be a positive integer")
}

// reason is the codec of a triple of source, text and time in nanoseconds.
var reason = codec[JSON]{
	decode: func(raw []byte) (JSON, error) {
		parts, err := tuple(raw, 3, errors.New("Unable to read Triple"))
		if err != nil {
			return nil, err
		}
		dst := []byte{'['}
		for _, part := range parts[:2] {
			s, err := DecodeText(part)
			if err != nil {
				return nil, err
			}
			dst = append(AppendText(dst, s), ',')
		}
		when, err := DecodeInt(parts[2])
		return append(integer.append(dst, when), ']'), err
	},
	append: anyJSON.append,
}

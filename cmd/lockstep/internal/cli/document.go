package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"lockstep/cmd/lockstep/internal/client"
)

// Document is an answer of the daemon as --json prints it: times, the values of keys that end
// in _ts, are RFC 3339, and some objects have their keys in another order. order maps a key to
// the order of keys of its object, or of the objects of its list; "" stands for the answer
// itself. Keys that order does not name follow in their own order.
func Document(answer any, order map[string][]string) (json.RawMessage, error) {
	encoded, err := EncodeJSON(answer)
	if err != nil {
		return nil, err
	}
	return document("", encoded, order)
}

func document(key string, value json.RawMessage, order map[string][]string) (json.RawMessage, error) {
	switch {
	case strings.HasSuffix(key, "_ts"):
		var time client.Timestamp
		if err := json.Unmarshal(value, &time); err != nil {
			return nil, err
		}
		return json.Marshal(time)
	case value[0] == '[':
		var parts []json.RawMessage
		err := json.Unmarshal(value, &parts)
		for i := 0; i < len(parts) && err == nil; i++ {
			parts[i], err = document(key, parts[i], order)
		}
		if err != nil {
			return nil, err
		}
		return EncodeJSON(parts)
	case value[0] == '{':
		return object(value, order[key], order)
	}
	return value, nil
}

func object(value json.RawMessage, first []string, order map[string][]string) (json.RawMessage, error) {
	decoder := json.NewDecoder(bytes.NewReader(value))
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	members := map[string]json.RawMessage{}
	var keys []string
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		key, _ := token.(string)
		var member json.RawMessage
		if err := decoder.Decode(&member); err != nil {
			return nil, err
		}
		if members[key], err = document(key, member, order); err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	slices.SortStableFunc(keys, func(a, b string) int { return rank(first, a) - rank(first, b) })
	var result bytes.Buffer
	for _, key := range keys {
		name, err := EncodeJSON(key)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&result, ",%s:%s", name, members[key])
	}
	return fmt.Appendf(nil, "{%s}", bytes.TrimPrefix(result.Bytes(), []byte(","))), nil
}

// rank is the index of a key in the order; a key that is not in the order comes last.
func rank(keys []string, key string) int {
	if i := slices.Index(keys, key); i >= 0 {
		return i
	}
	return len(keys)
}

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"lockstep/cmd/internal/term"
)

// OrEmpty returns the list, or an empty list for nil, so that JSON shows [] and not null.
func OrEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// RawText is JSON as it was received, with control characters escaped. What is no JSON is shown as text.
func RawText(raw json.RawMessage) string {
	value, err := DecodeAny(raw)
	if err != nil {
		return term.Visible(string(raw))
	}
	encoded, err := EncodeJSON(value)
	if err != nil {
		return term.Visible(string(raw))
	}
	return term.Visible(string(encoded))
}

// PlainText shows a decoded value: a string as it is, any other value as JSON.
func PlainText(value any) string {
	if text, ok := value.(string); ok {
		return term.Visible(term.Shortened(text, term.ValueMax))
	}
	return JSONText(value)
}

// JSONText shows a decoded value as JSON on one line, at most term.ValueMax long.
func JSONText(value any) string {
	encoded, err := EncodeJSON(value)
	if err != nil {
		return term.Visible(fmt.Sprint(value))
	}
	return term.Visible(term.Shortened(string(encoded), term.ValueMax))
}

// DecodeAny decodes JSON; numbers keep their digits.
func DecodeAny(raw json.RawMessage) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return value, nil
}

// EncodeJSON is json.Marshal without escapes for HTML.
func EncodeJSON(value any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimRight(buffer.Bytes(), "\n"), nil
}

// PrintJSON writes one indented JSON document.
func PrintJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

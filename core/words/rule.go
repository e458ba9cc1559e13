package words

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// valueMax is the number of characters that are shown of one value.
const valueMax = 200

// Conditions says which jobs the predicates of a filter rule with this watermark are about; "all" without predicates. What is invalid is
// shown as JSON.
func Conditions(predicates json.RawMessage, watermark int64) string {
	decoder := json.NewDecoder(bytes.NewReader(predicates))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return string(predicates)
	}
	list, ok := value.([]any)
	switch {
	case !ok:
		return jsonText(value)
	case len(list) == 0:
		return "all"
	}
	texts := make([]string, len(list))
	for i, predicate := range list {
		texts[i] = predicateText(predicate, watermark)
	}
	return strings.Join(texts, "; ")
}

// jsonText is a decoded value as JSON in one line.
func jsonText(value any) string {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(value) != nil {
		return fmt.Sprint(value)
	}
	return shortened(strings.TrimSuffix(text.String(), "\n"))
}

// plainText is a text as it is, and any other value as JSON.
func plainText(value any) string {
	if text, is := value.(string); is {
		return shortened(text)
	}
	return jsonText(value)
}

func shortened(text string) string {
	if utf8.RuneCountInString(text) <= valueMax {
		return text
	}
	return string([]rune(text)[:valueMax-1]) + "…"
}

// choiceOf joins words for a sentence: a, b or c.
func choiceOf(texts []string) string {
	last := len(texts) - 1
	return strings.Join(texts[:last], ", ") + " or " + texts[last]
}

// predicateText shows one predicate of a filter rule, [name, expression], in words, or an invalid
// one as JSON.
func predicateText(predicate any, watermark int64) string {
	pair, ok := predicate.([]any)
	if !ok || len(pair) != 2 {
		return jsonText(predicate)
	}
	reader := expressionReader{watermark: watermark}
	switch pair[0] {
	case "jobid":
		reader.fields = map[string]string{"id": "job"}
		return reader.text(pair[1], loosest)
	case "opcode":
		reader.fields = map[string]string{"OP_ID": "opcode"}
		return reader.text(pair[1], loosest)
	case "reason":
		return reader.text(pair[1], loosest)
	case "lock":
		reader.fields = map[string]string{"name": "lock", "mode": "mode of the lock"}
		return reader.text(pair[1], loosest)
	case "user":
		reader.fields = map[string]string{"name": "user", "uid": "uid"}
		return reader.text(pair[1], loosest)
	case "name":
		return reader.text(pair[1], loosest)
	}
	return jsonText(predicate)
}

// The precedence of operators, from loosest to tightest.
const (
	loosest = iota
	looser  // or
	tighter // and
)

// expressionReader turns expressions (queue.md 2.1) into text.
type expressionReader struct {
	watermark int64
	fields    map[string]string // displayed names of fields, where they differ
}

// text shows an expression in words, inside an operator with the precedence within. What is invalid is shown as JSON.
func (r expressionReader) text(expression any, within int) string {
	if expression == nil {
		return "any"
	}
	list, ok := expression.([]any)
	if !ok || len(list) == 0 {
		return jsonText(expression)
	}
	operator, _ := list[0].(string)
	switch {
	case operator == "&":
		return r.joined(list[1:], " and ", tighter, within)
	case operator == "|":
		return r.joined(list[1:], " or ", looser, within)
	case operator == "!" && len(list) == 2:
		return "not (" + r.text(list[1], loosest) + ")"
	case operator == "?" && len(list) == 2:
		return r.field(list[1])
	case len(list) != 3:
		return jsonText(expression)
	}
	words := map[string]string{"=": "is", "==": "is", "!=": "is not", "=~": "matches", "=[]": "contains",
		"<": "<", ">": ">", "<=": "<=", ">=": ">="}
	word, known := words[operator]
	if !known {
		return jsonText(expression)
	}
	return r.field(list[1]) + " " + word + " " + r.value(list[1], list[2])
}

func (r expressionReader) joined(parts []any, word string, tightness, within int) string {
	if choice, ok := r.choice(parts, tightness); ok {
		return choice
	}
	var words []string
	for _, part := range parts {
		words = append(words, r.text(part, tightness))
	}
	text := strings.Join(words, word)
	switch {
	case len(parts) == 0 && tightness == looser:
		return "none"
	case len(parts) == 0:
		return "any"
	case len(parts) > 1 && within > tightness:
		return "(" + text + ")"
	}
	return text
}

// choice shortens comparisons of one field with several values: "job is 3, 4 or 5". It reports false if the parts are something else.
func (r expressionReader) choice(parts []any, tightness int) (string, bool) {
	if tightness != looser || len(parts) < 2 {
		return "", false
	}
	var field any
	var values []string
	for i, part := range parts {
		leaf, ok := part.([]any)
		if !ok || len(leaf) != 3 || !slices.Contains([]any{"=", "=="}, leaf[0]) {
			return "", false
		}
		if _, isName := leaf[1].(string); !isName || i > 0 && leaf[1] != field {
			return "", false
		}
		field = leaf[1]
		values = append(values, r.value(field, leaf[2]))
	}
	return r.field(field) + " is " + choiceOf(values), true
}

func (r expressionReader) field(field any) string {
	name, ok := field.(string)
	if !ok {
		return jsonText(field)
	}
	if word, ok := r.fields[name]; ok {
		return word
	}
	return name
}

func (r expressionReader) value(field, value any) string {
	if field == "id" && value == "watermark" && r.fields["id"] != "" {
		return strconv.FormatInt(r.watermark, 10)
	}
	if field == "OP_ID" {
		return plainText(value)
	}
	return jsonText(value)
}

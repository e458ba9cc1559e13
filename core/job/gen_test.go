package job

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"pgregory.net/rapid"
)

// tree is a JSON value that can be spelled as the encoder does or in other ways.
type tree struct {
	literal string     // a literal or number, spelled
	text    []uint16   // a string, where kind is '"'
	keys    [][]uint16 // of an object
	values  []tree     // of an object or list
	kind    byte       // 'l', '"', '{', '['
}

// units are the UTF-16 code units most likely to be spelled wrongly; lone surrogates among them.
var units = []uint16{
	'a', 'Z', ' ', '~', '"', '\\', '/', '<', '\n', '\r', '\t', '\b', '\f', 0, 1, 0x1f, 0x7f, 0x80, 0xe4, 0x7ff, 0x800,
	0x2028, 0xfffd, 0xffff, 0xd800, 0xdbff, 0xdc00, 0xdfff, 0xd83d, 0xde00,
}

func genUnits() *rapid.Generator[[]uint16] {
	return rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(units), rapid.Uint16()), 0, 8)
}

func genTree(depth int) *rapid.Generator[tree] {
	return rapid.Custom(func(t *rapid.T) tree {
		kinds := []byte{'l', '"', '{', '['}
		if depth == 0 {
			kinds = kinds[:2]
		}
		v := tree{kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
		switch v.kind {
		case 'l':
			v.literal = rapid.OneOf(
				rapid.SampledFrom([]string{"null", "true", "false", "0", "-0", "1.0e-2", "1E+5", "0.10", "1795175118275526000",
					"123456789012345678901234567890", "-1.5e300", "1e999"}),
				rapid.Map(rapid.Int64(), func(n int64) string { return strconv.FormatInt(n, 10) }),
			).Draw(t, "literal")
		case '"':
			v.text = genUnits().Draw(t, "text")
		case '{', '[':
			v.values = rapid.SliceOfN(genTree(depth-1), 0, 4).Draw(t, "values")
			for range v.values {
				v.keys = append(v.keys, genUnits().Draw(t, "key"))
			}
		}
		return v
	})
}

// python is v in Python's form.
func (v tree) python() string {
	switch v.kind {
	case 'l':
		return v.literal
	case '"':
		return pythonString(v.text)
	}
	var parts []string
	for i, value := range v.values {
		part := value.python()
		if v.kind == '{' {
			part = pythonString(v.keys[i]) + ": " + part
		}
		parts = append(parts, part)
	}
	return string(v.kind) + strings.Join(parts, ", ") + string(v.kind+2)
}

func pythonString(text []uint16) string {
	short := map[uint16]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`}
	var b strings.Builder
	for _, unit := range text {
		switch escape, isShort := short[unit]; {
		case isShort:
			b.WriteString(escape)
		case unit < ' ' || unit > '~':
			fmt.Fprintf(&b, `\u%04x`, unit)
		default:
			b.WriteByte(byte(unit))
		}
	}
	return `"` + b.String() + `"`
}

// sloppy is v with arbitrary white space and escapes.
func (v tree) sloppy(t *rapid.T) string {
	space := func() string {
		return rapid.SampledFrom([]string{"", "", " ", "\n", "\t", "\r\n  "}).Draw(t, "space")
	}
	switch v.kind {
	case 'l':
		return v.literal
	case '"':
		return sloppyString(t, v.text)
	}
	var parts []string
	for i, value := range v.values {
		part := value.sloppy(t)
		if v.kind == '{' {
			part = sloppyString(t, v.keys[i]) + space() + ":" + space() + part
		}
		parts = append(parts, space()+part+space())
	}
	return string(v.kind) + space() + strings.Join(parts, ",") + string(v.kind+2)
}

func sloppyString(t *rapid.T, text []uint16) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		char := rune(text[i])
		if i+1 < len(text) {
			if pair := utf16.DecodeRune(char, rune(text[i+1])); pair != 0xfffd && rapid.Bool().Draw(t, "pair") {
				b.WriteRune(pair)
				i++
				continue
			}
		}
		spelling := rapid.IntRange(0, 3).Draw(t, "spelling")
		switch {
		case char == '/' && spelling == 0:
			b.WriteString(`\/`)
		case char == 0xfffd && spelling == 0:
			b.WriteByte(0xff)
		case spelling == 1:
			fmt.Fprintf(&b, `\u%04X`, char)
		case char < ' ' || char == '"' || char == '\\' || utf16.IsSurrogate(char):
			escape := pythonString([]uint16{uint16(char)})
			b.WriteString(escape[1 : len(escape)-1])
		default:
			b.WriteRune(char)
		}
	}
	return `"` + b.String() + `"`
}

// genRaw is a value in Python's form.
func genRaw() *rapid.Generator[json.RawMessage] {
	return rapid.Map(genTree(3), func(v tree) json.RawMessage { return json.RawMessage(v.python()) })
}

// genResult is genRaw with nil for null.
func genResult() *rapid.Generator[json.RawMessage] {
	return rapid.Map(genRaw(), func(raw json.RawMessage) json.RawMessage {
		if string(raw) == "null" {
			return nil
		}
		return raw
	})
}

func genTimestamp() *rapid.Generator[Timestamp] {
	moment := rapid.Custom(func(t *rapid.T) Timestamp {
		return Timestamp{Sec: rapid.Int64Range(0, secMax).Draw(t, "sec"), Usec: rapid.Int64Range(0, 999_999).Draw(t, "usec")}
	})
	return rapid.OneOf(rapid.Just(Timestamp{}), moment)
}

func genStatus() *rapid.Generator[Status] {
	return rapid.Map(rapid.IntRange(0, int(Error)), func(n int) Status { return Status(n) })
}

func genLogEntry() *rapid.Generator[LogEntry] {
	return rapid.Custom(func(t *rapid.T) LogEntry {
		return LogEntry{
			Serial:  rapid.Int64().Draw(t, "serial"),
			Time:    genTimestamp().Draw(t, "time"),
			Type:    rapid.OneOf(rapid.SampledFrom([]string{"message", "jqueue-test", ""}), rapid.String()).Draw(t, "type"),
			Payload: genResult().Draw(t, "payload"),
		}
	})
}

func genOp() *rapid.Generator[Op] {
	return rapid.Custom(func(t *rapid.T) Op {
		return Op{
			Input:    genRaw().Draw(t, "input"),
			Status:   genStatus().Draw(t, "status"),
			Result:   genResult().Draw(t, "result"),
			Log:      nilIfEmpty(rapid.SliceOfN(genLogEntry(), 0, 3).Draw(t, "log")),
			Priority: int(rapid.Int32().Draw(t, "priority")),
			Start:    genTimestamp().Draw(t, "start"),
			Exec:     genTimestamp().Draw(t, "exec"),
			End:      genTimestamp().Draw(t, "end"),
		}
	})
}

func genJob() *rapid.Generator[*Job] {
	return rapid.Custom(func(t *rapid.T) *Job {
		return &Job{
			ID:        ID(rapid.Int64Min(0).Draw(t, "id")),
			Ops:       nilIfEmpty(rapid.SliceOfN(genOp(), 0, 4).Draw(t, "ops")),
			Received:  genTimestamp().Draw(t, "received"),
			Start:     genTimestamp().Draw(t, "start"),
			End:       genTimestamp().Draw(t, "end"),
			Livelock:  rapid.String().Draw(t, "livelock"),
			ProcessID: int(rapid.Int32Min(0).Draw(t, "process id")),
		}
	})
}

func nilIfEmpty[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	return s
}

// treeOf is the tree of a value that encoding/json has read, with keys in order.
func treeOf(v any) tree {
	switch v := v.(type) {
	case string:
		return tree{kind: '"', text: utf16.Encode([]rune(v))}
	case []any:
		list := tree{kind: '['}
		for _, element := range v {
			list.values = append(list.values, treeOf(element))
		}
		return list
	case map[string]any:
		object := tree{kind: '{'}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			object.keys = append(object.keys, utf16.Encode([]rune(key)))
			object.values = append(object.values, treeOf(v[key]))
		}
		return object
	}
	if v == nil {
		return tree{kind: 'l', literal: "null"}
	}
	return tree{kind: 'l', literal: fmt.Sprint(v)}
}

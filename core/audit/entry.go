// Package audit decides about the audit log (docs/audit.md): what an entry says, which calls of LUXI have one, the form of the files, and
// which entries a reader gets. It is pure.
//
// The log is a sequence of entries with consecutive numbers. A file has the entries from the number in its name on, one a line, as JSON. It
// is replaced as a whole, so that a crash leaves it with an entry or without it.
package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Entry says who has asked for a change, or was refused one.
type Entry struct {
	Number  uint64    `json:"number"` // one more than that of the entry before
	Time    time.Time `json:"time"`
	User    string    `json:"user"`              // for people: alice
	Key     string    `json:"key,omitempty"`     // access.Identity.Key: uid=1000
	By      string    `json:"by,omitempty"`      // the user with the process and the node: uid=1000(alice), pid=4711
	Method  string    `json:"method"`            // of LUXI
	What    string    `json:"what"`              // in words: cancel job 12
	Refused string    `json:"refused,omitempty"` // why it was refused; "": it was asked for, and is done or has failed
	// LeftOut are further refusals of the user since the entry before, which have no entry.
	LeftOut int `json:"left_out,omitempty"`
}

// Bounds of the texts of an entry, in bytes.
const (
	nameMax    = 100
	byMax      = 300
	whatMax    = 800
	refusedMax = 400
)

// Bounded is the entry with its texts cut to their bounds, in printable characters.
func (e Entry) Bounded() Entry {
	e.User, e.Key, e.Method = bounded(e.User, nameMax), bounded(e.Key, nameMax), bounded(e.Method, nameMax)
	e.By, e.What, e.Refused = bounded(e.By, byMax), bounded(e.What, whatMax), bounded(e.Refused, refusedMax)
	return e
}

// bounded is a text of at most so many bytes, of which the last are "…" if it was longer.
func bounded(text string, bytesMax int) string {
	const more = "…"
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
	if len(text) <= bytesMax {
		return text
	}
	cut := bytesMax - len(more)
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + more
}

// line is the entry in a file.
func (e Entry) line() []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(e); err != nil {
		panic(fmt.Errorf("encode an entry of the audit log: %w", err)) // texts, numbers, and a time of this millennium
	}
	return b.Bytes()
}

// IsOf reports whether the entry is about a user: a name, or a key such as uid=1000.
func (e Entry) IsOf(user string) bool {
	return user == e.User || user == e.Key || "remote="+user == e.Key
}

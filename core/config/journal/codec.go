package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	"lockstep/core/config/model"
	"lockstep/core/config/ownrules"
	"lockstep/core/config/reserve"
)

// A line of config.journal is
//
//	checksum mark record
//
// with a line feed at the end. checksum is the CRC-32C of the rest of the line, 8 lower-case hexadecimal digits. mark is = for the
// first record of an append and + for the others: a line that cannot be read is damage only if a complete append follows. record
// is JSON with the member v, the version. Later versions keep checksum, mark and v.

// version is the version of records.
const version = 1

// LineMax is the maximum length of a line in bytes.
const LineMax = 256 << 20

const (
	markFirst = '='
	markNext  = '+'
	// prefixLen is the length of checksum and mark with the spaces after them.
	prefixLen = 11
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Digest identifies a record by its encoding.
type Digest string

// Line is an encoded record.
type Line struct {
	Bytes  []byte // with the line feed
	Digest Digest
}

// recordJSON is the JSON form of a record.
type recordJSON struct {
	Version    int               `json:"v"`
	Number     uint64            `json:"number"`
	From       Point             `json:"from"`
	To         Point             `json:"to"`
	Time       float64           `json:"time"`
	Caller     reserve.Caller    `json:"caller"`
	Method     string            `json:"method,omitempty"`
	Job        int64             `json:"job,omitempty"`
	Delta      json.RawMessage   `json:"delta,omitempty"`
	Reserved   *reservationsJSON `json:"reserved,omitempty"`
	Concurrent *[]reserve.IP     `json:"concurrent,omitempty"`
	Rules      ownrules.Patch    `json:"rules,omitempty"`
	Unlocked   [][2]string       `json:"unlocked,omitempty"` // kind and uuid
}

type reservationsJSON struct {
	File  json.RawMessage `json:"file"`
	Extra json.RawMessage `json:"extra"`
}

// Encode returns the line of a record. isFirst: it is the first one of an append.
func Encode(r *Record, isFirst bool) (Line, error) {
	delta := r.Delta
	head := *r
	head.Delta = nil // added by hand: encoding/json would copy and check it, and it can be large
	raw, err := compact(head.json())
	if err != nil {
		return Line{}, fmt.Errorf("record %d cannot be encoded: %w", r.Number, err)
	}
	line := make([]byte, prefixLen, prefixLen+len(raw)+len(delta)+16)
	line = append(line, raw[:len(raw)-1]...)
	if delta != nil {
		line = append(append(line, `,"delta":`...), delta...)
	}
	line = append(line, '}')
	switch {
	case len(line) >= LineMax:
		return Line{}, fmt.Errorf("record %d has %d bytes, more than the maximum of %d", r.Number, len(line), LineMax)
	case bytes.IndexByte(line, '\n') >= 0:
		return Line{}, fmt.Errorf("record %d is not one line", r.Number)
	}
	copy(line[8:], " + ")
	if isFirst {
		line[9] = markFirst
	}
	hex.Encode(line, checksum(line))
	return Line{append(line, '\n'), digest(line)}, nil
}

// compact encodes a value in one line. Unlike json.Marshal it does not rewrite nested JSON.
func compact(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// checksum returns the CRC-32C of a line without line feed, from the mark (line[9]) on, as four bytes.
func checksum(line []byte) []byte {
	sum := crc32.Checksum(line[9:], castagnoli)
	return []byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}
}

func digest(line []byte) Digest {
	sum := sha256.Sum256(line[prefixLen:])
	return Digest(hex.EncodeToString(sum[:16]))
}

func (r *Record) json() recordJSON {
	o := recordJSON{Version: version, Number: r.Number, From: r.From, To: r.To, Time: float64(r.Time), Caller: r.Caller,
		Method: r.Method, Job: r.Job, Delta: r.Delta, Rules: r.Rules}
	for _, t := range r.Unlocked {
		o.Unlocked = append(o.Unlocked, [2]string{t.Kind, t.UUID})
	}
	if r.Reserved != nil {
		o.Reserved = &reservationsJSON{r.Reserved.File, r.Reserved.Extra}
	}
	if r.ConcurrentChanged {
		changes := append([]reserve.IP{}, r.Concurrent...)
		o.Concurrent = &changes
	}
	return o
}

func (o recordJSON) record() *Record {
	r := &Record{Number: o.Number, From: o.From, To: o.To, Delta: o.Delta, Time: model.Time(o.Time), Rules: o.Rules,
		Author: Author{Caller: o.Caller, Method: o.Method, Job: o.Job}}
	for _, t := range o.Unlocked {
		r.Unlocked = append(r.Unlocked, model.Touched{Kind: t[0], UUID: t[1]})
	}
	if o.Reserved != nil {
		r.Reserved = &Reservations{o.Reserved.File, o.Reserved.Extra}
	}
	if o.Concurrent != nil {
		r.Concurrent, r.ConcurrentChanged = *o.Concurrent, true
	}
	return r
}

// errLine is about a line that was not written completely, or was damaged since.
var errLine = errors.New("the line is damaged")

// newerError is about a record of a later version.
type newerError struct{ version int }

func (e *newerError) Error() string {
	return fmt.Sprintf("the record has version %d, this program knows version %d", e.version, version)
}

// decode decodes a line without line feed. The error is a *newerError if a later version has written the line.
func decode(line []byte) (*Record, error) {
	if err := checkLine(line); err != nil {
		return nil, err
	}
	var v struct {
		Version int `json:"v"`
	}
	if err := json.Unmarshal(line[prefixLen:], &v); err != nil {
		return nil, err
	}
	if v.Version != version {
		return nil, &newerError{v.Version}
	}
	var o recordJSON
	if err := json.Unmarshal(line[prefixLen:], &o); err != nil {
		return nil, err
	}
	return o.record(), nil
}

// checkLine checks form and checksum of a line without line feed. The error is errLine.
func checkLine(line []byte) error {
	if len(line) <= prefixLen || len(line) > LineMax || line[8] != ' ' || line[10] != ' ' || line[9] != markFirst && line[9] != markNext {
		return errLine
	}
	if hex.EncodeToString(checksum(line)) != string(line[:8]) {
		return errLine
	}
	return nil
}

// Reading is the content of config.journal.
type Reading struct {
	Records []*Record
	Lines   []Line // of Records
	Torn    int    // bytes after the last record, from an append that was not completed
	// Damage is about the first line that cannot be used although complete appends follow it; Records are those before it.
	Damage error
}

// Read splits the content of config.journal into records. Numbers ascend by one, and each record applies to the result of the
// one before it. A line that repeats a record is skipped: a store that was restarted can have written an append twice.
func Read(content []byte) Reading {
	var r Reading
	for at := 0; at < len(content); {
		line, next := lineAt(content, at)
		record, err := decode(line)
		if err == nil {
			err = r.add(record, Line{content[at:next:next], digest(line)})
		}
		if errors.Is(err, errLine) && !hasAppend(content, next) {
			r.Torn = len(content) - at
			return r
		}
		if err != nil {
			r.Damage = fmt.Errorf("line %d: %w", len(r.Records)+1, err)
			return r
		}
		at = next
	}
	return r
}

// lineAt returns the line at an offset, and the offset of the next one. A line without line feed is empty.
func lineAt(content []byte, at int) (line []byte, next int) {
	end := bytes.IndexByte(content[at:], '\n')
	if end < 0 {
		return nil, len(content)
	}
	return content[at : at+end], at + end + 1
}

func (r *Reading) add(record *Record, line Line) error {
	if n := len(r.Records); n > 0 {
		first, last := r.Records[0], r.Records[n-1]
		if record.Number >= first.Number && record.Number <= last.Number && r.Lines[record.Number-first.Number].Digest == line.Digest {
			return nil
		}
		switch {
		case record.Number != last.Number+1:
			return fmt.Errorf("record %d follows record %d", record.Number, last.Number)
		case record.From != last.To:
			return fmt.Errorf("record %d does not apply to the result of the record before it", record.Number)
		}
	}
	r.Records, r.Lines = append(r.Records, record), append(r.Lines, line)
	return nil
}

// hasAppend reports whether the first record of an append is at or after an offset.
func hasAppend(content []byte, at int) bool {
	for at < len(content) {
		line, next := lineAt(content, at)
		if checkLine(line) == nil && line[9] == markFirst {
			return true
		}
		at = next
	}
	return false
}

package filter

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf8"
	"unique"

	"lockstep/core/access"
	"lockstep/core/job"
	"lockstep/core/rawjson"
)

// Subject is the part of one job that rules see. It refers to the inputs of the job's opcodes, whose bytes never
// change, and contains little more than positions in them, because hundreds of thousands of jobs may be pending. When
// an input is replaced, for instance because its reason trail has grown, a new Subject is needed.
type Subject struct {
	ID   job.ID
	of   unique.Handle[label]
	ops  []op
	next int // index of the first opcode that is not final; that of the last one if all are final
}

// label has the properties of a job that many jobs share.
type label struct {
	name string           // of the job; "" if it has none
	user access.Submitter // to whom it belongs
}

// op is one opcode. The zero op is an opcode that rules do not see: it matches no rule and has no reasons.
type op struct {
	input []byte // a JSON object; nil in the zero op
	// keys are the offsets of the keys of input, in its order, each with a hash of the key in the bits from hashShift
	// on. So the search for a key does not read the opcode.
	keys  []uint32
	trail []reasonEntry
	texts []byte // the texts of the trail if one of them has escapes; nil if they lie in input
}

// span is the extent of a value within an opcode's input, with its quotes or brackets.
type span struct{ start, end uint32 }

func spanOf(start, end int) span { return span{uint32(start), uint32(end)} }

func (s span) of(raw []byte) []byte { return raw[s.start:s.end] }

const (
	hashShift = 24
	inputMax  = 1 << hashShift // far above opcode.SizeMax
)

// reasonEntry is one entry of a job's reason trail: who gave a reason, which, and when.
type reasonEntry struct {
	source, reason span // within op.trailTexts(), without quotes
	nanos          int64
}

// NewSubject accepts any job. Rules do not see opcodes that are not objects with a string OP_ID, as in Ganeti. Entries
// of reason trails that are not [string, string, integer] are ignored. name is "" for a job without a name, and user is to whom the job
// belongs.
func NewSubject(j *job.Job, name string, user access.Submitter) *Subject {
	s := &Subject{ID: j.ID, of: unique.Make(label{name, user}), ops: make([]op, len(j.Ops)), next: j.FirstUnfinished()}
	for i := range j.Ops {
		s.ops[i] = newOp(bytes.TrimSpace(j.Ops[i].Input))
	}
	return s
}

// At is the subject when the job has come to an opcode, nil if there is no such opcode. It is s itself if the job is there already.
func (s *Subject) At(next int) *Subject {
	switch {
	case next < 0 || next >= len(s.ops):
		return nil
	case next == s.next:
		return s
	}
	moved := *s
	moved.next = next
	return &moved
}

// locks returns the locks that the next opcode is declared to take; none if there is no next one, or it declares nothing.
func (s *Subject) locks(declare Declare) []Lock {
	if declare == nil || s.next < 0 || s.next >= len(s.ops) || s.ops[s.next].input == nil {
		return nil
	}
	return declare(s.ops[s.next].input)
}

func newOp(input []byte) op {
	if len(input) == 0 || input[0] != '{' || len(input) > inputMax || rawjson.Check(input) != nil {
		return op{}
	}
	var buffer [64]uint32
	keys := buffer[:0]
	var id, reason span // if a key is repeated, the last one counts
	for w := rawjson.Walk(input); w.More(); {
		start := uint32(w.Pos())
		key := rawjson.Unquote(w.Key())
		keys = append(keys, start|uint32(hashOf(key))<<hashShift)
		switch value := spanOf(w.Value()); string(key) {
		case "OP_ID":
			id = value
		case "reason":
			reason = value
		}
	}
	if id.end == 0 || input[id.start] != '"' {
		return op{}
	}
	o := op{input: input, keys: slices.Clone(keys)}
	if reason.end > 0 && input[reason.start] == '[' {
		o.readTrail(reason)
	}
	return o
}

// hashOf is the 32-bit FNV-1a of a key, folded to 8 bits.
func hashOf(key []byte) uint8 {
	hash := uint32(2166136261)
	for _, c := range key {
		hash = (hash ^ uint32(c)) * 16777619
	}
	return uint8(hash ^ hash>>8 ^ hash>>16 ^ hash>>24)
}

// find is the extent of the value of a key, zero if there is none. It searches backwards: if a key is repeated, the
// last one counts, as for all readers of the job file. OP_ID, which most rules need, is usually the last key.
func (o *op) find(name string, hash uint8) span {
	for i := len(o.keys) - 1; i >= 0; i-- {
		if uint8(o.keys[i]>>hashShift) != hash {
			continue
		}
		w := rawjson.WalkFrom(o.input, int(o.keys[i]%inputMax))
		if string(rawjson.Unquote(w.Key())) == name {
			return spanOf(w.Value())
		}
	}
	return span{}
}

// value is the opcode's value for a field, nil if there is none.
func (o *op) value(f *field) []byte {
	at := o.find(f.key, f.hash)
	if at.end == 0 {
		return nil
	}
	raw := at.of(o.input)
	for _, key := range f.subkeys {
		if raw = rawjson.Member(raw, key); raw == nil {
			return nil
		}
	}
	return raw
}

// readTrail sets trail and texts from the list at a place of the input. Entries that are malformed are left out.
func (o *op) readTrail(at span) {
	list := at.of(o.input)
	if bytes.IndexByte(list, '\\') >= 0 || !utf8.Valid(list) {
		o.texts = make([]byte, 0, len(list))
	}
	var buffer [16]reasonEntry
	trail := buffer[:0]
	for w := rawjson.Walk(list); w.More(); {
		value := spanOf(w.Value())
		if entry, ok := o.readEntry(value.of(list), at.start+value.start); ok {
			trail = append(trail, entry)
		}
	}
	o.trail = append(o.trail, trail...) // not slices.Clone: the buffer must stay on the stack
}

// readEntry reads the entry raw, which lies at start in the input, if it is well-formed.
func (o *op) readEntry(raw []byte, start uint32) (entry reasonEntry, ok bool) {
	if raw[0] != '[' {
		return reasonEntry{}, false
	}
	var parts [3]span
	n := 0
	for w := rawjson.Walk(raw); w.More(); n++ {
		if value := spanOf(w.Value()); n < len(parts) {
			parts[n] = value
		}
	}
	if n != len(parts) || raw[parts[0].start] != '"' || raw[parts[1].start] != '"' {
		return reasonEntry{}, false
	}
	nanos, err := strconv.ParseInt(string(parts[2].of(raw)), 10, 64)
	if err != nil {
		return reasonEntry{}, false
	}
	return reasonEntry{o.storeText(raw, parts[0], start), o.storeText(raw, parts[1], start), nanos}, true
}

// storeText is the extent of the text of the string raw[at] within trailTexts. raw lies at start in the input.
func (o *op) storeText(raw []byte, at span, start uint32) span {
	if o.texts == nil {
		return span{start + at.start + 1, start + at.end - 1}
	}
	from := len(o.texts)
	o.texts = append(o.texts, rawjson.Unquote(at.of(raw))...)
	return span{uint32(from), uint32(len(o.texts))}
}

// trailTexts are the bytes to which the spans in the trail refer.
func (o *op) trailTexts() []byte {
	if o.texts == nil {
		return o.input
	}
	return o.texts
}

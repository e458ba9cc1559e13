package filter

import (
	"cmp"

	"lockstep/core/job"
	"lockstep/core/query"
	"lockstep/core/rawjson"
)

// subjectPart is the part of a job that a predicate tests. The cheapest part comes first.
type subjectPart uint8

const (
	partID subjectPart = iota
	partReason
	partOpcode
)

var partNames = [...]string{partID: "jobid", partReason: "reason", partOpcode: "opcode"}

type knownField struct {
	name   string
	isText bool
}

// Indices in partFields[partReason].
const (
	sourceField = iota
	reasonField
	timestampField
)

// partFields are the fields of jobs and of reasons. The fields of an opcode are not fixed.
var partFields = [...][]knownField{
	partID:     {{"id", false}},
	partReason: {sourceField: {"source", true}, reasonField: {"reason", true}, timestampField: {"timestamp", false}},
	partOpcode: nil,
}

// watermark is the string that stands for the rule's watermark where a job id is compared with it.
const watermark = "watermark"

// predicate is one condition of a rule.
type predicate struct {
	part   subjectPart
	expr   *query.Expr
	fields []field // of expr.Fields()
}

// field is the place of an expression's field.
type field struct {
	index int // for jobs and reasons: the index in partFields, -1 if there is no such field

	key     string   // for opcodes: the first key
	hash    uint8    // of key
	subkeys []string // further keys, into objects
}

// testResult is the result of testing one leaf.
type testResult uint8

const (
	failed testResult = iota
	passed
	// invalid: the test is not possible. The expression as a whole is then false, not only this test: a negation must
	// not become true because of a typing mistake.
	invalid
)

func resultOf(holds bool) testResult {
	if holds {
		return passed
	}
	return failed
}

// matches reports whether the predicate, of a rule with the given watermark, is true for the job.
func (p *predicate) matches(s *Subject, ruleWatermark job.ID) bool {
	switch p.part {
	case partID:
		return p.isID(s.ID, ruleWatermark)
	case partReason:
		return p.hasReason(s)
	}
	for i := range s.ops {
		if s.ops[i].input != nil && p.isOpcode(&s.ops[i]) {
			return true
		}
	}
	return false
}

func (p *predicate) isID(id, ruleWatermark job.ID) bool {
	at := p.expr.First()
	for at >= 0 {
		leaf := p.expr.Leaf(at)
		if p.fields[leaf.Field].index < 0 || !isComparison(leaf) {
			return false
		}
		value := leaf.Value.Number
		if leaf.Value.IsText {
			if leaf.Value.Text != watermark {
				return false
			}
			value = int64(ruleWatermark)
		}
		at = leaf.Next(leaf.Holds(cmp.Compare(int64(id), value)))
	}
	return at == query.Yes
}

func isComparison(leaf *query.Leaf) bool {
	return leaf.Operator != query.True && leaf.Operator != query.Matches && leaf.Operator != query.Contains
}

func (p *predicate) hasReason(s *Subject) bool {
	for i := range s.ops {
		o := &s.ops[i]
		texts := o.trailTexts()
		for k := range o.trail {
			if p.isReason(&o.trail[k], texts) {
				return true
			}
		}
	}
	return false
}

func (p *predicate) isReason(e *reasonEntry, texts []byte) bool {
	at := p.expr.First()
	for at >= 0 {
		leaf := p.expr.Leaf(at)
		result := invalid
		switch p.fields[leaf.Field].index {
		case sourceField:
			result = testReasonText(leaf, e.source.of(texts))
		case reasonField:
			result = testReasonText(leaf, e.reason.of(texts))
		case timestampField:
			result = testReasonTime(leaf, e.nanos)
		}
		if result == invalid {
			return false
		}
		at = leaf.Next(result == passed)
	}
	return at == query.Yes
}

// testReasonText tests a text of a reason. Unlike in opcodes, every string is less than every number (queue.md 5.3).
func testReasonText(leaf *query.Leaf, text []byte) testResult {
	switch {
	case leaf.Operator == query.Matches:
		return resultOf(leaf.Pattern.MatchesInBytes(text))
	case !isComparison(leaf):
		return invalid
	case !leaf.Value.IsText:
		return resultOf(leaf.Holds(-1))
	}
	return resultOf(leaf.Holds(compareText(text, leaf.Value.Text)))
}

func testReasonTime(leaf *query.Leaf, nanos int64) testResult {
	switch {
	case !isComparison(leaf):
		return invalid
	case leaf.Value.IsText:
		return resultOf(leaf.Holds(1))
	}
	return resultOf(leaf.Holds(cmp.Compare(nanos, leaf.Value.Number)))
}

// compareText compares bytes, which for UTF-8 is the order of code points.
func compareText(a []byte, b string) int {
	switch { // in this form the compiler does not copy a
	case string(a) == b:
		return 0
	case string(a) < b:
		return -1
	}
	return 1
}

// isOpcode reports whether the expression holds for the opcode. An opcode that lacks one of the fields does not match,
// even if the result does not depend on that field. This is checked last, because most opcodes fail at the first test.
func (p *predicate) isOpcode(o *op) bool {
	at := p.expr.First()
	for at >= 0 {
		leaf := p.expr.Leaf(at)
		result := invalid
		if raw := o.value(&p.fields[leaf.Field]); raw != nil {
			result = testValue(leaf, raw)
		}
		if result == invalid {
			return false
		}
		at = leaf.Next(result == passed)
	}
	if at != query.Yes {
		return false
	}
	for i := range p.fields {
		if o.value(&p.fields[i]) == nil {
			return false
		}
	}
	return true
}

// testValue tests a value in JSON.
func testValue(leaf *query.Leaf, raw []byte) testResult {
	switch leaf.Operator {
	case query.True:
		if rankOf(raw) != rankBool {
			return invalid
		}
		return resultOf(raw[0] == 't')
	case query.Matches:
		if rankOf(raw) != rankText {
			return invalid
		}
		return resultOf(leaf.Pattern.MatchesInBytes(rawjson.Unquote(raw)))
	case query.Contains:
		return testElements(&leaf.Value, raw)
	}
	return resultOf(leaf.Holds(compareValue(raw, &leaf.Value)))
}

// testElements is invalid unless all elements of the list raw have the type of the value: strings or whole numbers.
func testElements(value *query.Literal, raw []byte) testResult {
	if rankOf(raw) != rankList {
		return invalid
	}
	found := false
	for w := rawjson.Walk(raw); w.More(); {
		start, end := w.Value()
		element := raw[start:end]
		if rankOf(element) != rankOfLiteral(value) || !value.IsText && !query.IsWhole(element) {
			return invalid
		}
		found = found || compareValue(element, value) == 0
	}
	return resultOf(found)
}

// rank orders values of different types (queue.md 5.3).
type rank uint8

const (
	rankNull rank = iota
	rankBool
	rankNumber
	rankText
	rankList
	rankObject
)

func rankOf(raw []byte) rank {
	switch raw[0] {
	case 'n':
		return rankNull
	case 't', 'f':
		return rankBool
	case '"':
		return rankText
	case '[':
		return rankList
	case '{':
		return rankObject
	}
	return rankNumber
}

func rankOfLiteral(value *query.Literal) rank {
	if value.IsText {
		return rankText
	}
	return rankNumber
}

func compareValue(raw []byte, value *query.Literal) int {
	switch order := cmp.Compare(rankOf(raw), rankOfLiteral(value)); {
	case order != 0:
		return order
	case value.IsText:
		return compareText(rawjson.Unquote(raw), value.Text)
	}
	return query.CompareNumber(raw, value.Number)
}

package filter

import (
	"cmp"

	"lockstep/core/job"
	"lockstep/core/query"
)

// aspect is what of a job a predicate is about; what costs least to look at comes first.
type aspect uint8

const (
	aboutID aspect = iota
	aboutReason
	aboutOpcode
)

var aspectNames = [...]string{aboutID: "jobid", aboutReason: "reason", aboutOpcode: "opcode"}

type knownField struct {
	name   string
	isText bool
}

// Places in aspectFields[aboutReason].
const (
	sourceField = iota
	reasonField
	timestampField
)

// aspectFields are the fields of jobs and of reasons. An opcode's are whatever it has.
var aspectFields = [...][]knownField{
	aboutID:     {{"id", false}},
	aboutReason: {sourceField: {"source", true}, reasonField: {"reason", true}, timestampField: {"timestamp", false}},
	aboutOpcode: nil,
}

// watermark is the string that stands for the rule's watermark where a job id is compared with it.
const watermark = "watermark"

// predicate is one condition of a rule.
type predicate struct {
	about  aspect
	expr   *query.Expr
	fields []field // of expr.Fields()
}

// field is where an expression's field is to be found.
type field struct {
	known int // for jobs and reasons: the index in aspectFields, -1 if it is not there

	key  string   // for opcodes: the first key
	hash uint8    // of key
	rest []string // further keys, into objects
}

// answer is what a test says.
type answer uint8

const (
	no answer = iota
	yes
	// void: the test makes no sense. The whole expression is then false, not only this test of it: its negation must
	// not become true because of a typing mistake.
	void
)

func answerOf(holds bool) answer {
	if holds {
		return yes
	}
	return no
}

// matches tells whether the predicate, of a rule with the given watermark, is true of the job.
func (p *predicate) matches(s *Subject, mark job.ID) bool {
	switch p.about {
	case aboutID:
		return p.isID(s.ID, mark)
	case aboutReason:
		return p.hasReason(s)
	}
	for i := range s.ops {
		if s.ops[i].input != nil && p.isOpcode(&s.ops[i]) {
			return true
		}
	}
	return false
}

func (p *predicate) isID(id, mark job.ID) bool {
	at := p.expr.First()
	for at >= 0 {
		leaf := p.expr.Leaf(at)
		if p.fields[leaf.Field].known < 0 || !compares(leaf) {
			return false
		}
		value := leaf.Value.Number
		if leaf.Value.IsText {
			if leaf.Value.Text != watermark {
				return false
			}
			value = int64(mark)
		}
		at = leaf.Next(leaf.Holds(cmp.Compare(int64(id), value)))
	}
	return at == query.Yes
}

func compares(leaf *query.Leaf) bool {
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

func (p *predicate) isReason(e *entry, texts []byte) bool {
	at := p.expr.First()
	for at >= 0 {
		leaf := p.expr.Leaf(at)
		said := void
		switch p.fields[leaf.Field].known {
		case sourceField:
			said = testReasonText(leaf, e.source.of(texts))
		case reasonField:
			said = testReasonText(leaf, e.reason.of(texts))
		case timestampField:
			said = testReasonTime(leaf, e.nanos)
		}
		if said == void {
			return false
		}
		at = leaf.Next(said == yes)
	}
	return at == query.Yes
}

// testReasonText: every string is less than every number here, unlike in opcodes (queue.md 5.3).
func testReasonText(leaf *query.Leaf, text []byte) answer {
	switch {
	case leaf.Operator == query.Matches:
		return answerOf(leaf.Pattern.InBytes(text))
	case !compares(leaf):
		return void
	case !leaf.Value.IsText:
		return answerOf(leaf.Holds(-1))
	}
	return answerOf(leaf.Holds(compareText(text, leaf.Value.Text)))
}

func testReasonTime(leaf *query.Leaf, nanos int64) answer {
	switch {
	case !compares(leaf):
		return void
	case leaf.Value.IsText:
		return answerOf(leaf.Holds(1))
	}
	return answerOf(leaf.Holds(cmp.Compare(nanos, leaf.Value.Number)))
}

// compareText is by bytes, which for UTF-8 is by code points.
func compareText(a []byte, b string) int {
	switch { // spelled so that a is not copied
	case string(a) == b:
		return 0
	case string(a) < b:
		return -1
	}
	return 1
}

// isOpcode tells whether the expression holds of the opcode. One that lacks any of its fields does
// not match, even if the outcome does not depend on that field; whether it does is asked last, for most opcodes fail
// at the first test.
func (p *predicate) isOpcode(o *op) bool {
	at := p.expr.First()
	for at >= 0 {
		leaf := p.expr.Leaf(at)
		said := void
		if raw := o.value(&p.fields[leaf.Field]); raw != nil {
			said = testValue(leaf, raw)
		}
		if said == void {
			return false
		}
		at = leaf.Next(said == yes)
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
func testValue(leaf *query.Leaf, raw []byte) answer {
	switch leaf.Operator {
	case query.True:
		if rankOf(raw) != rankBool {
			return void
		}
		return answerOf(raw[0] == 't')
	case query.Matches:
		if rankOf(raw) != rankText {
			return void
		}
		return answerOf(leaf.Pattern.InBytes(text(raw)))
	case query.Contains:
		return testElements(&leaf.Value, raw)
	}
	return answerOf(leaf.Holds(compareValue(raw, &leaf.Value)))
}

// testElements is void unless raw is a list of nothing but strings, or of nothing but whole numbers, as the value is.
func testElements(value *query.Literal, raw []byte) answer {
	if rankOf(raw) != rankList {
		return void
	}
	found := false
	for w := walk(raw); w.more(); {
		element := w.value().of(raw)
		if rankOf(element) != rankOfLiteral(value) || !value.IsText && !query.IsWhole(element) {
			return void
		}
		found = found || compareValue(element, value) == 0
	}
	return answerOf(found)
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
		return compareText(text(raw), value.Text)
	}
	return query.CompareNumber(raw, value.Number)
}

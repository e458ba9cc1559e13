package filter

import (
	"cmp"

	"lockstep/core/access"
	"lockstep/core/job"
	"lockstep/core/query"
	"lockstep/core/rawjson"
)

// subjectPart is the part of a job that a predicate tests. The cheapest part comes first.
type subjectPart uint8

const (
	partID subjectPart = iota
	partName
	partUser
	partReason
	partOpcode
	partLock
)

var partNames = [...]string{
	partID:     "jobid",
	partName:   "name",
	partUser:   "user",
	partReason: "reason",
	partOpcode: "opcode",
	partLock:   "lock",
}

// isGanetis reports whether Ganeti has this kind of predicate.
func (p subjectPart) isGanetis() bool { return p == partID || p == partReason || p == partOpcode }

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

// Indices in partFields[partUser].
const (
	userNameField = iota
	uidField
)

// Indices in partFields[partLock].
const (
	lockNameField = iota
	modeField
)

// partFields are the fields of the parts. Those of an opcode are not fixed.
var partFields = [...][]knownField{
	partID:     {{"id", false}},
	partName:   {{"name", true}},
	partUser:   {userNameField: {"name", true}, uidField: {"uid", false}},
	partReason: {sourceField: {"source", true}, reasonField: {"reason", true}, timestampField: {"timestamp", false}},
	partOpcode: nil,
	partLock:   {lockNameField: {"name", true}, modeField: {"mode", true}},
}

// watermark is the string that stands for the rule's watermark where a job id is compared with it.
const watermark = "watermark"

// predicate is one condition of a rule: an expression about one part of a job. All conditions of a rule must hold.
type predicate struct {
	part   subjectPart
	expr   *query.Expr
	fields []field // of expr.Fields()
}

// field is the place of an expression's field.
type field struct {
	// field says where the value of a field of an expression is found in a job.
	index int // except for opcodes: the index in partFields, -1 if there is no such field

	key     string   // for opcodes: the first key
	hash    uint8    // of key
	subkeys []string // further keys, into objects
}

// testResult is what testing one leaf of an expression, a comparison or a pattern, has given.
type testResult uint8

const (
	failed testResult = iota
	passed
	// invalid: the test is not possible. The expression as a whole is then false, not only this test: a negation must
	// not become true because of a typing mistake.
	invalid
	// interrupted: the work is done and the result is not known yet.
	interrupted
)

func resultOf(holds bool) testResult {
	if holds {
		return passed
	}
	return failed
}

// test tests one predicate of a rule with the given watermark, from where it was interrupted.
func (e *Evaluation) test(p *predicate, ruleWatermark job.ID) testResult {
	switch p.part {
	case partID:
		e.work -= len(p.expr.Leaves())
		return resultOf(p.isID(e.job.ID, ruleWatermark))
	case partName:
		return e.isExpression(p, e.testName)
	case partUser:
		return e.isUser(p)
	case partReason:
		return e.hasReason(p)
	case partLock:
		return e.hasLock(p)
	}
	for ; e.op < len(e.job.ops); e.op++ {
		if e.job.ops[e.op].input == nil {
			continue
		}
		if result := e.isOpcode(p, &e.job.ops[e.op]); result != failed {
			return result
		}
	}
	return failed
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

func (e *Evaluation) hasReason(p *predicate) testResult {
	for ; e.op < len(e.job.ops); e.op, e.entry = e.op+1, 0 {
		o := &e.job.ops[e.op]
		texts := o.trailTexts()
		for ; e.entry < len(o.trail); e.entry++ {
			if result := e.isReason(p, &o.trail[e.entry], texts); result != failed {
				return result
			}
		}
	}
	return failed
}

func (e *Evaluation) isReason(p *predicate, entry *reasonEntry, texts []byte) testResult {
	return e.isExpression(p, func(leaf *query.Leaf, field int) testResult {
		switch field {
		case sourceField:
			return e.testText(leaf, entry.source.of(texts))
		case reasonField:
			return e.testText(leaf, entry.reason.of(texts))
		case timestampField:
			return testNumber(leaf, entry.nanos)
		}
		return invalid
	})
}

// isExpression tests whether the expression holds for a part with fixed fields, from where it was interrupted. test gets the index of the
// field in partFields, which may be -1.
func (e *Evaluation) isExpression(p *predicate, test func(leaf *query.Leaf, field int) testResult) testResult {
	at := e.resume(p)
	for at >= 0 {
		leaf := p.expr.Leaf(at)
		result := interrupted
		switch {
		case e.work <= 0:
		case e.search != nil:
			if result = e.searchOn(); result == failed && e.hasNextName() {
				result = test(leaf, p.fields[leaf.Field].index)
			}
		default:
			e.work -= leafWork
			result = test(leaf, p.fields[leaf.Field].index)
		}
		if result == interrupted {
			return e.interrupt(at)
		}
		e.name, e.names = 0, 0
		if result == invalid {
			return failed
		}
		at = leaf.Next(result == passed)
	}
	return resultOf(at == query.Yes)
}

// testName tests the name of the job. The result is invalid if the leaf has an unknown field.
func (e *Evaluation) testName(leaf *query.Leaf, field int) testResult {
	if field < 0 {
		return invalid
	}
	return e.testText(leaf, []byte(e.job.of.Value().name))
}

// isUser tests to whom the job belongs. A user of the remote API has the name of the users file, and no uid.
func (e *Evaluation) isUser(p *predicate) testResult {
	user := e.job.of.Value().user
	return e.isExpression(p, func(leaf *query.Leaf, field int) testResult {
		switch {
		case field == userNameField:
			return e.testText(leaf, []byte(cmp.Or(user.Remote, user.Name)))
		case field == uidField && user.Remote == "" && user.UID != access.NoUID:
			return testNumber(leaf, int64(user.UID))
		}
		return invalid
	})
}

// hasLock tests whether the next opcode is declared to take a lock for which the expression holds.
func (e *Evaluation) hasLock(p *predicate) testResult {
	if !e.isDeclared {
		e.locks, e.isDeclared = e.job.locks(e.declare), true
		e.work -= declareWork + len(e.locks)*leafWork
	}
	for ; e.entry < len(e.locks); e.entry++ {
		if result := e.isLock(p, &e.locks[e.entry]); result != failed {
			return result
		}
	}
	return failed
}

func (e *Evaluation) isLock(p *predicate, l *Lock) testResult {
	return e.isExpression(p, func(leaf *query.Leaf, field int) testResult {
		switch field {
		case lockNameField:
			return e.testNames(leaf, l.Names)
		case modeField:
			return e.testText(leaf, l.mode())
		}
		return invalid
	})
}

// testNames tests the names of one thing. One for which the test holds is enough.
func (e *Evaluation) testNames(leaf *query.Leaf, names []string) testResult {
	for e.names = len(names); e.name < e.names; e.name++ {
		if result := e.testText(leaf, []byte(names[e.name])); result != failed {
			return result
		}
	}
	return failed
}

// hasNextName goes on to the next name of a thing whose last one did not match. false: that was the last one.
func (e *Evaluation) hasNextName() bool {
	e.name++
	return e.name < e.names
}

// testText tests a text that is no JSON. Unlike in opcodes, every string is less than every number (queue.md 5.3).
func (e *Evaluation) testText(leaf *query.Leaf, text []byte) testResult {
	switch {
	case leaf.Operator == query.Matches:
		return e.find(leaf.Pattern, text)
	case !isComparison(leaf):
		return invalid
	case !leaf.Value.IsText:
		return resultOf(leaf.Holds(-1))
	}
	return resultOf(leaf.Holds(compareText(text, leaf.Value.Text)))
}

func testNumber(leaf *query.Leaf, number int64) testResult {
	switch {
	case !isComparison(leaf):
		return invalid
	case leaf.Value.IsText:
		return resultOf(leaf.Holds(1))
	}
	return resultOf(leaf.Holds(cmp.Compare(number, leaf.Value.Number)))
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

// isOpcode tests whether the expression holds for the opcode. An opcode that lacks one of the fields does not match,
// even if the result does not depend on that field. This is checked last, because most opcodes fail at the first test.
func (e *Evaluation) isOpcode(p *predicate, o *op) testResult {
	at := e.resume(p)
	for at >= 0 {
		leaf := p.expr.Leaf(at)
		result := interrupted
		switch {
		case e.work <= 0:
		case e.search != nil:
			result = e.searchOn()
		default:
			e.work -= leafWork
			result = e.testOpcode(leaf, o, &p.fields[leaf.Field])
		}
		if result == interrupted {
			return e.interrupt(at)
		}
		if result == invalid {
			return failed
		}
		at = leaf.Next(result == passed)
	}
	if at != query.Yes {
		return failed
	}
	for i := range p.fields {
		if e.value(o, &p.fields[i]) == nil {
			return failed
		}
	}
	return passed
}

func (e *Evaluation) value(o *op, f *field) []byte {
	raw := o.value(f)
	e.work -= len(raw) / bytesPerStep
	return raw
}

func (e *Evaluation) testOpcode(leaf *query.Leaf, o *op, f *field) testResult {
	if raw := e.value(o, f); raw != nil {
		return e.testValue(leaf, raw)
	}
	return invalid
}

// testValue tests a value in JSON. The result is invalid if the operator does not fit the type of the value.
func (e *Evaluation) testValue(leaf *query.Leaf, raw []byte) testResult {
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
		return e.find(leaf.Pattern, rawjson.Unquote(raw))
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

// rank orders values of different types by their type (queue.md 5.3): null is less than all others, an object greater.
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

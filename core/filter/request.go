package filter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lockstep/core/query"
	"lockstep/core/rawjson"
)

// predicatesMax bounds the predicates of one rule in bytes, because they are stored in the configuration and evaluated
// for every job.
const predicatesMax = 1 << 16

// Invalid says what is wrong in a rule, and where.
type Invalid struct {
	Path   string // place in the rule, as "predicates[0][1][2]"; "" for the rule itself
	Reason string
}

func (e *Invalid) Error() string {
	if e.Path == "" {
		return "filter rule: " + e.Reason
	}
	return e.Path + ": " + e.Reason
}

// BadUUID is the error for a UUID that does not have the only valid form. Clients receive another error class for it
// than for Invalid (queue.md 5.2).
type BadUUID struct{ UUID string }

func (e *BadUUID) Error() string {
	return "Unable to parse UUID " + rawjson.Quoted(e.UUID) + ": want lower-case hexadecimal digits in groups of 8-4-4-4-12"
}

// IsMalformed reports whether an error of this package means that the request is invalid. Other errors are Ganeti's and
// go to the client (queue.md 5.2).
func IsMalformed(err error) bool {
	var bad *BadUUID
	return !errors.As(err, &bad)
}

// ReplaceRequest is the arguments of ReplaceFilter (queue.md 5.2), as the client sent them. Lasts is lockstep's own: the seconds until the
// end of the rule, a positive integer; empty or null: the rule has no end.
type ReplaceRequest struct {
	UUID, Priority, Predicates, Action, Reason, Lasts json.RawMessage
}

// lastsMax is the longest time that a rule with an end lasts, in seconds: ten years.
const lastsMax = 10 * 366 * 86400

// Rule is the rule that a client has requested at the time nowNanos, in nanoseconds since 1970. It still lacks a watermark, the daemon's
// entry in the reason trail, and a UUID if UUID is "". The error is an *Invalid or a *BadUUID.
//
// It refuses some rules that Decode accepts: a test that no job can pass is a mistake of the client, and a rule that never applies is
// hard to find.
func (q *ReplaceRequest) Rule(nowNanos int64) (Rule, error) {
	rule := Rule{Predicates: bytes.Clone(bytes.TrimSpace(q.Predicates))}
	if !isNull(q.UUID) {
		uuid, ok := stringOf(q.UUID)
		if !ok {
			return Rule{}, &Invalid{"uuid", "want null or a string, found " + rawjson.Clipped(q.UUID)}
		}
		if !isUUID(uuid) {
			return Rule{}, &BadUUID{uuid}
		}
		rule.UUID = uuid
	}
	if err := rule.readCommon(q.Priority, q.Action, q.Reason); err != nil {
		return Rule{}, err
	}
	if !isNull(q.Lasts) {
		lasts, err := natural("for", q.Lasts)
		if err != nil {
			return Rule{}, err
		}
		if lasts < 1 || lasts > lastsMax {
			return Rule{}, &Invalid{"for", fmt.Sprintf("want a number of seconds from 1 to %d, found %d", lastsMax, lasts)}
		}
		rule.Until = nowNanos + lasts*1e9
	}
	if len(rule.Predicates) > predicatesMax {
		return Rule{}, &Invalid{"predicates", fmt.Sprintf("%d bytes are too many, at most %d are allowed", len(rule.Predicates), predicatesMax)}
	}
	budget := query.NewRuleBudget()
	predicates, err := parsePredicates(rule.Predicates, budget)
	if err != nil {
		return Rule{}, err
	}
	for i := range predicates {
		if err := predicates[i].checkSatisfiable(fmt.Sprintf("predicates[%d][1]", i)); err != nil {
			return Rule{}, err
		}
	}
	rule.compiled = newCompiled(predicates, budget.Spent())
	return rule, nil
}

// isUUID reports whether text is 8-4-4-4-12 hexadecimal digits. Upper case is refused, because it would give one rule two names.
func isUUID(text string) bool {
	if len(text) != 36 {
		return false
	}
	for i := range len(text) {
		switch c := text[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case (c < '0' || c > '9') && (c < 'a' || c > 'f'):
			return false
		}
	}
	return true
}

func parseAction(raw json.RawMessage) (Action, error) {
	verbs := strings.Join(verbNames[:RateLimit], ", ")
	wrong := &Invalid{"action", "want one of " + verbs + ` or ["RATE_LIMIT", n], found ` + rawjson.Clipped(raw)}
	if name, ok := stringOf(raw); ok {
		verb := slices.Index(verbNames[:RateLimit], name)
		if verb < 0 {
			return Action{}, wrong
		}
		return Action{Verb: Verb(verb)}, nil
	}
	list, err := elements("action", raw)
	if err != nil || len(list) != 2 {
		return Action{}, wrong
	}
	if name, ok := stringOf(list[0]); !ok || name != RateLimit.String() {
		return Action{}, wrong
	}
	limit, err := natural("action[1]", list[1])
	if err != nil || limit == 0 {
		return Action{}, &Invalid{"action[1]", "want a positive integer, found " + rawjson.Clipped(list[1])}
	}
	return Action{RateLimit, limit}, nil
}

func parseTrail(raw json.RawMessage) ([]Reason, error) {
	list, err := elements("reason", raw)
	if err != nil {
		return nil, err
	}
	trail := make([]Reason, len(list))
	for i, entry := range list {
		var sourceOK, textOK bool
		r := &trail[i]
		path := fmt.Sprintf("reason[%d]", i)
		triple, err := elements(path, entry)
		if err == nil && len(triple) == 3 {
			r.Source, sourceOK = stringOf(triple[0])
			r.Text, textOK = stringOf(triple[1])
			r.Nanos, err = strconv.ParseInt(string(triple[2]), 10, 64)
		}
		if err != nil || !sourceOK || !textOK {
			return nil, &Invalid{path, "want [source, reason, nanoseconds since 1970], found " + rawjson.Clipped(entry)}
		}
	}
	return trail, nil
}

// parsePredicates reads a list of predicates, with the checks for every rule. The patterns share the budget. The error
// is an *Invalid.
func parsePredicates(raw json.RawMessage, allowance *query.PatternBudget) ([]predicate, error) {
	list, err := elements("predicates", raw)
	if err != nil {
		return nil, err
	}
	predicates := make([]predicate, len(list))
	for i, element := range list {
		path := fmt.Sprintf("predicates[%d]", i)
		pair, err := elements(path, element)
		if err != nil || len(pair) != 2 {
			return nil, &Invalid{path, "want a list of a name and an expression, found " + rawjson.Clipped(element)}
		}
		name, _ := stringOf(pair[0])
		part := slices.Index(partNames[:], name)
		if part < 0 {
			return nil, &Invalid{path + "[0]", "want one of " + strings.Join(partNames[:], ", ") + ", found " + rawjson.Clipped(pair[0])}
		}
		expr, err := allowance.Parse(pair[1])
		var wrong *query.ParseError
		if errors.As(err, &wrong) {
			return nil, &Invalid{path + "[1]" + wrong.Path, wrong.Reason}
		}
		predicates[i] = predicate{part: subjectPart(part), expr: expr}
	}
	return predicates, nil
}

// checkSatisfiable refuses tests that no job could pass. The fields of opcodes are not known in advance.
func (p *predicate) checkSatisfiable(prefix string) error {
	known := partFields[p.part]
	if known == nil {
		return nil
	}
	for i := range p.expr.Leaves() {
		leaf := p.expr.Leaf(query.Step(i))
		path := prefix + p.expr.Path(query.Step(i))
		name := p.expr.Fields()[leaf.Field]
		at := slices.IndexFunc(known, func(f knownField) bool { return f.name == name })
		if at < 0 {
			return &Invalid{path, fmt.Sprintf("unknown field %s, a %s predicate has %s", rawjson.Quoted(name), partNames[p.part], fieldList(known))}
		}
		isText := known[at].isText
		switch op := leaf.Operator; {
		case op == query.True, op == query.Contains, op == query.Matches && !isText:
			return &Invalid{path, fmt.Sprintf("the operator %s can never hold of the field %s", op, fieldList(known[at:at+1]))}
		case p.part == partID && leaf.Value.IsText && leaf.Value.Text != watermark:
			found := rawjson.Clipped([]byte(leaf.Value.String()))
			return &Invalid{path, "an id is compared with a number or with \"" + watermark + "\", found " + found}
		}
	}
	return nil
}

func fieldList(fields []knownField) string {
	var names []string
	for _, f := range fields {
		kind := " (a number)"
		if f.isText {
			kind = " (a string)"
		}
		names = append(names, f.name+kind)
	}
	return strings.Join(names, ", ")
}

func natural(path string, raw json.RawMessage) (int64, error) {
	n, err := strconv.ParseInt(string(bytes.TrimSpace(raw)), 10, 64)
	if err != nil || n < 0 {
		return 0, &Invalid{path, "want a non-negative integer, found " + rawjson.Clipped(raw)}
	}
	return n, nil
}

func elements(path string, raw json.RawMessage) ([]json.RawMessage, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || list == nil {
		return nil, &Invalid{path, "want a list, found " + rawjson.Clipped(raw)}
	}
	return list, nil
}

func stringOf(raw json.RawMessage) (text string, ok bool) {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	return text, json.Unmarshal(raw, &text) == nil
}

func isNull(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || string(raw) == "null"
}

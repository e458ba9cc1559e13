package console

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstep/core/words"
)

// ruleForm are the fields of the editor.
type ruleForm struct {
	UUID, Priority, Action, Limit, Reason string
	Lasts                                 string // time until the end of the rule, "" if it has none
	Join                                  string // of the conditions: joinAll or joinAny
	Conditions                            []condition
	JSON                                  string // predicates; it wins over the conditions
	Added                                 bool   // the last condition is new
}

// condition compares one field of a job's part with a value. One without a value does not count, apart from those that need none.
type condition struct{ Kind, Field, Operator, Value string }

// newCondition is how the editor begins.
var newCondition = condition{Kind: "opcode", Field: "OP_ID", Operator: "="}

// choice is a value of a form, and what people read of it.
type choice struct{ Value, Label string }

// Kinds of conditions that are complete without a field and a value.
const (
	everyJob  = "every"
	newerJobs = "newer"
)

// newerPredicate is the predicate of newerJobs.
const newerPredicate = `["jobid",[">","id","watermark"]]`

// ruleKinds are the parts of a job that conditions are about.
var ruleKinds = []choice{{"opcode", "an opcode of the job"}, {"name", "the name of the job"}, {"user", "the submitter"},
	{"lock", "a lock of the next opcode"}, {"reason", "the reason trail"}, {"jobid", "the id of the job"},
	{newerJobs, "jobs submitted after the rule"}, {everyJob, "every job"}}

// usualFields are the fields that are meant when none is typed.
var usualFields = map[string]string{"opcode": "OP_ID", "name": "name", "user": "name", "lock": "name", "reason": "reason", "jobid": "id"}

// ShownField is the field for the editor: nothing for the usual one.
func (c condition) ShownField() string {
	if c.Field == usualFields[c.Kind] {
		return ""
	}
	return c.Field
}

// ruleActions are the actions of rules.
var ruleActions = []choice{{"PAUSE", "PAUSE: keep the jobs from starting"}, {"REJECT", "REJECT: cancel them"},
	{"RATE_LIMIT", "RATE_LIMIT: run some at a time"}, {"ACCEPT", "ACCEPT: let them run"}, {"CONTINUE", "CONTINUE: ask the next rule"}}

// How conditions are joined.
const (
	joinAll = "all"
	joinAny = "any"
)

// conditionsMax bounds the conditions of a form.
const conditionsMax = 20

// ruleOperators are those that the editor offers.
var ruleOperators = []choice{{"=", "is"}, {"!=", "is not"}, {isOneOf, "is one of"}, {"=~", "matches the pattern"},
	{hasElement, "has the element"},
	{"<", "<"}, {"<=", "≤"}, {">", ">"}, {">=", "≥"}}

func isRuleOperator(operator string) bool {
	return slices.ContainsFunc(ruleOperators, func(c choice) bool { return c.Value == operator })
}

const (
	hasElement = "=[]" // true of a list that has the value as an element
	isOneOf    = "in"  // of the editor alone: the values have commas between them, and one of them is enough
)

// add adds a condition to the editor, with kind, field and operator of the last one. It does nothing at conditionsMax.
func (f *ruleForm) add() {
	if len(f.Conditions) >= conditionsMax {
		return
	}
	next := newCondition
	if n := len(f.Conditions); n > 0 {
		next = f.Conditions[n-1]
		next.Value = ""
	}
	f.Conditions, f.Added = append(f.Conditions, next), true
}

// ruleForm reads the editor, and makes the arguments of the call from it. problem is for its user; "": the arguments are complete.
func (q *request) ruleForm() (f ruleForm, args []any, problem string) {
	get := func(name string) string { return strings.TrimSpace(q.PostForm.Get(name)) }
	f = ruleForm{
		UUID:     get("uuid"),
		Priority: get("priority"),
		Action:   get("action"),
		Limit:    get("limit"),
		Reason:   get("reason"),
		Lasts:    get("lasts"),
		Join:     get("join"),
		JSON:     get("json"),
	}
	if f.Join != joinAny {
		f.Join = joinAll
	}
	kinds, fields, operators, values := q.PostForm["kind"], q.PostForm["field"], q.PostForm["operator"], q.PostForm["value"]
	for i := range min(len(kinds), len(fields), len(operators), len(values), conditionsMax) {
		c := condition{kinds[i], strings.TrimSpace(fields[i]), operators[i], strings.TrimSpace(values[i])}
		if c.Field == "" || c.Field == "OP_ID" {
			c.Field = usualFields[c.Kind]
		}
		f.Conditions = append(f.Conditions, c)
	}
	priority, err := strconv.Atoi(f.Priority)
	if err != nil || priority < 0 {
		return f, nil, "The priority is a number, 0 or more. Rules with smaller numbers apply first."
	}
	predicates := []byte(f.JSON)
	if f.JSON == "" {
		if predicates, problem = predicatesOf(f.Join, f.Conditions); problem != "" {
			return f, nil, problem
		}
	}
	if !json.Valid(predicates) {
		return f, nil, "The predicates are no JSON."
	}
	var action any = f.Action
	if f.Action == "RATE_LIMIT" {
		limit, err := strconv.Atoi(f.Limit)
		if err != nil || limit < 1 {
			return f, nil, "The limit is the number of such jobs that run at a time."
		}
		action = []any{f.Action, limit}
	}
	var uuid any
	if f.UUID != "" {
		uuid = f.UUID
	}
	args = []any{uuid, priority, json.RawMessage(predicates), action, q.trail(f.Reason)}
	if f.Lasts != "" {
		lasts, err := words.ParseDuration(f.Lasts)
		if err != nil || lasts < time.Second {
			return f, nil, "The time until the end of the rule is at least 1s: " + words.DurationHelp + "."
		}
		args = append(args, int64(lasts/time.Second))
	}
	return f, args, ""
}

// predicatesOf joins conditions. A rule applies if all its predicates hold, so that conditions on one part of a job are one predicate,
// and an "or" of several parts is not possible.
func predicatesOf(join string, conditions []condition) (predicates []byte, problem string) {
	var kinds []string
	tests := map[string][]any{}
	var whole []any // predicates without a comparison
	every := false
	for _, c := range conditions {
		switch {
		case c.Kind == everyJob:
			every = true
			continue
		case c.Kind == newerJobs:
			whole = append(whole, json.RawMessage(newerPredicate))
			continue
		case c.Value == "":
			continue
		}
		if tests[c.Kind] == nil {
			kinds = append(kinds, c.Kind)
		}
		tests[c.Kind] = append(tests[c.Kind], c.test())
	}
	switch {
	case len(kinds)+len(whole) == 0 && every:
		return []byte("[]"), ""
	case len(kinds)+len(whole) == 0:
		return nil, "Say which value the field has, or choose “every job”."
	case join == joinAny && len(kinds)+len(whole) > 1:
		return nil, "Conditions of which any is enough are about one part of the job. Make a rule for each part."
	}
	operator := map[string]string{joinAll: "&", joinAny: "|"}[join]
	all := whole
	for _, kind := range kinds {
		test := tests[kind]
		if len(test) > 1 {
			test = []any{append([]any{operator}, test...)}
		}
		all = append(all, []any{kind, test[0]})
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // people read the operators
	if err := encoder.Encode(all); err != nil {
		return nil, "The value cannot be used."
	}
	return bytes.TrimSpace(text.Bytes()), ""
}

// test is the comparison in the filter language.
func (c condition) test() any {
	if c.Operator != isOneOf {
		return []any{c.Operator, c.Field, c.literal()}
	}
	either := []any{"|"}
	for value := range strings.SplitSeq(c.Value, ",") {
		if value = strings.TrimSpace(value); value != "" {
			either = append(either, condition{c.Kind, c.Field, "=", value}.test())
		}
	}
	if len(either) == 2 {
		return either[1]
	}
	return either
}

// numeric reports whether the field may have a number. The elements of lists are mostly texts, like those of argv.
func (c condition) numeric() bool {
	if c.Operator == hasElement {
		return false
	}
	switch c.Kind {
	case "jobid":
		return true
	case "user":
		return c.Field == "uid"
	case "reason":
		return c.Field == "timestamp"
	case "opcode":
		return c.Field != "OP_ID"
	}
	return false
}

// literal is the value in the filter language: a number where the field may have one, else a text. A text in quotes is always a text.
func (c condition) literal() any {
	var text string
	if strings.HasPrefix(c.Value, `"`) && json.Unmarshal([]byte(c.Value), &text) == nil {
		return text
	}
	var number json.Number
	if c.numeric() && json.Unmarshal([]byte(c.Value), &number) == nil && number != "" {
		return number
	}
	return c.Value
}

// formOf is the form of a rule that exists. Predicates that do not fit the conditions are shown as JSON.
func formOf(r ruleRow) ruleForm {
	f := ruleForm{
		UUID:       r.UUID,
		Priority:   strconv.Itoa(r.Priority),
		Action:     r.Action,
		Limit:      r.Limit,
		Reason:     r.Reason,
		Lasts:      r.Lasts,
		Join:       joinAll,
		Conditions: []condition{newCondition},
	}
	join, conditions, ok := conditionsOf([]byte(r.Predicates))
	if !ok {
		f.JSON = r.Predicates
		return f
	}
	f.Join, f.Conditions = join, conditions
	return f
}

// conditionsOf reads what predicatesOf has made, for the editor. ok is false for other predicates, which the editor cannot show.
func conditionsOf(predicates []byte) (join string, conditions []condition, ok bool) {
	var all [][]json.RawMessage
	if json.Unmarshal(predicates, &all) != nil {
		return "", nil, false
	}
	join = joinAll
	if len(all) == 0 {
		return join, []condition{{Kind: everyJob, Operator: "="}}, true
	}
	var kinds []string
	for _, p := range all {
		if isNewer(p) {
			conditions = append(conditions, condition{Kind: newerJobs, Operator: "="})
			continue
		}
		var kind string
		var test []json.RawMessage
		if len(p) != 2 || json.Unmarshal(p[0], &kind) != nil || json.Unmarshal(p[1], &test) != nil {
			return "", nil, false
		}
		if len(test) == 0 || slices.Contains(kinds, kind) {
			return "", nil, false
		}
		kinds = append(kinds, kind)
		var operator string
		_ = json.Unmarshal(test[0], &operator) // what is no text is no operator
		tests := []json.RawMessage{p[1]}
		switch {
		case operator == "&":
			tests = test[1:]
		case operator == "|" && len(all) == 1:
			join, tests = joinAny, test[1:]
		}
		for _, test := range tests {
			c, simple := conditionOf(kind, test)
			if !simple {
				return "", nil, false
			}
			conditions = append(conditions, c)
		}
	}
	return join, conditions, len(conditions) > 0 && len(conditions) <= conditionsMax
}

// isNewer reports whether a predicate is newerPredicate.
func isNewer(predicate []json.RawMessage) bool {
	text, err := json.Marshal(predicate)
	var plain bytes.Buffer
	return err == nil && json.Compact(&plain, bytes.ReplaceAll(text, []byte(`\u003e`), []byte(">"))) == nil && plain.String() == newerPredicate
}

// oneOf reads an "or" of comparisons of one field with values, as isOneOf makes it.
func oneOf(kind string, parts []json.RawMessage) (c condition, ok bool) {
	var values []string
	for _, part := range parts {
		next, simple := conditionOf(kind, part)
		if !simple || next.Operator != "=" || c.Field != "" && next.Field != c.Field || strings.ContainsAny(next.Value, `,"`) {
			return c, false
		}
		c = next
		values = append(values, next.Value)
	}
	c.Operator, c.Value = isOneOf, strings.Join(values, ", ")
	return c, len(values) > 1
}

// conditionOf reads one comparison. ok is false for one that the editor cannot show.
func conditionOf(kind string, test json.RawMessage) (c condition, ok bool) {
	var parts []json.RawMessage
	if json.Unmarshal(test, &parts) != nil || len(parts) < 1 {
		return c, false
	}
	if string(parts[0]) == `"|"` {
		return oneOf(kind, parts[1:])
	}
	if len(parts) != 3 {
		return c, false
	}
	c.Kind = kind
	if json.Unmarshal(parts[0], &c.Operator) != nil || json.Unmarshal(parts[1], &c.Field) != nil {
		return c, false
	}
	if c.Operator == "==" {
		c.Operator = "="
	}
	c.Value = string(parts[2])
	var text string
	if json.Unmarshal(parts[2], &text) == nil { // quotes are needed where the text would be read as something else
		if plain := (condition{kind, c.Field, c.Operator, text}); text != "" && plain.literal() == any(text) && strings.TrimSpace(text) == text {
			c.Value = text
		}
		return c, isRuleOperator(c.Operator)
	}
	_, isNumber := c.literal().(json.Number)
	return c, isNumber && isRuleOperator(c.Operator)
}

package filter

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"lockstep/core/query"
)

// Set is the chain of all filter rules, prepared for the evaluation of jobs (queue.md 5.5). It never changes, so any number of readers
// may share it.
type Set struct {
	rules      []Rule // in the order of evaluation
	active     []activeRule
	readsLocks bool
}

// compiled is the predicates of a rule, prepared for evaluation.
type compiled struct {
	predicates   []predicate // the cheap ones first: all must match, so their order is free
	instructions int         // of all patterns
}

func newCompiled(predicates []predicate, instructions int) *compiled {
	for k := range predicates {
		predicates[k].resolve()
	}
	slices.SortStableFunc(predicates, func(a, b predicate) int { return cmp.Compare(a.part, b.part) })
	return &compiled{predicates, instructions}
}

// instructionsMax bounds the programs of all rules' patterns together, about 100 MB, because they are compiled at every
// start.
const instructionsMax = 1_000_000

func tooManyInstructions() *Invalid {
	text := fmt.Sprintf("the patterns of all rules together have more than %d instructions, repetitions written out", instructionsMax)
	return &Invalid{"predicates", text}
}

// activeRule is a rule that may apply: it is valid, and its action is not Continue.
type activeRule struct {
	rule       int // index in rules
	predicates []predicate
}

// RuleError is the error for a rule in the configuration that is invalid.
type RuleError struct {
	UUID string
	Err  error // an *Invalid
}

func (e *RuleError) Error() string { return "filter rule " + e.UUID + ": " + e.Err.Error() }

func (e *RuleError) Unwrap() error { return e.Err }

// NewSet makes a chain of rules, given in any order. The Set can be used even if there is an error. It contains invalid
// rules, which other programs may have written, but they never apply. The same holds for rules whose patterns exceed a
// limit, alone or together with the rules before them. The error joins a *RuleError for each such rule.
//
// Predicates that a rule of known has, from another Set or from a ReplaceRequest, are not compiled again. A Set knows no time: its maker
// leaves out rules that have ended.
func NewSet(rules []Rule, known ...Rule) (*Set, error) {
	s := &Set{rules: slices.Clone(rules)}
	slices.SortFunc(s.rules, func(a, b Rule) int { return a.Compare(&b) })
	ready := make(map[string]*compiled, len(known))
	for i := range known {
		if c := known[i].compiled; c != nil {
			ready[compact(known[i].Predicates)] = c
		}
	}
	var errs []error
	total := 0
	for i := range s.rules {
		rule := &s.rules[i]
		err := rule.compile(ready)
		if err == nil && total+rule.compiled.instructions > instructionsMax {
			rule.compiled, err = nil, tooManyInstructions()
		}
		if err != nil {
			errs = append(errs, &RuleError{rule.UUID, err})
			continue
		}
		total += rule.compiled.instructions
		if rule.Action.Verb != Continue {
			s.active = append(s.active, activeRule{i, rule.compiled.predicates})
			s.readsLocks = s.readsLocks || slices.ContainsFunc(rule.compiled.predicates, func(p predicate) bool { return p.part == partLock })
		}
	}
	return s, errors.Join(errs...)
}

// compile sets r.compiled: from ready if that has equal predicates, else by parsing them. The error is an *Invalid.
func (r *Rule) compile(ready map[string]*compiled) error {
	if r.compiled != nil {
		return nil
	}
	if r.compiled = ready[compact(r.Predicates)]; r.compiled != nil {
		return nil
	}
	budget := query.NewPatternBudget()
	predicates, err := parsePredicates(r.Predicates, budget)
	if err != nil {
		return err
	}
	r.compiled = newCompiled(predicates, budget.Spent())
	return nil
}

// compact is JSON without spaces, which the configuration may not keep; "" for text that is not JSON.
func compact(raw json.RawMessage) string {
	var text bytes.Buffer
	if json.Compact(&text, raw) != nil {
		return ""
	}
	return text.String()
}

// resolve sets where a job has the fields of the expression: the keys of a path for an opcode, else the index of the field.
func (p *predicate) resolve() {
	for _, name := range p.expr.Fields() {
		if p.part == partOpcode {
			path := strings.Split(name, ".")
			p.fields = append(p.fields, field{key: path[0], hash: hashOf([]byte(path[0])), subkeys: path[1:]})
			continue
		}
		known := slices.IndexFunc(partFields[p.part], func(f knownField) bool { return f.name == name })
		p.fields = append(p.fields, field{index: known})
	}
}

// CheckBudget checks that the patterns of the rule, together with those of all other rules, stay within the limit. The
// rule replaces a rule with the same UUID. The error is an *Invalid.
func (s *Set) CheckBudget(r *Rule) error {
	checked := *r
	if err := checked.compile(nil); err != nil {
		return err
	}
	total := checked.compiled.instructions
	for i := range s.rules {
		if other := &s.rules[i]; other.UUID != r.UUID && other.compiled != nil {
			total += other.compiled.instructions
		}
	}
	if total > instructionsMax {
		return tooManyInstructions()
	}
	return nil
}

// With is the set with one more rule, which replaces a rule with the same UUID.
func (s *Set) With(r Rule) *Set {
	rules := slices.DeleteFunc(slices.Clone(s.rules), func(other Rule) bool { return other.UUID == r.UUID })
	set, _ := NewSet(append(rules, r), s.rules...) //nolint:errcheck // the error names rules of s that never apply, or CheckBudget's
	return set
}

// ReadsLocks reports whether a rule is about the locks of an opcode, so that the verdict on a job may change from one opcode to the next.
func (s *Set) ReadsLocks() bool { return s.readsLocks }

// Rules are all rules in the order of evaluation, with those that never apply. They must not be changed.
func (s *Set) Rules() []Rule { return s.rules }

// Verdict says which rule applies to a job, and with which action.
type Verdict struct {
	Rule   int    // index in Rules(), -1 if no rule applies
	UUID   string // of the rule, "" if no rule applies
	Action Action // Accept if no rule applies; never Continue
}

// Evaluate finds the rule that applies to a job: the first that matches and is not Continue. A rule matches if all of
// its predicates do.
func (s *Set) Evaluate(j *Subject, declare Declare) Verdict {
	e := s.Begin(j, declare)
	work := math.MaxInt
	v, _ := e.Continue(&work)
	return v
}

package filter

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"lockstep/core/query"
)

// Set is the chain of rules, prepared for evaluation. It never changes, so any number of readers may share it.
type Set struct {
	rules        []Rule // in the order of evaluation
	active       []activeRule
	instructions map[string]int // instructions of the rule's patterns by UUID, for valid rules
}

// instructionsMax bounds the programs of all rules' patterns together, about 100 MB, because they are compiled at every
// start.
const instructionsMax = 1_000_000

func tooManyInstructions() *Invalid {
	return &Invalid{"predicates", fmt.Sprintf("the patterns of all rules together have more than %d instructions, repetitions written out", instructionsMax)}
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
func NewSet(rules []Rule) (*Set, error) {
	s := &Set{rules: slices.Clone(rules), instructions: make(map[string]int, len(rules))}
	slices.SortFunc(s.rules, func(a, b Rule) int { return a.Compare(&b) })
	var errs []error
	total := 0
	for i := range s.rules {
		rule := &s.rules[i]
		allowance := query.NewPatternBudget()
		predicates, err := parsePredicates(rule.Predicates, allowance)
		if err == nil && total+allowance.Spent() > instructionsMax {
			err = tooManyInstructions()
		}
		if err != nil {
			errs = append(errs, &RuleError{rule.UUID, err})
			continue
		}
		s.instructions[rule.UUID] = allowance.Spent()
		total += allowance.Spent()
		if rule.Action.Verb == Continue {
			continue
		}
		for k := range predicates {
			predicates[k].resolve()
		}
		// All predicates must match, so their order is free: the cheap ones go first.
		slices.SortStableFunc(predicates, func(a, b predicate) int { return cmp.Compare(a.part, b.part) })
		s.active = append(s.active, activeRule{i, predicates})
	}
	return s, errors.Join(errs...)
}

// resolve sets the places of the expression's fields.
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
	allowance := query.NewPatternBudget()
	if _, err := parsePredicates(r.Predicates, allowance); err != nil {
		return err
	}
	total := allowance.Spent()
	for uuid, n := range s.instructions {
		if uuid != r.UUID {
			total += n
		}
	}
	if total > instructionsMax {
		return tooManyInstructions()
	}
	return nil
}

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
func (s *Set) Evaluate(j *Subject) Verdict {
	for i := range s.active {
		c := &s.active[i]
		rule := &s.rules[c.rule]
		matches := true
		for k := 0; matches && k < len(c.predicates); k++ {
			matches = c.predicates[k].matches(j, rule.Watermark)
		}
		if matches {
			return Verdict{c.rule, rule.UUID, rule.Action}
		}
	}
	return Verdict{Rule: -1, Action: Action{Verb: Accept}}
}

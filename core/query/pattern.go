package query

import (
	"bytes"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	"lockstep/core/rawjson"
)

// Limits of the patterns of one or several expressions. A short pattern can have a large program, so the size is
// computed before the pattern is compiled.
const (
	patternsMax     = 100     // different patterns that are not plain text: each becomes a program
	patternMax      = 1 << 15 // bytes of one pattern
	classesMax      = 100     // Unicode classes of one pattern: each takes up to 14 kB while it is parsed
	instructionsMax = 100_000 // of all programs together: about 10 MB, and up to 40 MB while they are in use
)

// runesPerInstruction is the number of limits of character ranges that take the memory of one instruction.
const runesPerInstruction = 10

// PatternBudget is the remaining cost that the patterns of one or several expressions may have together.
type PatternBudget struct {
	patterns, instructions int
	max                    int // instructions at the beginning
}

// NewPatternBudget is the budget of one query, or of one filter rule in the configuration.
func NewPatternBudget() *PatternBudget {
	return &PatternBudget{patternsMax, instructionsMax, instructionsMax}
}

// ruleInstructionsMax bounds the patterns of a new filter rule, which an actor compiles that others wait for: about 5 ms.
const ruleInstructionsMax = 10_000

// NewRuleBudget is the budget of a filter rule that a client makes or tests.
func NewRuleBudget() *PatternBudget {
	return &PatternBudget{patternsMax, ruleInstructionsMax, ruleInstructionsMax}
}

// Spent returns the number of instructions of patterns that were parsed within the budget.
func (a *PatternBudget) Spent() int { return a.max - a.instructions }

// Pattern is a regular expression in the dialect RE2. Most patterns are plain text, for which no regular expression is
// compiled.
type Pattern struct {
	text   string
	plain  []byte         // the text, for a pattern without operators
	regexp *regexp.Regexp // nil if plain
	prog   *syntax.Prog   // of regexp, for a search that can be interrupted
	cost   int            // instructions; 0 if plain
}

// compile makes a pattern if the budget suffices, and takes it from the budget. A text without special characters costs nothing. The
// error is the reason of a ParseError.
func (a *PatternBudget) compile(text string) (*Pattern, error) {
	if len(text) > patternMax {
		return nil, fmt.Errorf("a pattern of %d bytes is too long, at most %d are allowed", len(text), patternMax)
	}
	if regexp.QuoteMeta(text) == text {
		return &Pattern{text: text, plain: []byte(text)}, nil
	}
	if a.patterns == 0 {
		return nil, fmt.Errorf("too many patterns, at most %d different ones are allowed", patternsMax)
	}
	if strings.Count(text, `\p`)+strings.Count(text, `\P`) > classesMax {
		return nil, fmt.Errorf(`the pattern %s has too many Unicode classes (\p), at most %d are allowed`, rawjson.Quoted(text), classesMax)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("the pattern %s is not in RE2 syntax: %w", rawjson.Quoted(text), err)
	}
	cost := costOf(tree)
	if cost > a.instructions {
		return nil, fmt.Errorf("the pattern %s is too complex: all patterns together may have %d instructions, repetitions written out",
			rawjson.Quoted(text), a.max)
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("the pattern %s is not in RE2 syntax: %w", rawjson.Quoted(text), err)
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, fmt.Errorf("the pattern %s is not in RE2 syntax: %w", rawjson.Quoted(text), err)
	}
	a.patterns--
	a.instructions -= cost
	return &Pattern{text: text, regexp: compiled, prog: prog, cost: cost}, nil
}

// costOf is an upper bound of the instructions of a pattern's program, with the memory of its character classes. It
// does not make the program.
func costOf(tree *syntax.Regexp) int {
	const ends = 2 // every program fails at its first instruction, and matches at its last one
	return ends + instructions(tree) + runes(tree)/runesPerInstruction
}

// instructions estimates how many instructions a pattern compiles to. It stops growing above the largest budget, so that products do not
// overflow.
func instructions(r *syntax.Regexp) int {
	n := 0
	for _, sub := range r.Sub {
		n = min(n+instructions(sub), 2*instructionsMax)
	}
	switch r.Op {
	case syntax.OpLiteral:
		return max(1, len(r.Rune))
	case syntax.OpCapture, syntax.OpStar:
		return n + 2
	case syntax.OpPlus, syntax.OpQuest:
		return n + 1
	case syntax.OpRepeat: // x{2,4} is xx(?:x(?:x)?)?, x{2,} is xx+, x{0,} is x*
		return min(n*max(r.Min, 1)+(n+1)*max(r.Max-r.Min, 0)+2, 2*instructionsMax)
	case syntax.OpConcat:
		return max(1, n)
	case syntax.OpAlternate:
		return n + len(r.Sub)
	}
	return n + 1
}

// runes counts the limits of the ranges in character classes. Repetitions share them.
func runes(r *syntax.Regexp) int {
	n := 0
	for _, sub := range r.Sub {
		n += runes(sub)
	}
	if r.Op == syntax.OpCharClass {
		n += len(r.Rune)
	}
	return n
}

// String is the pattern as the client wrote it.
func (p *Pattern) String() string { return p.text }

// MatchesIn reports whether the pattern is found in text.
func (p *Pattern) MatchesIn(text string) bool {
	if p.regexp == nil {
		return strings.Contains(text, p.text)
	}
	return p.regexp.MatchString(text)
}

// MatchesInBytes is MatchesIn for bytes.
func (p *Pattern) MatchesInBytes(text []byte) bool {
	if p.regexp == nil {
		return bytes.Contains(text, p.plain)
	}
	return p.regexp.Match(text)
}

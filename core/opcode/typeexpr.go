package opcode

import (
	"fmt"
	"strconv"
	"strings"
)

// typeNames is the names that a type expression may use in addition to the scalar types.
//
// Invariant: parsed holds only complete types, so it may be shared by every parameter of that type.
type typeNames struct {
	named     map[string]string // expressions
	parsed    map[string]Type   // by expression; a name alone is an expression too
	resolving map[string]bool   // names that are being resolved
}

func newVocabulary(named map[string]string) *typeNames {
	return &typeNames{named: named, parsed: map[string]Type{}, resolving: map[string]bool{}}
}

// parse reads a type expression, in Ganeti's words:
//
//	expression = conjunction {"or" conjunction}
//	conjunction = factor {"and" factor}
//	factor = "(" expression ")"
//	       | ("List" | "Set") "of" factor
//	       | "Tuple" "of" "(" expression {"," expression} ")"
//	       | "Dictionary" "with" "keys" "of" factor "and" "values" "of" factor
//	       | "OneOf" word {"," word}
//	       | "Less" "than" integer
//	       | "Private" factor
//	       | name
//
// A name is that of a scalar type (see scalarTypeOf) or one of typeNames.
func (voc *typeNames) parse(expr string) (Type, error) {
	if t, ok := voc.parsed[expr]; ok {
		return t, nil
	}
	p := typeParser{typeNames: voc, tokens: typeTokens(expr)}
	t, err := p.expression()
	if err == nil && p.pos < len(p.tokens) {
		err = fmt.Errorf("unexpected %q", p.tokens[p.pos])
	}
	if err != nil {
		return nil, fmt.Errorf("type %q: %w", expr, err)
	}
	voc.parsed[expr] = t
	return t, nil
}

// resolve gives the type of a name. Names that refer to each other are an error.
func (voc *typeNames) resolve(name string) (Type, error) {
	if t, ok := scalarTypeOf(name); ok {
		return t, nil
	}
	switch name {
	case "Retry":
		return retryPolicy, nil
	case "Limits":
		return commandLimits, nil
	}
	expr, ok := voc.named[name]
	if !ok {
		return nil, fmt.Errorf("unknown type %q", name)
	}
	if voc.resolving[name] {
		return nil, fmt.Errorf("type %s is made of itself", name)
	}
	voc.resolving[name] = true
	defer delete(voc.resolving, name)
	return voc.parse(expr)
}

func typeTokens(expr string) []string {
	spaced := strings.NewReplacer("(", " ( ", ")", " ) ", ",", " , ").Replace(expr)
	return strings.Fields(spaced)
}

type typeParser struct {
	*typeNames
	tokens []string
	pos    int
}

// next takes the next token, "" at the end.
func (p *typeParser) next() string {
	if p.pos == len(p.tokens) {
		return ""
	}
	p.pos++
	return p.tokens[p.pos-1]
}

// take takes the next token if it is the given one, and reports whether it was.
func (p *typeParser) take(token string) bool {
	if p.pos < len(p.tokens) && p.tokens[p.pos] == token {
		p.pos++
		return true
	}
	return false
}

func (p *typeParser) want(tokens ...string) error {
	for _, token := range tokens {
		if !p.take(token) {
			return fmt.Errorf("want %q at word %d", token, p.pos+1)
		}
	}
	return nil
}

func (p *typeParser) expression() (Type, error) {
	parts, err := p.separated("or", p.conjunction)
	if err != nil || len(parts) > 1 {
		return union(parts), err
	}
	return parts[0], nil
}

func (p *typeParser) conjunction() (Type, error) {
	parts, err := p.separated("and", p.factor)
	if err != nil || len(parts) > 1 {
		return intersection(parts), err
	}
	return parts[0], nil
}

func (p *typeParser) separated(separator string, part func() (Type, error)) ([]Type, error) {
	var parts []Type
	for {
		t, err := part()
		if err != nil {
			return nil, err
		}
		if parts = append(parts, t); !p.take(separator) {
			return parts, nil
		}
	}
}

func (p *typeParser) factor() (Type, error) {
	switch word := p.next(); word {
	case "(":
		t, err := p.expression()
		if err == nil {
			err = p.want(")")
		}
		return t, err
	case "List", "Set":
		t, err := p.after(p.factor, "of")
		return list{t}, err
	case "Private":
		t, err := p.factor()
		return private{t}, err
	case "Tuple":
		return p.tuple()
	case "Dictionary":
		return p.dictionary()
	case "OneOf":
		return p.oneOf()
	case "Less":
		if err := p.want("than"); err != nil {
			return nil, err
		}
		limit, err := strconv.ParseInt(p.next(), 10, 64)
		return lessThan(limit), err
	default:
		return p.resolve(word)
	}
}

func (p *typeParser) after(part func() (Type, error), words ...string) (Type, error) {
	if err := p.want(words...); err != nil {
		return nil, err
	}
	return part()
}

func (p *typeParser) oneOf() (Type, error) {
	var values oneOf
	for more := true; more; more = p.take(",") {
		word := p.next()
		if word == "" || strings.Contains("(),", word) {
			return nil, fmt.Errorf("want a value at word %d", p.pos)
		}
		values = append(values, word)
	}
	return values, nil
}

func (p *typeParser) tuple() (Type, error) {
	if err := p.want("of", "("); err != nil {
		return nil, err
	}
	parts, err := p.separated(",", p.expression)
	if err != nil {
		return nil, err
	}
	return tuple(parts), p.want(")")
}

func (p *typeParser) dictionary() (Type, error) {
	key, err := p.after(p.factor, "with", "keys", "of")
	if err != nil {
		return nil, err
	}
	value, err := p.after(p.factor, "and", "values", "of")
	return dictionary{key, value}, err
}

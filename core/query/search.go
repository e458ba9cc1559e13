package query

import (
	"bytes"
	"regexp/syntax"
	"unicode/utf8"
)

// directMax bounds the work of a match that is made at one go, about 2 ms.
const directMax = 100_000

// Search looks for a pattern in one text, and can be interrupted: an opcode may have a text of megabytes, and a pattern costs by its
// instructions for each byte. Work is counted in steps of about 20 ns: for a compiled pattern, its instructions times the bytes at most.
//
// A long search follows all threads of the pattern's program at once, character by character. Where the match begins and ends does not
// matter.
type Search struct {
	prog     *syntax.Prog
	anchored bool // a match begins with the text
	text     []byte
	at       int  // of the next character
	before   rune // the character before at; -1: the text begins here

	threads []uint32 // instructions that read the next character, some of them several times
	stack   []uint32
	// reached are the instructions reached before the next character, a sparse set: i is in it if reached[place[i]] is i.
	reached []uint32
	place   []uint32
}

// Search looks for the pattern in a text, and subtracts the steps from work. If work is used up first, s is the search, which Continue
// goes on with. Otherwise s is nil, and found is the result.
func (p *Pattern) Search(text []byte, work *int) (s *Search, found bool) {
	if p.regexp == nil {
		*work -= 1 + len(text)/bytesPerStep
		return nil, bytes.Contains(text, p.plain)
	}
	if steps := p.cost * (len(text) + 1); steps <= directMax {
		*work -= steps
		return nil, p.regexp.Match(text)
	}
	s = &Search{
		prog:     p.prog,
		anchored: p.prog.StartCond()&syntax.EmptyBeginText != 0,
		text:     text,
		before:   -1,
		place:    make([]uint32, len(p.prog.Inst)),
	}
	found, done := s.Continue(work)
	if done {
		return nil, found
	}
	return s, false
}

// bytesPerStep is how many bytes are compared or skipped in the time of one step.
const bytesPerStep = 20

// Continue reads on until the search has ended or work is used up, at least one character. done: it has ended, and found says whether the
// pattern matches.
func (s *Search) Continue(work *int) (found, done bool) {
	for {
		next, width := rune(-1), 0
		if s.at < len(s.text) {
			next, width = utf8.DecodeRune(s.text[s.at:])
		}
		found := s.step(next)
		*work -= 1 + len(s.reached)
		if found || width == 0 || s.anchored && len(s.threads) == 0 {
			return found, true
		}
		s.before, s.at = next, s.at+width
		if *work <= 0 {
			return false, false
		}
	}
}

// step lets all threads, and one that begins at this place, read the next character, -1 at the end of the text. It reports whether one of
// them has matched before that character.
func (s *Search) step(next rune) (matched bool) {
	context := syntax.EmptyOpContext(s.before, next)
	s.stack, s.threads, s.reached = append(s.stack[:0], s.threads...), s.threads[:0], s.reached[:0]
	if !s.anchored || s.at == 0 {
		s.stack = append(s.stack, uint32(s.prog.Start))
	}
	for len(s.stack) > 0 {
		pc := s.stack[len(s.stack)-1]
		s.stack = s.stack[:len(s.stack)-1]
		if at := s.place[pc]; int(at) < len(s.reached) && s.reached[at] == pc {
			continue
		}
		s.place[pc] = uint32(len(s.reached))
		s.reached = append(s.reached, pc)
		switch inst := &s.prog.Inst[pc]; inst.Op {
		case syntax.InstMatch:
			return true
		case syntax.InstFail:
		case syntax.InstAlt, syntax.InstAltMatch:
			s.stack = append(s.stack, inst.Out, inst.Arg)
		case syntax.InstCapture, syntax.InstNop:
			s.stack = append(s.stack, inst.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(inst.Arg)&^context == 0 {
				s.stack = append(s.stack, inst.Out)
			}
		default:
			if next >= 0 && inst.MatchRune(next) {
				s.threads = append(s.threads, inst.Out)
			}
		}
	}
	return false
}

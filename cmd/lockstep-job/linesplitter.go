package main

import (
	"bytes"
	"unicode/utf8"
)

// pieceMax bounds one piece, in bytes; a longer line becomes several.
const pieceMax = 64 << 10

// lineSplitter cuts output into pieces: lines with their ends. A carriage return ends
// a piece too, as programs that show their progress use it. The pieces together
// are exactly what was written.
type lineSplitter struct {
	emit    func(piece []byte) // which must not keep it
	partial []byte
}

func (s *lineSplitter) write(p []byte) {
	for len(p) > 0 {
		n := bytes.IndexAny(p, "\r\n") + 1
		if n > 0 && n < len(p) && p[n-1] == '\r' && p[n] == '\n' {
			n++
		}
		if room := pieceMax - len(s.partial); n == 0 && len(p) < room {
			s.partial = append(s.partial, p...)
			return
		} else if n == 0 || n > room {
			s.emitLong(p[:room])
			p = p[room:]
			continue
		}
		if len(s.partial) == 0 {
			s.emit(p[:n])
		} else {
			s.partial = append(s.partial, p[:n]...)
			s.flush()
		}
		p = p[n:]
	}
}

// emitLong emits a piece of full length, but keeps a character back that it would cut.
func (s *lineSplitter) emitLong(p []byte) {
	s.partial = append(s.partial, p...)
	end := len(s.partial)
	for back := 1; back < utf8.UTFMax; back++ {
		if tail := s.partial[end-back:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				end -= back
			}
			break
		}
	}
	s.emit(s.partial[:end])
	s.partial = append(s.partial[:0], s.partial[end:]...)
}

// flush emits what is left without an end.
func (s *lineSplitter) flush() {
	if len(s.partial) > 0 {
		s.emit(s.partial)
		s.partial = s.partial[:0]
	}
}

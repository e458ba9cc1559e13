package jobproc

import (
	"bytes"
	"unicode/utf8"
)

// pieceMax bounds one piece, in bytes. A longer line becomes several pieces.
const pieceMax = 64 << 10

// LineSplitter cuts output into pieces: lines with their ends. A carriage return ends a piece too, because programs show
// their progress with it. The pieces together are exactly the output.
type LineSplitter struct {
	Emit    func(piece []byte) // must not keep piece
	partial []byte             // of a piece that is not complete; shorter than pieceMax
}

// Write adds output, and emits the pieces that are complete.
func (s *LineSplitter) Write(p []byte) {
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
			s.Emit(p[:n])
		} else {
			s.partial = append(s.partial, p[:n]...)
			s.Flush()
		}
		p = p[n:]
	}
}

// emitLong emits a piece of pieceMax bytes, without the beginning of a character that the cut would split.
func (s *LineSplitter) emitLong(p []byte) {
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
	s.Emit(s.partial[:end])
	s.partial = append(s.partial[:0], s.partial[end:]...)
}

// Flush emits the rest, which has no end of line. Without a rest it emits nothing.
func (s *LineSplitter) Flush() {
	if len(s.partial) > 0 {
		s.Emit(s.partial)
		s.partial = s.partial[:0]
	}
}

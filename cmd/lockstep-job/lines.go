package main

import "bytes"

// lineMax bounds one log entry, in bytes; a longer line becomes several.
const lineMax = 64 << 10

// lineSplitter cuts output into lines. A carriage return ends a line too, as
// programs that show their progress use it.
type lineSplitter struct {
	emit    func(line string)
	partial []byte
	// afterCR: the last line ended with a carriage return; a newline that
	// follows belongs to it.
	afterCR bool
}

func (s *lineSplitter) Write(p []byte) (int, error) {
	written := len(p)
	for len(p) > 0 {
		if s.afterCR {
			s.afterCR = false
			if p[0] == '\n' {
				p = p[1:]
				continue
			}
		}
		end := bytes.IndexAny(p, "\r\n")
		room := lineMax - len(s.partial)
		switch {
		case end < 0 && len(p) < room:
			s.partial = append(s.partial, p...)
			return written, nil
		case end < 0 || end > room:
			s.partial = append(s.partial, p[:room]...)
			p = p[room:]
		default:
			s.partial = append(s.partial, p[:end]...)
			s.afterCR = p[end] == '\r'
			p = p[end+1:]
		}
		s.line()
	}
	return written, nil
}

// flush emits what is left without an end.
func (s *lineSplitter) flush() {
	if len(s.partial) > 0 {
		s.line()
	}
}

func (s *lineSplitter) line() {
	s.emit(string(s.partial))
	s.partial = s.partial[:0]
}

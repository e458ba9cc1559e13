package term

import (
	"fmt"
	"io"
)

// StatusLine is a line on a terminal that is overwritten by its next text. It prints nothing if it is
// not on.
type StatusLine struct {
	Out   io.Writer
	On    bool
	shown string
}

// EraseLine makes a terminal erase the line of its cursor, which is at its beginning then.
const EraseLine = "\r\x1b[K"

func (s *StatusLine) Set(text string) {
	if s.On && text != s.shown {
		fmt.Fprint(s.Out, EraseLine, text)
		s.shown = text
	}
}

// Clear removes the line before other output; the next text shows it again.
func (s *StatusLine) Clear() {
	if s.On && s.shown != "" {
		fmt.Fprint(s.Out, EraseLine)
		s.shown = ""
	}
}

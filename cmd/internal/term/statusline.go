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

const eraseLine = "\r\x1b[K"

func (s *StatusLine) Set(text string) {
	if s.On && text != s.shown {
		fmt.Fprint(s.Out, eraseLine, text)
		s.shown = text
	}
}

// Clear removes the line before other output; the next text shows it again.
func (s *StatusLine) Clear() {
	if s.On && s.shown != "" {
		fmt.Fprint(s.Out, eraseLine)
		s.shown = ""
	}
}

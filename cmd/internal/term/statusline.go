package term

import (
	"fmt"
	"io"
)

// StatusLine is one line on a terminal that replaces itself. When it is not on, it
// prints nothing.
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

// Clear makes room for other output; the line comes back with the next other text.
func (s *StatusLine) Clear() {
	if s.On && s.shown != "" {
		fmt.Fprint(s.Out, eraseLine)
		s.shown = ""
	}
}

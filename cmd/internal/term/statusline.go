package term

import (
	"fmt"
	"io"
	"strings"
)

// StatusLine is a line on a terminal that is overwritten by its next text. A text may have several lines, with "\r\n" between them. None
// may be wider than the terminal. It prints nothing if it is not on.
type StatusLine struct {
	Out   io.Writer
	On    bool
	shown string
}

// EraseLine makes a terminal erase the line of its cursor, which is at its beginning then.
const EraseLine = "\r\x1b[K"

// eraseAbove does the same with the line above that of the cursor.
const eraseAbove = "\x1b[A" + EraseLine

func (s *StatusLine) erase() string {
	return EraseLine + strings.Repeat(eraseAbove, strings.Count(s.shown, "\n"))
}

func (s *StatusLine) Set(text string) {
	if s.On && text != s.shown {
		fmt.Fprint(s.Out, s.erase(), text)
		s.shown = text
	}
}

// Clear removes the line before other output; the next text shows it again.
func (s *StatusLine) Clear() {
	if s.On && s.shown != "" {
		fmt.Fprint(s.Out, s.erase())
		s.shown = ""
	}
}

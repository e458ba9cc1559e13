// Package progressbar shows on a terminal how far long work is.
package progressbar

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"
	"golang.org/x/term"
)

// Bar is one line that is drawn again and again. The zero Bar shows nothing.
type Bar struct {
	tracker *progress.Tracker
	drawn   chan struct{} // closed when nothing more is drawn
}

// Start starts a bar if w is a terminal and there is more than one step.
func Start(w io.Writer, steps int64) *Bar {
	file, isFile := w.(*os.File)
	if !isFile || !term.IsTerminal(int(file.Fd())) || steps < 2 {
		return &Bar{}
	}
	b := &Bar{tracker: &progress.Tracker{Total: steps}, drawn: make(chan struct{})}
	writer := progress.NewWriter()
	writer.SetOutputWriter(w)
	writer.SetAutoStop(true)
	writer.SetUpdateFrequency(200 * time.Millisecond)
	writer.Style().Visibility.Speed = false // the text has it where it counts
	writer.AppendTracker(b.tracker)
	go func() {
		writer.Render()
		close(b.drawn)
	}()
	return b
}

// Say changes the words before the bar.
func (b *Bar) Say(text string) {
	if b.tracker != nil {
		b.tracker.UpdateMessage(text)
	}
}

// Rate says how many of what there were, and how many in a second.
func (b *Bar) Rate(n uint64, what string, took time.Duration) {
	b.Say(fmt.Sprintf("%d %s, %.0f/s", n, what, float64(n)/took.Seconds()))
}

// Step counts one step more.
func (b *Bar) Step() {
	if b.tracker != nil {
		b.tracker.Increment(1)
	}
}

// Stop leaves the last state on the screen. It may be called twice.
func (b *Bar) Stop() {
	if b.tracker != nil {
		b.tracker.MarkAsDone()
		<-b.drawn
	}
}

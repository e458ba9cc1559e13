package term

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"
	"golang.org/x/term"
)

// Bar is a progress bar on one line. The zero Bar shows nothing.
type Bar struct {
	tracker *progress.Tracker
	drawn   chan struct{} // closed after the last drawing
}

// StartSteps starts a bar that counts steps, if w is a terminal and there are several steps.
func StartSteps(w io.Writer, steps int64) *Bar {
	file, isFile := w.(*os.File)
	if !isFile || !term.IsTerminal(int(file.Fd())) || steps < 2 {
		return &Bar{}
	}
	writer := progress.NewWriter()
	writer.SetUpdateFrequency(200 * time.Millisecond)
	writer.Style().Visibility.Speed = false // the text has the speed if needed
	return draw(w, writer, &progress.Tracker{Total: steps})
}

// StartText starts a bar on a terminal, with a text and a maximum. The text states the progress;
// see Show.
func StartText(w io.Writer, text string, total int) *Bar {
	writer := progress.NewWriter()
	writer.SetUpdateFrequency(100 * time.Millisecond)
	writer.SetTrackerLength(30)
	style := progress.StyleDefault
	style.Visibility.Percentage = false
	style.Visibility.Speed = false
	style.Visibility.Value = false // the text has the value
	writer.SetStyle(style)
	return draw(w, writer, &progress.Tracker{Message: text, Total: int64(total)})
}

func draw(w io.Writer, writer progress.Writer, tracker *progress.Tracker) *Bar {
	b := &Bar{tracker: tracker, drawn: make(chan struct{})}
	writer.SetOutputWriter(w)
	writer.SetAutoStop(true) // when the tracker is done
	writer.AppendTracker(tracker)
	go func() {
		writer.Render()
		close(b.drawn)
	}()
	return b
}

// Show sets the text before the bar, and the progress. A bar that is not shown ignores it.
func (b *Bar) Show(text string, value int) {
	if b.tracker != nil {
		b.tracker.UpdateMessage(text)
		b.tracker.SetValue(int64(value))
	}
}

// SetLabel sets the text before the bar. A bar that is not shown ignores it.
func (b *Bar) SetLabel(label string) {
	if b.tracker != nil {
		b.tracker.UpdateMessage(label)
	}
}

// SetRate sets the text to a number with its unit, and the rate per second.
func (b *Bar) SetRate(n uint64, unit string, took time.Duration) {
	b.SetLabel(fmt.Sprintf("%d %s, %.0f/s", n, unit, float64(n)/took.Seconds()))
}

// Step counts one step of the progress. A bar that is not shown ignores it.
func (b *Bar) Step() {
	if b.tracker != nil {
		b.tracker.Increment(1)
	}
}

// Stop leaves the last state on the screen and returns after the last drawing. It may be called
// twice.
func (b *Bar) Stop() {
	if b.tracker != nil {
		b.tracker.MarkAsDone()
		<-b.drawn
	}
}

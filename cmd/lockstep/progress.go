package main

import (
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"
)

// progressBar shows on a terminal how far something is. The zero bar shows nothing.
type progressBar struct {
	tracker *progress.Tracker
	drawn   chan struct{} // closed when nothing more is drawn
}

// startProgress starts a bar with a text and its end, or a zero bar where nobody looks.
func startProgress(globals *globalOptions, text string, total int) progressBar {
	if !showsProgress(globals) {
		return progressBar{}
	}
	bar := progressBar{
		tracker: &progress.Tracker{Message: text, Total: int64(total)},
		drawn:   make(chan struct{}),
	}
	writer := progress.NewWriter()
	writer.SetOutputWriter(globals.streams.Err)
	writer.SetAutoStop(true) // when the only tracker is done
	writer.SetUpdateFrequency(100 * time.Millisecond)
	writer.SetTrackerLength(30)
	style := progress.StyleDefault
	style.Visibility.Percentage = false
	style.Visibility.Speed = false
	style.Visibility.Value = false // it is in the text
	writer.SetStyle(style)
	writer.AppendTracker(bar.tracker)
	go func() {
		writer.Render()
		close(bar.drawn)
	}()
	return bar
}

func showsProgress(globals *globalOptions) bool { return globals.streams.ErrTerminal && !globals.JSON }

func (b progressBar) show(text string, value int) {
	if b.tracker != nil {
		b.tracker.UpdateMessage(text)
		b.tracker.SetValue(int64(value))
	}
}

// stop leaves the last state on the screen and returns when nothing more is drawn.
func (b progressBar) stop() {
	if b.tracker != nil {
		b.tracker.MarkAsDone()
		<-b.drawn
	}
}

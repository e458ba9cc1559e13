package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"
	"golang.org/x/term"
)

// bar shows on a terminal how far a sweep is, and how fast. The zero bar shows
// nothing.
type bar struct {
	tracker *progress.Tracker
	drawn   chan struct{} // closed when nothing more is drawn
}

// startProgress starts a bar if w is a terminal and there is more than one run.
func startProgress(w io.Writer, runs int64) *bar {
	file, isFile := w.(*os.File)
	if !isFile || !term.IsTerminal(int(file.Fd())) || runs < 2 {
		return &bar{}
	}
	b := &bar{tracker: &progress.Tracker{Total: runs}, drawn: make(chan struct{})}
	writer := progress.NewWriter()
	writer.SetOutputWriter(w)
	writer.SetAutoStop(true)
	writer.SetUpdateFrequency(200 * time.Millisecond)
	writer.Style().Visibility.Speed = false // the text has it
	writer.AppendTracker(b.tracker)
	go func() {
		writer.Render()
		close(b.drawn)
	}()
	return b
}

// show counts one run more, and tells how many of what there were.
func (b *bar) show(what string, n uint64, took time.Duration) {
	if b.tracker != nil {
		b.tracker.UpdateMessage(fmt.Sprintf("%d %s, %.0f/s", n, what, float64(n)/took.Seconds()))
		b.tracker.Increment(1)
	}
}

// stop leaves the last state on the screen.
func (b *bar) stop() {
	if b.tracker != nil {
		b.tracker.MarkAsDone()
		<-b.drawn
	}
}

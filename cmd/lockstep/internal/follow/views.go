package follow

import (
	"context"
	"sync"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/job"
	"lockstep/core/outflow"
	"lockstep/core/outflow/delivery"
	"lockstep/edge/outputs/end"
)

// Views show the output of one job in one of two forms: as events, or as text.
type Views struct {
	JSON   bool
	Events EventView
	Lines  JobOutput
}

// ViewsOf are the views of a job, whose missing output is asked of the kept files.
func ViewsOf(ctx context.Context, globals *cli.Globals, daemon *client.Session, streams cli.Streams, id int64) Views {
	v := Views{JSON: globals.JSON,
		Events: EventView{Out: globals.Streams.Out, ID: id, Now: streams.Now},
		Lines:  JobOutput{ID: id, Streams: streams}}
	v.SetKept(KeptOf(ctx, daemon, id))
	return v
}

// SetKept sets how kept output is read.
func (v *Views) SetKept(kept delivery.ReadKept) { v.Events.Kept, v.Lines.Kept = kept, kept }

// AskUnlocked lets other jobs be shown while kept output is asked of a node, which may be silent for long: showing, which is locked while a
// view is called, is locked again for each piece, after shown has made room for it.
func (v *Views) AskUnlocked(showing sync.Locker, shown func()) {
	kept := v.Lines.Kept
	v.SetKept(func(part end.Kept, take func([]byte) bool) int64 {
		showing.Unlock()
		defer showing.Lock()
		return kept(part, func(output []byte) bool {
			showing.Lock()
			defer showing.Unlock()
			shown()
			return take(output)
		})
	})
}

// Keeps is part of LiveView. Of each stream the files have the beginning, so that the last lost byte stands for all. Messages are nowhere
// else than in the log.
func (v *Views) Keeps(entries []LogEntry) bool {
	var lost job.Output // up to these places
	for _, e := range entries {
		typ, payload := job.FromMessage(e.Type, e.Payload)
		if typ != job.LogMissing {
			continue
		}
		note, known := decodeMissing(payload)
		if !known {
			return false
		}
		for _, s := range []outflow.Stream{outflow.Stdout, outflow.Stderr} {
			if delivery.AmountIn(&note.Missing, s).Bytes > 0 {
				*delivery.AmountIn(&lost, s) = *delivery.AmountIn(&note.Written, s)
			}
		}
	}
	return v.keepsByte(outflow.Stdout, lost.Stdout.Bytes-1) && v.keepsByte(outflow.Stderr, lost.Stderr.Bytes-1)
}

// keepsByte reports whether the files have the byte at a place; of none, with a negative place, they have it.
func (v *Views) keepsByte(s outflow.Stream, at int64) bool {
	tries := v.Lines.Tries
	if v.JSON {
		tries = v.Events.Tries
	}
	part := end.Kept{Stream: s, From: at, To: at + 1, Tries: tries}
	return at < 0 || v.Lines.Kept(part, func([]byte) bool { return true }) > at
}

// Show shows log entries, and what is missing before them.
func (v *Views) Show(entries []LogEntry) {
	if v.JSON {
		v.Events.entries(entries)
		return
	}
	v.Lines.entries(entries)
}

// StreamBegins says that a Stream brings the output from a place on.
func (v *Views) StreamBegins(at outflow.Position) {
	v.Events.Begin(at)
	v.Lines.Begin(at)
}

// ShowPiece shows output of a Stream, as far as the log has not brought it already.
func (v *Views) ShowPiece(p Piece) {
	if v.JSON {
		v.Events.Frame(&v.Events, p.Frame)
		return
	}
	v.Lines.Frame(&v.Lines, p.Frame)
}

// ShowRest shows what is in the whole log of a job and was not shown: the Stream has broken off.
func (v *Views) ShowRest(entries []LogEntry) {
	if v.JSON {
		v.Events.RestOfLog(&v.Events, delivered(entries))
		return
	}
	v.Lines.RestOfLog(&v.Lines, delivered(entries))
}

// Finish ends the last line. Text has a report of what is missing in all; events have it in their end.
func (v *Views) Finish() {
	if v.JSON {
		v.Events.flush()
		return
	}
	v.Lines.finish()
}

// Losses are what is missing of the output that was shown.
func (v *Views) Losses() Losses {
	if v.JSON {
		return lossesOf(&v.Events.Delivery)
	}
	return lossesOf(&v.Lines.Delivery)
}

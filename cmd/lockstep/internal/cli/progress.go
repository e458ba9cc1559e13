package cli

import (
	"strings"
	"time"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/answer"
)

// Progress is the progress of a command as --json prints it.
type Progress struct {
	Percent *float64         `json:"percent"` // 0 to 100; nil: not known
	Text    string           `json:"text"`
	Since   client.Timestamp `json:"since"`
	Updated client.Timestamp `json:"updated"`
	End     client.Timestamp `json:"end"` // expected; null: not known
}

// ShownProgress is a progress for --json; nil for nil.
func ShownProgress(p *answer.Progress) *Progress {
	if p == nil {
		return nil
	}
	return &Progress{p.Percent, p.Text, client.Timestamp(p.Since), client.Timestamp(p.Updated), client.Timestamp(p.End)}
}

// ProgressText is a progress in a line: "42.5% ||··· 12m left, copying disk 2".
func ProgressText(p *answer.Progress, now time.Time) string {
	text := term.Visible(p.Words(now, term.Span))
	if p.Percent != nil {
		text = strings.TrimSpace(p.Share() + " " + term.Meter(*p.Percent, meterWidth) + " " + text)
	}
	return text
}

// meterWidth is so small that a share and its bar fit in term.CellMin.
const meterWidth = 5

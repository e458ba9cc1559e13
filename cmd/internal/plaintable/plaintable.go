// Package plaintable is how tables look in all of lockstep's programs: no lines, two
// spaces between columns, headers as they are written.
package plaintable

import (
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// New is an empty table.
func New() table.Writer {
	writer := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = text.FormatDefault
	style.Box.PaddingLeft = ""
	style.Box.PaddingRight = "  "
	writer.SetStyle(style)
	writer.SuppressTrailingSpaces()
	return writer
}

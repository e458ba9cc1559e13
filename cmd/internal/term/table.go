// Package term has the terminal output of lockstep's programs: tables, progress bars, colours, times
// and lists in words. It escapes text of jobs and servers that a terminal could interpret. It does
// not know jobs.
package term

import (
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// NewTable returns an empty table in the style of lockstep's programs: no lines, two spaces between
// columns, headers in unchanged case.
func NewTable() table.Writer {
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

// PlainTable renders a table of strings without lines; the first column is numbers. width is the
// width of the terminal in columns: cells of the columns wide, counted from 0, are cut so that rows
// fit. width 0: no terminal, and no cell is cut.
func PlainTable(header table.Row, rows []table.Row, wide []int, width int) string {
	return alignedTable(text.AlignRight, header, rows, wide, width)
}

// NarrowTable is PlainTable for a terminal that may be too narrow even for cut cells: it then omits the
// columns in optional, counted from 0, in their order.
func NarrowTable(header table.Row, rows []table.Row, wide, optional []int, width int) string {
	gone := map[int]bool{}
	for _, column := range optional {
		if width == 0 || MinWidth(header, rows, wide, gone) <= width {
			break
		}
		gone[column] = true
	}
	kept := func(row table.Row) table.Row {
		var cells table.Row
		for i, cell := range row {
			if !gone[i] {
				cells = append(cells, cell)
			}
		}
		return cells
	}
	var keptRows []table.Row
	for _, row := range rows {
		keptRows = append(keptRows, kept(row))
	}
	var keptWide []int
	for _, column := range wide {
		before := 0
		for i := range column {
			if gone[i] {
				before++
			}
		}
		if !gone[column] {
			keptWide = append(keptWide, column-before)
		}
	}
	return PlainTable(kept(header), keptRows, keptWide, width)
}

// MinWidth is the width, in columns of the terminal, of a table whose wide cells are cut to the
// minimum.
func MinWidth(header table.Row, rows []table.Row, wide []int, gone map[int]bool) int {
	total := -columnGap
	for i, width := range columnWidths(header, rows) {
		switch {
		case gone[i]:
		case slices.Contains(wide, i):
			total += min(width, CellMin) + columnGap
		default:
			total += width + columnGap
		}
	}
	return total
}

// The space between columns, and the minimum width of a cut cell, in columns of the terminal.
const (
	columnGap = 2
	CellMin   = 12
)

func columnWidths(header table.Row, rows []table.Row) []int {
	widths := make([]int, len(header))
	for _, row := range append([]table.Row{header}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], text.StringWidthWithoutEscSequences(cell.(string)))
		}
	}
	return widths
}

// TextTable is PlainTable with a first column of text.
func TextTable(header table.Row, rows []table.Row, wide []int, width int) string {
	return alignedTable(text.AlignLeft, header, rows, wide, width)
}

func alignedTable(first text.Align, header table.Row, rows []table.Row, wide []int, width int) string {
	if width > 0 {
		cutCells(header, rows, wide, width)
	}
	writer := NewTable()
	writer.SetColumnConfigs([]table.ColumnConfig{{Number: 1, Align: first, AlignHeader: first}})
	writer.AppendHeader(header)
	writer.AppendRows(rows)
	return writer.Render()
}

// cutCells shortens the wide columns. Each gets an equal share of the remaining width; columns
// that follow a narrow one share the rest.
func cutCells(header table.Row, rows []table.Row, wide []int, width int) {
	widths := columnWidths(header, rows)
	left := width
	for _, one := range widths {
		left -= one + columnGap
	}
	for _, i := range wide {
		left += widths[i]
	}
	needed := 0
	for _, i := range wide {
		needed += widths[i]
	}
	for n, i := range wide {
		needed -= widths[i]
		share := max(left/(len(wide)-n), left-needed, CellMin)
		for _, row := range rows {
			row[i] = text.Snip(row[i].(string), share, "…")
		}
		left -= min(share, widths[i])
	}
}

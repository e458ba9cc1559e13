package main

import (
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// plainTable renders a table without lines, of cells that are strings; the first column
// is numbers. width is that of the terminal in columns: the cells of the column wide, which
// counts from 0, are cut so that rows fit. It is 0 for no terminal, where nothing is cut.
func plainTable(header table.Row, rows []table.Row, wide, width int) string {
	if width > 0 {
		cutCells(header, rows, wide, width)
	}
	writer := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = text.FormatDefault
	style.Box.PaddingLeft = ""
	style.Box.PaddingRight = "  "
	writer.SetStyle(style)
	writer.SuppressTrailingSpaces()
	writer.SetColumnConfigs([]table.ColumnConfig{{Number: 1, Align: text.AlignRight, AlignHeader: text.AlignRight}})
	writer.AppendHeader(header)
	writer.AppendRows(rows)
	return writer.Render()
}

// cutCells shortens the one column that can be long.
func cutCells(header table.Row, rows []table.Row, wide, width int) {
	const gap, least = 2, 12
	widths := make([]int, len(header))
	for _, row := range append([]table.Row{header}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], text.StringWidthWithoutEscSequences(cell.(string)))
		}
	}
	left := width
	for i, one := range widths {
		if i != wide {
			left -= one + gap
		}
	}
	left = max(left-gap, least)
	for _, row := range rows {
		row[wide] = text.Snip(row[wide].(string), left, "…")
	}
}

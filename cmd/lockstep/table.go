package main

import (
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"lockstep/cmd/internal/plaintable"
)

// plainTable renders a table without lines, of cells that are strings; the first column
// is numbers. width is that of the terminal in columns: the cells of the columns wide, which
// count from 0, are cut so that rows fit. It is 0 for no terminal, where nothing is cut.
func plainTable(header table.Row, rows []table.Row, wide []int, width int) string {
	return alignedTable(text.AlignRight, header, rows, wide, width)
}

// textTable is plainTable with a first column of text.
func textTable(header table.Row, rows []table.Row, wide []int, width int) string {
	return alignedTable(text.AlignLeft, header, rows, wide, width)
}

func alignedTable(first text.Align, header table.Row, rows []table.Row, wide []int, width int) string {
	if width > 0 {
		cutCells(header, rows, wide, width)
	}
	writer := plaintable.New()
	writer.SetColumnConfigs([]table.ColumnConfig{{Number: 1, Align: first, AlignHeader: first}})
	writer.AppendHeader(header)
	writer.AppendRows(rows)
	return writer.Render()
}

// cutCells shortens the columns that can be long. Each gets an even share of what the
// others leave; what one does not need goes to those behind it.
func cutCells(header table.Row, rows []table.Row, wide []int, width int) {
	const gap, least = 2, 12
	widths := make([]int, len(header))
	for _, row := range append([]table.Row{header}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], text.StringWidthWithoutEscSequences(cell.(string)))
		}
	}
	left := width
	for _, one := range widths {
		left -= one + gap
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
		share := max(left/(len(wide)-n), left-needed, least)
		for _, row := range rows {
			row[i] = text.Snip(row[i].(string), share, "…")
		}
		left -= min(share, widths[i])
	}
}

package term

import "strings"

// Meter is a bar of width characters, of which percent are full. It is full at 100 alone.
func Meter(percent float64, width int) string {
	full := max(0, min(width, int(percent*float64(width)/100)))
	return strings.Repeat("|", full) + strings.Repeat("·", width-full)
}

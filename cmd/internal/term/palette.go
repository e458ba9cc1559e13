package term

// Palette paints text for a terminal, or leaves it as it is.
type Palette struct{ On bool }

// Title paints a heading, if the palette has colours.
func (p Palette) Title(text string) string { return p.Paint("1", text) }

// Paint paints text in the colour that code stands for (ECMA-48, SGR).
func (p Palette) Paint(code, text string) string {
	text = Visible(text)
	if !p.On {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

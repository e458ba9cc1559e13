// Package roff writes manual pages in the man(7) format. It owns nothing.
package roff

import (
	"fmt"
	"strings"
	"time"
)

// Page is one manual page that is being written.
type Page struct{ b strings.Builder }

// New begins a page. day is its date, so that the same source gives the same page.
func New(name string, section int, summary string, day time.Time) *Page {
	p := &Page{}
	fmt.Fprintf(&p.b, ".TH %s %d %s lockstep\n", strings.ToUpper(name), section, day.UTC().Format("2006-01-02"))
	p.Section("NAME")
	fmt.Fprintf(&p.b, "%s \\- %s\n", escape(name), escape(summary))
	return p
}

// Section begins a section of the page with a title.
func (p *Page) Section(title string) { fmt.Fprintf(&p.b, ".SH %s\n", escape(title)) }

// Text adds paragraphs, which empty lines separate.
func (p *Page) Text(text string) {
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			p.b.WriteString(".PP\n")
		}
		p.b.WriteString(escape(paragraph) + "\n")
	}
}

// Example adds lines to the page as they are, indented.
func (p *Page) Example(lines string) {
	fmt.Fprintf(&p.b, ".RS 4\n.nf\n%s\n.fi\n.RE\n", escape(strings.Trim(lines, "\n")))
}

// Item adds an entry of a list: a name in bold, its argument in italics, and its text.
func (p *Page) Item(name, argument, text string) {
	fmt.Fprintf(&p.b, ".TP\n\\fB%s\\fR", escape(name))
	if argument != "" {
		fmt.Fprintf(&p.b, " \\fI%s\\fR", escape(argument))
	}
	p.b.WriteString("\n" + escape(text) + "\n")
}

// String returns the page as the source of a manual page.
func (p *Page) String() string { return p.b.String() }

// escape makes text literal: a backslash and a leading dot or quote are no requests.
func escape(text string) string {
	lines := strings.Split(strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

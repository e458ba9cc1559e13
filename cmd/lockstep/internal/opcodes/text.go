package opcodes

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/core/answer"
)

func opcodeTable(opcodes []Opcode, width int) string {
	rows := make([]table.Row, 0, len(opcodes))
	for _, o := range opcodes {
		var required []string
		for _, p := range o.Params {
			if p.Required {
				required = append(required, p.Name)
			}
		}
		rows = append(rows, table.Row{
			term.Visible(o.Name),
			o.kind(),
			term.OrDash(term.Visible(strings.Join(required, ", "))),
			term.OrDash(term.Visible(o.Doc)),
		})
	}
	return term.TextTable(table.Row{"Opcode", "Kind", "Required", "Doc"}, rows, []int{2, 3}, width)
}

// printOpcode prints an opcode as text.
func printOpcode(globals *cli.Globals, o Opcode) {
	out, colours := globals.Streams.Out, globals.Palette()
	fmt.Fprintln(out, colours.Title(o.Name))
	switch {
	case o.Defined:
		fmt.Fprintln(out, "declared in a file of the daemon")
	case o.Runs:
		fmt.Fprintln(out, o.kind())
	default:
		fmt.Fprintln(out, "an opcode of Ganeti without an executor in this daemon: it cannot be submitted")
	}
	if o.Doc != "" {
		fmt.Fprintln(out)
		for line := range strings.SplitSeq(strings.TrimRight(o.Doc, "\n"), "\n") {
			fmt.Fprintln(out, term.Visible(line))
		}
	}
	if len(o.Params) > 0 {
		fmt.Fprintf(out, "\n%s\n", paramTable(o.Params, globals.Streams.Width))
	}
	if !o.Runs {
		return
	}
	fmt.Fprintf(out, "\n%s\n  %s\n", colours.Title(`Example of a file for "lockstep submit"`), term.Visible(o.example()))
}

// paramTable shows the parameters of an opcode as a table, at most width columns wide, or as blocks if that is too narrow. It omits the
// column for the documentation if no parameter has one.
func paramTable(params []answer.OpcodeParam, width int) string {
	documented := slices.ContainsFunc(params, func(p answer.OpcodeParam) bool { return p.Doc != "" })
	header, wide := table.Row{"Parameter", "Required", "Secret", "Default", "Type"}, []int{3, 4}
	if documented {
		header, wide = append(header, "Doc"), append(wide, len(header))
	}
	yes := map[bool]string{true: "yes", false: "-"}
	rows := make([]table.Row, 0, len(params))
	for _, p := range params {
		standard := "-"
		if !p.Required {
			standard = cli.RawText(p.Default)
		}
		row := table.Row{term.Visible(p.Name), yes[p.Required], yes[p.Secret], standard, term.Visible(p.Type)}
		if documented {
			row = append(row, term.OrDash(term.Visible(p.Doc)))
		}
		rows = append(rows, row)
	}
	if width > 0 && width < term.MinWidth(header, rows, nil, nil) {
		return paramBlocks(params, width)
	}
	return term.TextTable(header, rows, wide, width)
}

// paramBlocks shows each parameter in separate lines, for a terminal that is too narrow for the
// table: types are sentences and must not be cut.
func paramBlocks(params []answer.OpcodeParam, width int) string {
	const indent = "    "
	var b strings.Builder
	for _, p := range params {
		marks := " (default " + cli.RawText(p.Default) + ")"
		if p.Required {
			marks = " (required)"
		}
		if p.Secret {
			marks += " (secret)"
		}
		b.WriteString(term.Visible(p.Name) + marks + "\n")
		for _, part := range []string{p.Type, p.Doc} {
			if part == "" {
				continue
			}
			for line := range strings.SplitSeq(text.WrapSoft(term.Visible(part), max(width-len(indent), term.CellMin)), "\n") {
				b.WriteString(indent + strings.TrimRight(line, " ") + "\n")
			}
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// example is a job of the opcode with the required parameters, as JSON.
func (o Opcode) example() string {
	members := []string{`"OP_ID": ` + jsonWord(o.Name)}
	for _, p := range o.Params {
		if p.Required {
			members = append(members, jsonWord(p.Name)+": "+exampleOf(strings.ToUpper(p.Name), p.Type))
		}
	}
	return "[{" + strings.Join(members, ", ") + "}]"
}

// exampleOf is a JSON value of a type, given as the daemon's text for it (see core/opcode); for
// any string it is the placeholder.
func exampleOf(placeholder, words string) string {
	words = strings.TrimPrefix(words, "null or ")
	if rest, ok := strings.CutPrefix(words, "a list, each element "); ok {
		return "[" + exampleOf(placeholder, rest) + "]"
	}
	if rest, ok := strings.CutPrefix(words, "a list of "); ok {
		return exampleList(placeholder, rest)
	}
	if choice := strings.TrimPrefix(words, "one of "); strings.HasPrefix(choice, `"`) {
		if first, err := strconv.QuotedPrefix(choice); err == nil {
			return first
		}
	}
	for _, known := range []struct{ beginning, example string }{
		{"a list", "[]"},
		{"an object", "{}"},
		{"true or false", "false"},
		{"an integer", "1"},
		{"a number", "1"},
		{"a job id", "1"},
		{"an IPv4 network", `"192.0.2.0/24"`},
		{"an IPv6 network", `"2001:db8::/32"`},
		{"an IPv4 address", `"192.0.2.1"`},
		{"an IPv6 address", `"2001:db8::1"`},
		{"an absolute path", jsonWord("/" + placeholder)},
		{"the name of a lock", jsonWord("node/" + placeholder)},
	} {
		if strings.HasPrefix(words, known.beginning) {
			return known.example
		}
	}
	return jsonWord(placeholder)
}

// exampleList handles "3 elements: a string; an integer; null" and "at least one string".
func exampleList(placeholder, words string) string {
	number, types, fixed := strings.Cut(words, " elements: ")
	count, err := strconv.Atoi(number)
	if !fixed || err != nil {
		return "[" + jsonWord(placeholder) + "]"
	}
	elements := strings.SplitN(types, "; ", count) // the last may be such a list itself
	for i, element := range elements {
		elements[i] = exampleOf(placeholder, element)
	}
	return "[" + strings.Join(elements, ", ") + "]"
}

func jsonWord(text string) string {
	encoded, err := json.Marshal(text)
	if err != nil {
		return `""` // not reached: every string can be encoded
	}
	return string(encoded)
}

package crontab

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// split divides what follows the times, as Vixie's cron does: the command goes up to the first %, the rest is its input with further %
// as ends of lines. A backslash before a % makes it a plain character.
func split(text string) (command, input string) {
	var out []byte
	escaped := false
	for i, c := range []byte(text) {
		switch {
		case c == '%' && !escaped:
			return string(out), inputOf(text[i+1:])
		case c == '%': // without its backslash
			out = out[:len(out)-1]
		}
		out = append(out, c)
		escaped = c == '\\' && !escaped
	}
	return string(out), ""
}

// inputOf is the input of a command. It ends with the end of a line unless it is empty. Unlike in the command, a backslash that
// follows a backslash is before the next character, too.
func inputOf(text string) string {
	var out strings.Builder
	escaped := false
	for _, c := range []byte(text) {
		switch {
		case escaped && c != '%':
			out.WriteByte('\\')
		case !escaped && c == '%':
			c = '\n'
		}
		if escaped = c == '\\'; !escaped {
			out.WriteByte(c)
		}
	}
	if escaped {
		out.WriteByte('\\')
	}
	if input := out.String(); input == "" || strings.HasSuffix(input, "\n") {
		return input
	}
	return out.String() + "\n"
}

// What a name is made of.
const (
	wordsMax = 3
	wordMax  = 30
	nameless = "cron"
)

// plain are words that tell nothing of what a command does.
var plain = strings.Fields("[ bash cd command do else env exec fi flock if ionice nice null sh sleep sudo test then timeout")

// name makes a name of the first words of a command that tell what it does, and adds a number if the file has it already.
func (r *reader) name(command string) string {
	command, _, _ = strings.Cut(command, ">")
	var parts []string
	for _, word := range strings.FieldsFunc(command, func(c rune) bool { return strings.ContainsRune(" \t;&|(){}<>\"'`", c) }) {
		if strings.ContainsAny(word[:1], "-!") || strings.Contains(word, "=") || word[0] == '$' && !strings.Contains(word, "/") {
			continue // an option or a variable
		}
		if word = part(word); word != "" && !slices.Contains(plain, word) && len(parts) < wordsMax {
			parts = append(parts, word)
		}
	}
	name := strings.Join(parts, "-")
	if strings.Trim(name, "0123456789") == "" {
		name = strings.TrimSuffix(nameless+"-"+name, "-")
	}
	unique := name
	for r.names[unique] > 0 {
		r.names[name]++
		unique = fmt.Sprintf("%s-%d", name, r.names[name])
	}
	r.names[unique] = 1
	return unique
}

// part is a word with the characters of a name only: the last part of a path.
func part(word string) string {
	word = strings.Map(func(c rune) rune {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_':
			return c
		}
		return '-'
	}, path.Base(word))
	return strings.Trim(word[:min(len(word), wordMax)], ".-")
}

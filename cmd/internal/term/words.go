package term

import (
	"fmt"
	"strings"
)

// OrDash is the text, or a dash for "".
func OrDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// Count is a number with its noun: "1 job", "2 jobs".
func Count[N int | int64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Enumerate joins words for a sentence: "a", "a and b", "a, b and c".
func Enumerate(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " " + last + " " + words[len(words)-1]
}

// FirstFew joins at most the given number of words with commas, and adds the number of the others.
func FirstFew(words []string, most int) string {
	if len(words) <= most {
		return strings.Join(words, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(words[:most], ", "), len(words)-most)
}

// AfterColon is the end of a sentence: a colon with the text and a full stop, or a full stop for "".
func AfterColon(text string) string {
	text = strings.TrimRight(Visible(text), ".")
	if text == "" {
		return "."
	}
	return ": " + text + "."
}

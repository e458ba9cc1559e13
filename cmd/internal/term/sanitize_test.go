package term

import (
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

func TestVisible(t *testing.T) {
	tests := []struct{ in, want string }{
		{"plain ä 日本 👍", "plain ä 日本 👍"},
		{"a\nb\tc", `a\nb\tc`},
		{"\x1b[31mred", `\x1b[31mred`},
		{"\u009b2J", `\u009b2J`},
		{"\u202eabc", `\u202eabc`},
		{"it's \"quoted\" \\ ", `it's "quoted" \ `},
		{"bad \xff", "bad \ufffd"},
	}
	for _, test := range tests {
		if got := Visible(test.in); got != test.want {
			t.Errorf("visible(%q) = %q, want %q", test.in, got, test.want)
		}
	}
}

func TestStripped(t *testing.T) {
	tests := []struct{ in, want string }{
		{"plain\tä 日本 👨‍👩‍👧\nnext", "plain\tä 日本 👨‍👩‍👧\nnext"},
		{"a\x1b[1;31mb\x1b[0mc", "abc"},
		{"a\x1b[38:2::1:2:3mb", "ab"},
		{"a\u009b31mb", "ab"},
		{"a\x1b]0;title\x07b", "ab"},
		{"a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\b", "alinkb"},
		{"a\x1bPq#0\x1b\\b", "ab"},
		{"a\x1bcb\x1b(Bc", "abc"},
		{"50%\r100%\b\x07", "50%100%"},
		{"\u202eabc\u2066", "abc"},
		// An unfinished sequence does not hide the text after it.
		{"a\x1b]0;no end", "a0;no end"},
		{"a\x1b[31", "a31"},
		{"a\x1b[3\x1b[31mb", "a3b"},
		{"a\x1b", "a"},
		{"a\x1bäb", "aäb"},
		{"a\x1b[31\nb", "a31\nb"},
	}
	for _, test := range tests {
		if got := Stripped(test.in); got != test.want {
			t.Errorf("stripped(%q) = %q, want %q", test.in, got, test.want)
		}
	}
}

// For any input, the output has no sequence that a terminal interprets; harmless text is unchanged.
func TestNothingDangerousGetsThrough(t *testing.T) {
	alphabet := rapid.SampledFrom([]rune("\x1b\x1b[]P\\;0m31J\x07\r\n\t\b\u009b\u009d\u202eaä日"))
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(alphabet).Draw(t, "text"))
		for _, char := range Stripped(text) {
			if dangerous(char) {
				t.Fatalf("stripped(%q) = %q", text, Stripped(text))
			}
		}
		for _, char := range Visible(text) {
			if !unicode.IsPrint(char) {
				t.Fatalf("visible(%q) = %q", text, Visible(text))
			}
		}
		harmless := strings.Map(func(r rune) rune {
			if dangerous(r) {
				return -1
			}
			return r
		}, text)
		if got := Stripped(harmless); got != harmless {
			t.Fatalf("stripped(%q) = %q", harmless, got)
		}
	})
}

func TestShortened(t *testing.T) {
	if got := Shortened("äöü", 3); got != "äöü" {
		t.Error(got)
	}
	if got := Shortened("äöüx", 3); got != "äöü… (7 bytes in all)" {
		t.Error(got)
	}
}

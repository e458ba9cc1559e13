// Package natural orders names as people do: node2 before node10.
package natural

import (
	"cmp"
	"strings"
)

// Compare orders two names run by run. A run is the longest sequence of digits, or of other bytes. Runs of digits are
// compared as numbers and come before other runs. Equal numbers with different leading zeros are ordered as text, so
// only equal names compare as 0.
func Compare(a, b string) int {
	for a != "" && b != "" {
		x, y := firstRun(a), firstRun(b)
		if order := compareRuns(x, y); order != 0 {
			return order
		}
		a, b = a[len(x):], b[len(y):]
	}
	return cmp.Compare(len(a), len(b))
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// firstRun is the first run of s, which must not be empty.
func firstRun(s string) string {
	end := 1
	for end < len(s) && isDigit(s[end]) == isDigit(s[0]) {
		end++
	}
	return s[:end]
}

func compareRuns(x, y string) int {
	switch a, b := isDigit(x[0]), isDigit(y[0]); {
	case a && b:
		n, m := strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
		return cmp.Or(cmp.Compare(len(n), len(m)), strings.Compare(n, m), strings.Compare(x, y))
	case a:
		return -1
	case b:
		return 1
	}
	return strings.Compare(x, y)
}

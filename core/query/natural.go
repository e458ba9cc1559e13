package query

import (
	"cmp"
	"strings"
)

// CompareNatural orders names as people do: runs of digits are numbers, and come before text.
func CompareNatural(a, b string) int {
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

// firstRun is the longest beginning of s, which is not empty, that is all digits or has none.
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

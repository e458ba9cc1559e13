package query

import (
	"bytes"
	"cmp"
	"math"
	"strconv"
)

// CompareNumber compares a JSON number with n exactly, for any number of digits and any exponent. It is negative if the
// JSON number is less, 0 if they are equal.
func CompareNumber(spelled []byte, n int64) int {
	if m, ok := shortInteger(spelled); ok {
		return cmp.Compare(m, n)
	}
	var digits [20]byte // the least int64 is the longest, with its sign
	return decimalOf(spelled).compare(decimalOf(strconv.AppendInt(digits[:0], n, 10)))
}

// IsWhole reports whether a JSON number has no fraction: 5, 5.0 and 0.5e1 have none.
func IsWhole(spelled []byte) bool {
	if _, ok := shortInteger(spelled); ok {
		return true
	}
	d := decimalOf(spelled)
	return d.point >= len(d.digits)
}

// shortInteger reads a number of a sign and so few digits that it cannot overflow. ok is false for any other spelling.
func shortInteger(spelled []byte) (n int64, ok bool) {
	digits := spelled
	if len(digits) > 0 && digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) == 0 || len(digits) > 18 {
		return 0, false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if len(digits) < len(spelled) {
		n = -n
	}
	return n, true
}

// decimal is a number in its unique form ±0.digits·10^point. The first and last digit are not 0. Zero has no digits.
type decimal struct {
	negative bool
	digits   []byte
	point    int
}

// exponentMax exceeds any number of digits, and is far from an overflow.
const exponentMax = 1 << 40

// decimalOf reads a JSON number.
func decimalOf(spelled []byte) decimal {
	d := decimal{digits: make([]byte, 0, len(spelled))}
	mantissa, exponent := spelled, 0
	if i := bytes.IndexAny(spelled, "eE"); i >= 0 {
		mantissa, exponent = spelled[:i], exponentOf(spelled[i+1:])
	}
	fraction := false
	for _, c := range mantissa {
		switch c {
		case '-':
			d.negative = true
		case '.':
			fraction = true
		default:
			d.digits = append(d.digits, c)
			if !fraction {
				d.point++
			}
		}
	}
	significant := bytes.TrimLeft(d.digits, "0")
	d.point += exponent - (len(d.digits) - len(significant))
	d.digits = bytes.TrimRight(significant, "0")
	if len(d.digits) == 0 {
		return decimal{}
	}
	return d
}

func exponentOf(spelled []byte) int {
	exponent := 0
	for _, c := range spelled {
		if c >= '0' && c <= '9' && exponent < exponentMax/10 {
			exponent = exponent*10 + int(c-'0')
		}
	}
	if len(spelled) > 0 && spelled[0] == '-' {
		return -exponent
	}
	return exponent
}

func (d decimal) sign() int {
	switch {
	case len(d.digits) == 0:
		return 0
	case d.negative:
		return -1
	}
	return 1
}

func (d decimal) compare(e decimal) int {
	if d.sign() != e.sign() {
		return cmp.Compare(d.sign(), e.sign())
	}
	return d.sign() * cmp.Or(cmp.Compare(d.point, e.point), bytes.Compare(d.digits, e.digits))
}

// wholeNumber reads a JSON number. whole is false if it has a fraction; fits is false if it is whole but exceeds int64.
func wholeNumber(spelled string) (n int64, whole, fits bool) {
	if n, err := strconv.ParseInt(spelled, 10, 64); err == nil {
		return n, true, true
	}
	d := decimalOf([]byte(spelled))
	if d.point < len(d.digits) {
		return 0, false, false
	}
	if d.point > 19 {
		return 0, true, false
	}
	digits := append(d.digits, bytes.Repeat([]byte{'0'}, d.point-len(d.digits))...)
	if len(digits) == 0 {
		return 0, true, true
	}
	if d.negative {
		digits = append([]byte{'-'}, digits...)
	}
	n, err := strconv.ParseInt(string(digits), 10, 64)
	return n, true, err == nil
}

// compareFloat compares f, which is not NaN, with n, exactly.
func compareFloat(f float64, n int64) int {
	switch {
	case f >= 1<<63:
		return 1
	case f < -1<<63:
		return -1
	}
	whole := math.Trunc(f)
	return cmp.Or(cmp.Compare(int64(whole), n), cmp.Compare(f, whole))
}

package model

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"lockstep/core/rawjson"
)

// codec decodes and encodes values of one type. decode gets one well-formed JSON value without surrounding white space;
// append writes Ganeti's form (config.md 1.2).
type codec[V any] struct {
	decode func(raw []byte) (V, error)
	append func(dst []byte, v V) []byte
}

// Errors about values of a wrong type.
var (
	errBool   = errors.New("Unable to read Bool")
	errInt    = errors.New("Unable to read Int")
	errDouble = errors.New("Unable to read Double")
	errString = errors.New("Unable to read String")
	errObject = errors.New("Unable to read JSObject")
	errList   = errors.New("Unable to read List")
	errSize   = errors.New("Number is too large")
)

var (
	boolean = codec[bool]{decodeBool, strconv.AppendBool}
	integer = codec[int64]{DecodeInt, func(dst []byte, v int64) []byte { return strconv.AppendInt(dst, v, 10) }}
	double  = codec[float64]{decodeDouble, AppendDouble}
	moment  = codec[Time]{decodeTime, AppendTime}
	text    = codec[string]{DecodeText, AppendText}
	anyJSON = codec[JSON]{decodeJSON, func(dst []byte, v JSON) []byte { return append(dst, v...) }}
)

// JSON is a value of any type in Ganeti's form.
type JSON []byte

// Time is in seconds since the epoch. Times are compared for equality only (config.md 12.17).
type Time float64

func decodeBool(raw []byte) (bool, error) {
	switch string(raw) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, errBool
}

// number is an exact decimal number: digits × 10^exponent. digits has no leading or trailing zeros; it is empty for zero.
type number struct {
	negative bool
	digits   string
	exponent int
}

// digitsMax is the maximum length of an integer without exponent.
const digitsMax = 1000

// parseNumber parses a well-formed number. ok is false if raw is not a number.
func parseNumber(raw []byte) (n number, ok bool) {
	s := string(raw)
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') {
		return n, false
	}
	s, n.negative = strings.CutPrefix(s, "-")
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		exponent, err := strconv.Atoi(s[i+1:])
		if err != nil || exponent > 1<<20 || exponent < -1<<20 {
			exponent = 1 << 20 // exceeds digitsMax
		}
		s, n.exponent = s[:i], exponent
	}
	whole, fraction, _ := strings.Cut(s, ".")
	digits := strings.TrimRight(whole+fraction, "0")
	n.exponent += len(whole) - len(digits)
	n.digits = strings.TrimLeft(digits, "0")
	if n.digits == "" {
		n = number{}
	}
	return n, true
}

func (n number) isInteger() bool { return n.exponent >= 0 }

// integerText returns an integer without exponent, or "" if it exceeds digitsMax.
func (n number) integerText() string {
	if len(n.digits)+n.exponent > digitsMax {
		return ""
	}
	sign := ""
	if n.negative {
		sign = "-"
	}
	if n.digits == "" {
		return "0"
	}
	return sign + n.digits + strings.Repeat("0", n.exponent)
}

// DecodeInt decodes an integer. It rejects fractions and values that exceed 64 bits (config.md 1.1).
func DecodeInt(raw []byte) (int64, error) {
	if v, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return v, nil
	}
	n, ok := parseNumber(raw)
	if !ok || !n.isInteger() {
		return 0, errInt
	}
	v, err := strconv.ParseInt(n.integerText(), 10, 64)
	if err != nil {
		return 0, errInt
	}
	return v, nil
}

func decodeDouble(raw []byte) (float64, error) {
	if _, ok := parseNumber(raw); !ok {
		return 0, errDouble
	}
	v, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return 0, errDouble
	}
	return v, nil
}

// AppendDouble writes a number as Ganeti does: an integer without point and exponent; another number with the fewest digits
// that identify it, with an exponent below 0.1 and from 10^7 on.
func AppendDouble(dst []byte, v float64) []byte {
	switch size := math.Abs(v); {
	case v == 0:
		return append(dst, '0')
	case v == math.Trunc(v):
		return strconv.AppendFloat(dst, v, 'f', 0, 64)
	case size >= 0.1 && size < 1e7:
		return strconv.AppendFloat(dst, v, 'f', -1, 64)
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', -1, 64), "e")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	e, _ := strconv.Atoi(exponent)
	return strconv.AppendInt(append(append(dst, mantissa...), 'e'), int64(e), 10)
}

// appendNumber writes a JSON number of any size in Ganeti's form: an integer without fraction and exponent, anything else as a double.
// The error is errSize for an integer of too many digits.
func appendNumber(dst, raw []byte) ([]byte, error) {
	if !bytes.ContainsAny(raw, ".eE") && len(raw) < digitsMax && string(raw) != "-0" {
		return append(dst, raw...), nil
	}
	n, _ := parseNumber(raw)
	if n.isInteger() {
		digits := n.integerText()
		if digits == "" {
			return nil, errSize
		}
		return append(dst, digits...), nil
	}
	v, err := decodeDouble(raw)
	return AppendDouble(dst, v), err
}

// picoseconds is the resolution of times. It is coarser than a double only within hours of the epoch.
const picoseconds = 1e12

func decodeTime(raw []byte) (Time, error) {
	v, err := decodeDouble(raw)
	if math.Abs(v) < 9000 {
		v = math.Round(v*picoseconds) / picoseconds
	}
	return Time(v), err
}

// AppendTime writes a time as a number.
func AppendTime(dst []byte, v Time) []byte { return AppendDouble(dst, float64(v)) }

// DecodeText decodes a string. It rejects unpaired surrogates, which UTF-8 cannot represent.
func DecodeText(raw []byte) (string, error) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", errString
	}
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), nil
	}
	s, err := rawjson.ReadText(raw)
	if err != nil {
		return "", errString
	}
	if strings.Count(s, "\ufffd") > bytes.Count(inner, []byte("\ufffd"))+bytes.Count(bytes.ToLower(inner), []byte(`\ufffd`)) {
		return "", errString
	}
	return s, nil
}

// AppendText writes a string as raw UTF-8. It escapes only quotes, backslashes and control characters.
func AppendText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c >= ' ':
			dst = append(dst, c)
		case strings.IndexByte("\b\f\n\r\t", c) >= 0:
			dst = append(dst, '\\', "bfnrt"[strings.IndexByte("\b\f\n\r\t", c)])
		default:
			dst = fmt.Appendf(dst, `\u%04x`, c)
		}
	}
	return append(dst, '"')
}

// CheckUTF8 rejects invalid UTF-8.
func CheckUTF8(raw []byte) error {
	if !utf8.Valid(raw) {
		return errors.New("Invalid UTF-8")
	}
	return nil
}

func decodeJSON(raw []byte) (JSON, error) {
	v, err := appendJSON(make([]byte, 0, len(raw)), raw)
	return v, err
}

// appendJSON writes any value in Ganeti's form. Members of objects keep their order.
func appendJSON(dst, raw []byte) ([]byte, error) {
	if len(raw) == 0 {
		return nil, errObject
	}
	switch raw[0] {
	case '"':
		s, err := DecodeText(raw)
		return AppendText(dst, s), err
	case '{', '[':
		return appendNested(dst, raw)
	case 't', 'f', 'n':
		return append(dst, raw...), nil
	}
	return appendNumber(dst, raw)
}

func appendNested(dst, raw []byte) ([]byte, error) {
	var bad error
	keep := func(value []byte, err error) {
		if err != nil {
			bad = err
		} else {
			dst = append(value, ',')
		}
	}
	opening := raw[0]
	dst = append(dst, opening)
	var err error
	if opening == '[' {
		err = rawjson.ReadList(raw, func(value []byte) { keep(appendJSON(dst, value)) })
	} else {
		err = rawjson.ReadObject(raw, func(key, value []byte) { keep(appendJSON(append(AppendText(dst, string(key)), ':'), value)) })
	}
	if err = errors.Join(err, bad); err != nil {
		return nil, err
	}
	return closeWith(dst, opening), nil
}

// closeWith ends a list or object with the bracket that matches opening. The bracket replaces the last comma, if there is one.
func closeWith(dst []byte, opening byte) []byte {
	closing := opening + 2 // in ASCII
	if last := len(dst) - 1; dst[last] == ',' {
		dst[last] = closing
		return dst
	}
	return append(dst, closing)
}

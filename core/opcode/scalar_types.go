package opcode

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"strconv"

	"lockstep/core/demand"
	"lockstep/core/rawjson"
)

// scalarType is a type without parts.
type scalarType struct {
	description string
	accepts     func(v json.RawMessage) bool
	ganeti      func(v json.RawMessage) string // Ganeti's text for a mismatch; nil if unknown
	showValue   bool                           // errors may repeat the value, which is a single word
	hint        func(v json.RawMessage) string // what the client may have meant by a value that is shown, "" if unknown; may be nil
}

func (t *scalarType) String() string { return t.description }

func (t *scalarType) check(v json.RawMessage) *mismatch {
	if t.accepts(v) {
		return nil
	}
	m := mismatchOf(t, v)
	if t.showValue {
		m.found = shown(v)
		if t.hint != nil && t.hint(v) != "" {
			m.found += ": " + t.hint(v)
		}
	}
	if t.ganeti != nil {
		m.ganeti = t.ganeti(v)
	}
	return m
}

// The types that Ganeti's parameters are made of.
var (
	null           = &scalarType{description: "null", accepts: rawjson.IsNull}
	anything       = &scalarType{description: "any value", accepts: func(json.RawMessage) bool { return true }}
	text           = &scalarType{description: "a string", accepts: rawjson.IsString}
	nonEmptyText   = &scalarType{description: "a non-empty string", accepts: isNonEmptyString}
	boolean        = &scalarType{description: "true or false", accepts: isBoolean}
	integer        = &scalarType{description: "an integer (of at most 64 bits, without fraction or exponent)", accepts: isInteger}
	nonNegativeInt = &scalarType{description: "an integer of at least 0", accepts: isNonNegativeInteger}
	positiveInt    = &scalarType{description: "an integer greater than 0", accepts: isPositiveInteger}
	float          = &scalarType{description: "a number (in the range of a double)", accepts: isFloat, ganeti: unreadableDouble}
	ipv4Address    = &scalarType{description: "an IPv4 address", accepts: isIPv4Address, showValue: true}
	ipv6Address    = &scalarType{description: "an IPv6 address", accepts: isIPv6Address, showValue: true}
	ipv4Network    = &scalarType{description: "an IPv4 network as 192.0.2.0/24", accepts: isIPv4Network, showValue: true}
	ipv6Network    = &scalarType{description: "an IPv6 network as 2001:db8::/32", accepts: isIPv6Network, showValue: true}
)

// The types that OP_RUN_COMMAND needs in addition.
var (
	commandLine    = &scalarType{description: "a list of at least one string, the first not empty, none with NUL", accepts: isCommandLine}
	variableName   = &scalarType{description: "a non-empty string without '=' and NUL", accepts: isVariableName}
	textWithoutNUL = &scalarType{description: "a string without NUL", accepts: isTextWithoutNUL}
	absolutePath   = &scalarType{description: "an absolute path (a string that begins with /, without NUL)", accepts: isAbsolutePath}
	lockNameType   = &scalarType{description: demand.LockNameDescription, accepts: demand.IsLockName, hint: demand.LockNameHint,
		showValue: true}
	seconds = &scalarType{description: "a number of seconds greater than 0 and at most 1000000000", accepts: isSeconds}
)

// secondsMax is the longest time-out of a command, about 31 years. In nanoseconds it fits into 64 bits.
const secondsMax = 1e9

// scalarTypeOf finds a scalar type by the name that type expressions use for it; ok is false for any other name.
func scalarTypeOf(name string) (t *scalarType, ok bool) {
	switch name {
	case "None":
		return null, true
	case "Anything":
		return anything, true
	case "String":
		return text, true
	case "NonEmptyString":
		return nonEmptyText, true
	case "Boolean":
		return boolean, true
	case "Integer":
		return integer, true
	case "EqualOrGreaterThanZero":
		return nonNegativeInt, true
	case "GreaterThanZero":
		return positiveInt, true
	case "Float":
		return float, true
	case "IPv4Address":
		return ipv4Address, true
	case "IPv6Address":
		return ipv6Address, true
	case "IPv4Network":
		return ipv4Network, true
	case "IPv6Network":
		return ipv6Network, true
	case "CommandLine":
		return commandLine, true
	case "VariableName":
		return variableName, true
	case "TextWithoutNUL":
		return textWithoutNUL, true
	case "AbsolutePath":
		return absolutePath, true
	case "LockName":
		return lockNameType, true
	case "Seconds":
		return seconds, true
	}
	return nil, false
}

// parseInteger reads an integer without fraction and exponent: Ganeti refuses 1.0 for an integer (queue.md 1.4). The result is false for
// any other value.
func parseInteger(v json.RawMessage) (int64, bool) {
	n, err := strconv.ParseInt(string(v), 10, 64)
	return n, err == nil
}

// parseFloat reads any JSON number; false for a value that is none, or out of range.
func parseFloat(v json.RawMessage) (float64, bool) {
	if len(v) == 0 || v[0] != '-' && (v[0] < '0' || v[0] > '9') {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(v), 64)
	return f, err == nil
}

func isNonEmptyString(v json.RawMessage) bool { return rawjson.IsString(v) && len(v) > len(`""`) }

func isBoolean(v json.RawMessage) bool { return string(v) == "true" || string(v) == "false" }

func isInteger(v json.RawMessage) bool {
	_, ok := parseInteger(v)
	return ok
}

func isNonNegativeInteger(v json.RawMessage) bool {
	n, ok := parseInteger(v)
	return ok && n >= 0
}

func isPositiveInteger(v json.RawMessage) bool {
	n, ok := parseInteger(v)
	return ok && n > 0
}

func isFloat(v json.RawMessage) bool {
	_, ok := parseFloat(v)
	return ok
}

func unreadableDouble(json.RawMessage) string { return "Unable to read Double" }

func isIPv4Address(v json.RawMessage) bool {
	addr, err := netip.ParseAddr(string(rawjson.Unquote(v)))
	return err == nil && addr.Is4()
}

// isIPv6Address reports whether a value is the text of an IPv6 address without a zone: one with a zone is valid only on one machine.
func isIPv6Address(v json.RawMessage) bool {
	addr, err := netip.ParseAddr(string(rawjson.Unquote(v)))
	return err == nil && addr.Is6() && addr.Zone() == ""
}

func isIPv4Network(v json.RawMessage) bool {
	network, err := netip.ParsePrefix(string(rawjson.Unquote(v)))
	return err == nil && network.Addr().Is4()
}

func isIPv6Network(v json.RawMessage) bool {
	network, err := netip.ParsePrefix(string(rawjson.Unquote(v)))
	return err == nil && network.Addr().Is6()
}

func isCommandLine(v json.RawMessage) bool {
	count := 0
	for arg := range rawjson.Elements(v) {
		if !isTextWithoutNUL(arg) || count == 0 && !isNonEmptyString(arg) {
			return false
		}
		count++
	}
	return count > 0
}

func isTextWithoutNUL(v json.RawMessage) bool {
	return rawjson.IsString(v) && bytes.IndexByte(rawjson.Unquote(v), 0) < 0
}

func isVariableName(v json.RawMessage) bool {
	return isNonEmptyString(v) && isTextWithoutNUL(v) && bytes.IndexByte(rawjson.Unquote(v), '=') < 0
}

func isAbsolutePath(v json.RawMessage) bool {
	return isTextWithoutNUL(v) && bytes.HasPrefix(rawjson.Unquote(v), []byte("/"))
}

func isSeconds(v json.RawMessage) bool {
	s, ok := parseFloat(v)
	return ok && s > 0 && s <= secondsMax
}

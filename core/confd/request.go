package confd

import (
	"strconv"

	"lockstep/core/rawjson"
)

// request is a question to ConfD whose form is right (confd.md 2): its kind, its argument, and the salt of the answer.
type request struct {
	kind  Type
	query query
	salt  string // of the answer
}

// query is the argument of a request: absent, a text, or an object.
type query struct {
	form form
	text string

	link, ip       string
	hasLink, hasIP bool
	ips            []string
	fields         []int
}

// form says whether the argument of a query is absent, a text, or an object.
type form uint8

const (
	formNone form = iota
	formText
	formObject
)

// Fields of the answer to ClusterMaster.
const (
	fieldName = iota
	fieldClusterIP
	fieldPrimaryIP

	fields = iota
)

// parseRequest reads a request. It reports false for every defect of its form: an unknown or repeated key, a value of the wrong type, or
// a missing protocol, type or rsalt.
func parseRequest(msg []byte) (r request, valid bool) {
	s := rawjson.NewScanner(msg)
	seen := map[string]bool{}
	for more, err := s.Enter('{'); more || err != nil; more, err = s.Next('{') {
		if err != nil {
			return r, false
		}
		key, err := s.Key()
		if err != nil || seen[string(key)] {
			return r, false
		}
		seen[string(key)] = true
		value, err := s.Value()
		if err != nil || !r.set(string(key), value) {
			return r, false
		}
	}
	return r, s.End() == nil && seen["protocol"] && seen["type"] && seen["rsalt"]
}

// set takes one member of the request's object, and reports whether the member has the form of its key.
func (r *request) set(key string, value []byte) (valid bool) {
	switch key {
	case "protocol":
		return isNumber(value)
	case "type":
		number, is := integer(value)
		r.kind = Type(number)
		return is && number >= 0 && number < types
	case "rsalt":
		r.salt = string(rawjson.Unquote(value))
		return rawjson.IsString(value)
	case "query":
		return r.query.set(value)
	}
	return false
}

func (q *query) set(value []byte) (valid bool) {
	switch {
	case rawjson.IsNull(value):
		return true
	case rawjson.IsString(value):
		q.form, q.text = formText, string(rawjson.Unquote(value))
		return true
	case rawjson.IsObject(value):
		q.form, valid = formObject, true
		seen := map[string]bool{}
		for quoted, option := range rawjson.Members(value) {
			key := string(rawjson.Unquote(quoted))
			valid = valid && !seen[key] && q.setOption(key, option)
			seen[key] = true
		}
		return valid
	}
	return false
}

// setOption takes one option of a query that is an object. null means that the option is absent. valid is false for an unknown option and
// for a value of another type.
func (q *query) setOption(key string, value []byte) (valid bool) {
	absent := rawjson.IsNull(value)
	switch key {
	case "0":
		q.hasLink, q.link = !absent, string(rawjson.Unquote(value))
		return absent || rawjson.IsString(value)
	case "1":
		q.hasIP, q.ip = !absent, string(rawjson.Unquote(value))
		return absent || rawjson.IsString(value)
	case "2":
		valid = absent || isList(value)
		for ip := range rawjson.Elements(value) {
			valid = valid && rawjson.IsString(ip)
			q.ips = append(q.ips, string(rawjson.Unquote(ip)))
		}
		return valid
	case "3":
		valid = absent || isList(value)
		for f := range rawjson.Elements(value) {
			number, is := integer(f)
			valid = valid && is && number >= 0 && number < fields
			q.fields = append(q.fields, int(number))
		}
		return valid
	}
	return false
}

func isList(value []byte) bool { return len(value) > 0 && value[0] == '[' }

func isNumber(value []byte) bool {
	return len(value) > 0 && (value[0] == '-' || value[0] >= '0' && value[0] <= '9')
}

// integer reads a number without a fractional part, also if it is written with a point or an exponent.
func integer(value []byte) (number int64, valid bool) {
	if number, valid = rawjson.ParseInt(value); valid || !isNumber(value) {
		return number, valid
	}
	const exact = 1 << 53 // beyond it a float64 stands for several integers
	float, err := strconv.ParseFloat(string(value), 64)
	if err != nil || !(float > -exact && float < exact) || float != float64(int64(float)) {
		return 0, false
	}
	return int64(float), true
}

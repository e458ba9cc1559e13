package rapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"lockstep/edge/admission"
	"lockstep/edge/tlsserver"
)

// Bounds of what clients send.
const (
	bodyMax = 10 << 20 // bytes, as Ganeti's
)

// errBadJSON has Ganeti's text.
var errBadJSON = &Failure{Code: http.StatusBadRequest, Message: "Unable to parse JSON data"}

// readBody reads the JSON of a request; nil if there is none. allowed: the operation takes a body.
func readBody(q *tlsserver.Request, r *http.Request, allowed bool) (raw, error) {
	if tlsserver.HasBody(r) && !allowed {
		return nil, newFailure(http.StatusBadRequest, "This request has no body")
	}
	data, err := q.ReadBody(r, bodyMax)
	switch {
	case err != nil:
		return nil, asBodyFailure(err)
	case len(data) == 0:
		return nil, nil
	case !isJSONType(r.Header.Get("Content-Type")):
		return nil, newFailure(http.StatusUnsupportedMediaType,
			"The Content-Type of a request with a body must be application/json, without parameters")
	case !utf8.Valid(data) || !json.Valid(data):
		return nil, errBadJSON
	}
	return data, nil
}

// errTooLarge names the bound.
var errTooLarge = newFailure(http.StatusRequestEntityTooLarge, "The body may have at most %d bytes", bodyMax)

func asBodyFailure(err error) *Failure {
	switch {
	case errors.Is(err, tlsserver.ErrBodyTooLarge):
		return errTooLarge
	case errors.Is(err, tlsserver.ErrBodyTooSlow):
		return newFailure(http.StatusRequestTimeout, "The body was not sent within %d seconds", tlsserver.BodyTimeout/time.Second)
	case errors.Is(err, admission.ErrBusy):
		return errBusy
	default:
		return newFailure(http.StatusBadRequest, "The body cannot be read")
	}
}

func isJSONType(value string) bool {
	return strings.EqualFold(strings.TrimSpace(value), "application/json")
}

// jsonObject has the keys and values of a JSON object. A duplicate key is refused: otherwise
// the check could see one of the values and the operation the other.
type jsonObject map[string]raw

// parseObject decodes a body that must be a JSON object without repeated keys. A missing body is an error. The errors are for the client.
func parseObject(body raw) (jsonObject, error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	if open, err := decoder.Token(); err != nil || open != json.Delim('{') {
		return nil, newFailure(http.StatusBadRequest, "The body must be a JSON object")
	}
	found := jsonObject{}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return nil, errBadJSON
		}
		name, _ := key.(string) // keys of an object are strings
		var value raw
		if err := decoder.Decode(&value); err != nil {
			return nil, errBadJSON
		}
		if _, duplicate := found[name]; duplicate {
			return nil, newFailure(http.StatusBadRequest, "The body has the key '%s' twice", tlsserver.Truncated(name))
		}
		found[name] = value
	}
	return found, nil
}

// nullable returns a member; nil if it is absent or null.
func (o jsonObject) nullable(name string) raw {
	if value, given := o[name]; given && string(value) != "null" {
		return value
	}
	return nil
}

// allowOnly refuses an object with other keys than these.
func (o jsonObject) allowOnly(names ...string) error {
	for _, key := range o.keys() {
		if !slices.Contains(names, key) {
			return newFailure(http.StatusBadRequest, "Invalid body parameters: there is no parameter '%s'; there are %s",
				tlsserver.Truncated(key), strings.Join(names, ", "))
		}
	}
	return nil
}

func (o jsonObject) keys() []string {
	keys := make([]string, 0, len(o))
	for key := range o {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// parseList returns value if it is a JSON list. The error has Ganeti's text.
func parseList(name string, value raw) (raw, error) {
	if len(value) == 0 || value[0] != '[' {
		return nil, newFailure(http.StatusBadRequest, "The '%s' parameter should be a list", name)
	}
	return value, nil
}

// parseStrings decodes a list of strings, which is the value of a parameter. The error, for the client, has its name.
func parseStrings(name string, value raw) ([]string, error) {
	if _, err := parseList(name, value); err != nil {
		return nil, err
	}
	var elements []*string
	if err := json.Unmarshal(value, &elements); err != nil || slices.Contains(elements, nil) {
		return nil, newFailure(http.StatusBadRequest, "The '%s' parameter should be a list of strings", name)
	}
	all := make([]string, len(elements))
	for i, e := range elements {
		all[i] = *e
	}
	return all, nil
}

// parseInteger decodes a whole number, which is the value of a parameter. The error, for the client, has its name.
func parseInteger(name string, value raw) (int64, error) {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return 0, newFailure(http.StatusBadRequest, "The '%s' parameter should be an integer", name)
	}
	return n, nil
}

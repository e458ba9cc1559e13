package rapi

import (
	"net/http"
	"strings"

	"lockstep/edge/tlsserver"
)

// fieldsArgument is the query argument of that name, nil if there is none.
func (c *call) fieldsArgument() ([]string, error) {
	values := c.URL.Query()["fields"]
	if len(values) == 0 || values[0] == "" {
		return nil, nil
	}
	fields := strings.Split(values[0], ",")
	for i := range fields {
		fields[i] = strings.TrimSpace(fields[i])
	}
	return fields, eachOnce(fields)
}

// eachOnce refuses a field that is there twice: an answer could have the largest one a thousand times.
func eachOnce(fields []string) error {
	seen := map[string]bool{}
	for _, name := range fields {
		if seen[name] {
			return newFailure(http.StatusBadRequest, "The field '%s' is there twice", tlsserver.Truncated(name))
		}
		seen[name] = true
	}
	return nil
}

// errNoFields is Ganeti's.
var errNoFields = &Failure{Code: http.StatusBadRequest, Message: "Missing 'fields' query argument"}

func (s *Server) query(c *call) (any, error) {
	fields, err := c.fieldsArgument()
	if err != nil {
		return nil, err
	}
	if fields == nil {
		return nil, errNoFields
	}
	return s.luxiParts(c, queryClass(c.params["kind"]), "Query", c.params["kind"], fields, nil)
}

// queryFiltered takes fields and filter in its body. Fields in the query count if the body has none.
func (s *Server) queryFiltered(c *call) (any, error) {
	m, err := parseObject(c.body)
	if err != nil {
		return nil, err
	}
	fields, err := c.fieldsArgument()
	if err != nil {
		return nil, err
	}
	if given := m["fields"]; given != nil {
		if fields, err = parseStrings("fields", given); err != nil {
			return nil, err
		}
		if err := eachOnce(fields); err != nil {
			return nil, err
		}
	}
	if fields == nil {
		return nil, errNoFields
	}
	filter := m.nullable("qfilter")
	if filter == nil {
		filter = m.nullable("filter") // its name of old
	}
	return s.luxiParts(c, queryClass(c.params["kind"]), "Query", c.params["kind"], fields, filter)
}

// queryClass is the class of a query for a kind of items.
func queryClass(kind string) Class {
	switch kind {
	case "node", "instance", "export", "group", "network":
		return Live
	}
	return Large
}

func (s *Server) queryFields(c *call) (any, error) {
	given, err := c.fieldsArgument()
	if err != nil {
		return nil, err
	}
	var fields any
	if given != nil {
		fields = given
	}
	return s.luxi(c, Short, "QueryFields", c.params["kind"], fields)
}

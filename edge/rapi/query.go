package rapi

import (
	"net/http"
	"strings"
)

// fieldsArgument is the query argument of that name, nil if there is none.
func (c *call) fieldsArgument() []string {
	values := c.URL.Query()["fields"]
	if len(values) == 0 || values[0] == "" {
		return nil
	}
	fields := strings.Split(values[0], ",")
	for i := range fields {
		fields[i] = strings.TrimSpace(fields[i])
	}
	return fields
}

// errNoFields is Ganeti's.
var errNoFields = &Failure{Code: http.StatusBadRequest, Message: "Missing 'fields' query argument"}

func (s *Server) query(c *call) (any, error) {
	fields := c.fieldsArgument()
	if fields == nil {
		return nil, errNoFields
	}
	return s.luxi(c, queryClass(c.params["kind"]), "Query", c.params["kind"], fields, nil)
}

// queryFiltered takes fields and filter in its body.
func (s *Server) queryFiltered(c *call) (any, error) {
	m, err := parseObject(c.body)
	if err != nil {
		return nil, err
	}
	fields := c.fieldsArgument()
	if given := m["fields"]; given != nil {
		if fields, err = parseStrings("fields", given); err != nil {
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
	return s.luxi(c, queryClass(c.params["kind"]), "Query", c.params["kind"], fields, filter)
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
	var fields any
	if given := c.fieldsArgument(); given != nil {
		fields = given
	}
	return s.luxi(c, Short, "QueryFields", c.params["kind"], fields)
}

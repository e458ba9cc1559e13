package rapi

import (
	"encoding/json"
	"io"
	"net/http"

	"lockstep/core/answer"
	"lockstep/edge/tlsserver"
	"lockstep/messages"
)

// filterFields are the fields of a filter rule.
var filterFields = []string{"watermark", "priority", "predicates", "action", "reason_trail", "uuid"}

func (s *Server) filters(c *call) (any, error) {
	bulk, err := c.flagArgument("bulk")
	if err != nil {
		return nil, err
	}
	fields := []string{"uuid"}
	if bulk {
		fields = filterFields
	}
	rows, err := s.luxi(c, Short, "QueryFilters", nil, fields)
	if err != nil {
		return nil, err
	}
	if bulk {
		return rowsAsObjects(parts{rows}, fields), nil
	}
	return streamedJSON(func(w io.Writer) error {
		return writeRows(w, parts{rows}, func(row []raw) ([]byte, error) {
			var uuid string
			if err := json.Unmarshal(row[0], &uuid); err != nil {
				return nil, err
			}
			return json.Marshal(map[string]string{"uuid": uuid, "uri": "/2/filters/" + uuid})
		})
	}), nil
}

// filter returns one filter rule. An unknown uuid is code 404.
func (s *Server) filter(c *call) (any, error) {
	var rows [][]raw
	err := s.luxiInto(c, &rows, "QueryFilters", []string{c.params["uuid"]}, filterFields)
	if isUnknownEntity(err) || err == nil && (len(rows) == 0 || len(rows[0]) > 0 && string(rows[0][len(rows[0])-1]) == "null") {
		return nil, &Failure{Code: http.StatusNotFound}
	}
	if err != nil {
		return nil, err
	}
	return rowObject(filterFields, rows[0])
}

// isUnknownEntity reports whether a method has failed because its object does not exist.
func isUnknownEntity(err error) bool {
	return hasCode(err, messages.UnknownEntity)
}

func (s *Server) addFilter(c *call) (any, error) { return s.putFilter(c, nil) }

func (s *Server) replaceFilter(c *call) (any, error) { return s.putFilter(c, c.params["uuid"]) }

// putFilter adds or replaces a filter rule, and answers with its uuid; uuid nil: a new rule. Missing parts have their defaults.
func (s *Server) putFilter(c *call, uuid any) (any, error) {
	m, err := parseObject(c.body)
	if err != nil {
		return nil, err
	}
	rule, err := ruleParts(m)
	if err != nil {
		return nil, err
	}
	if string(rule["for"]) == "null" {
		return s.luxi(c, Short, "ReplaceFilter", uuid, rule["priority"], rule["predicates"], rule["action"], rule["reason"])
	}
	var replaced answer.FilterReplaced
	err = s.luxiInto(c, &replaced, "LockstepReplaceFilter", uuid,
		rule["priority"], rule["predicates"], rule["action"], rule["reason"], rule["for"])
	return replaced.UUID, asClientError(err)
}

// rules returns all filter rules as they are stored, in the order in which they apply.
func (s *Server) rules(c *call) (any, error) { return s.luxi(c, Short, "LockstepListFilters") }

func (s *Server) deleteFilter(c *call) (any, error) {
	return s.luxi(c, Short, "DeleteFilter", c.params["uuid"])
}

// ruleParts are the parts of a rule in a body. Missing parts have their defaults, unknown ones are an error for the client.
func ruleParts(m jsonObject) (map[string]raw, error) {
	rule := map[string]raw{"priority": raw("0"), "predicates": raw("[]"), "action": raw(`"CONTINUE"`), "reason": raw("[]"), "for": raw("null")}
	for _, key := range m.keys() {
		if _, known := rule[key]; !known {
			return nil, newFailure(http.StatusBadRequest, "Invalid body parameters: filter rule doesn't support the parameter '%s'",
				tlsserver.Truncated(key))
		}
		rule[key] = m[key]
	}
	if _, err := parseInteger("priority", rule["priority"]); err != nil {
		return nil, err
	}
	for _, key := range []string{"predicates", "reason"} {
		if _, err := parseList(key, rule[key]); err != nil {
			return nil, err
		}
	}
	return rule, nil
}

package luxi

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/config"
	"lockstep/core/query"
	"lockstep/messages"
)

// queryItems takes [kind, [field, ...], filter or null] (queue.md 1.4 and section 2).
func queryItems(c *call, ctx actor.Context, args []json.RawMessage) error {
	var kind text
	var fields texts
	var filter json.RawMessage
	if err := arguments(args, &kind, &fields, &filter); err != nil {
		return fmt.Errorf("Query: %w", err)
	}
	serve, known := queries[string(kind)]
	if !known {
		return refuseKind(c, ctx, "Query", string(kind))
	}
	err := serve(c, ctx, fields, filter)
	var malformed *query.ParseError
	if errors.As(err, &malformed) {
		return fmt.Errorf("Query: argument 3: %w", err)
	}
	if err != nil {
		c.fail(ctx, queryFailure(err))
	}
	return nil
}

// queries has a function for each kind of items. An error means that the fields or the filter are invalid; otherwise
// the function answers, at once or after it has asked other actors.
var queries = map[string]func(c *call, ctx actor.Context, fields []string, filter json.RawMessage) error{
	"job":      queryJobItems,
	"lock":     queryLocks,
	"filter":   queryRules,
	"node":     objectQuery(query.Nodes),
	"group":    objectQuery(query.Groups),
	"instance": objectQuery(query.Instances),
	"network":  objectQuery(query.Networks),
	"export":   objectQuery(query.Exports),
}

// refuseKind refuses a kind of items that no client can query. Opcodes can query some of these kinds: then the request
// is valid and fails.
func refuseKind(c *call, ctx actor.Context, method, kind string) error {
	if !query.OpcodeOnly(kind) {
		return fmt.Errorf("%s: argument 1: %w", method, &query.UnknownKind{Kind: kind})
	}
	c.fail(ctx, messages.GenericFailure(fmt.Sprintf("%s %q: only an opcode can ask for that", method, kind)))
	return nil
}

// queryFields takes [kind, [field, ...] or null]. The answer has the definitions of these fields, or of all.
func queryFields(c *call, ctx actor.Context, args []json.RawMessage) error {
	var kind text
	var fields *texts
	if err := arguments(args, &kind, &fields); err != nil {
		return fmt.Errorf("QueryFields: %w", err)
	}
	var names []string
	if fields != nil {
		names = *fields
	}
	definitions, err := query.Definitions(string(kind), names)
	if err != nil {
		return refuseKind(c, ctx, "QueryFields", string(kind))
	}
	c.succeed(ctx, map[string]any{"fields": definitions})
	return nil
}

// queryFailure is Ganeti's error for an invalid query (queue.md 1.3).
func queryFailure(err error) *messages.Failure {
	var unknown *query.UnknownFields
	var field *query.FieldError
	var tooMuch *query.FilterTooExpensive
	var missing *config.NoSuchObject
	switch {
	case errors.As(err, &unknown):
		return messages.PrereqFailure(messages.WrongInput, err.Error())
	case errors.As(err, &field), errors.As(err, &tooMuch):
		return messages.ParameterFailure(err.Error())
	case errors.As(err, &missing):
		return messages.PrereqFailure(messages.UnknownEntity, err.Error())
	}
	return messages.Generic(err)
}

// text is a string on the wire; null is an error.
type text string

func (t *text) UnmarshalJSON(data []byte) error {
	var s *string
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	if s == nil {
		return errNull
	}
	*t = text(*s)
	return nil
}

// texts is a list of strings on the wire; null is an error.
type texts []string

func (t *texts) UnmarshalJSON(data []byte) error {
	var list []text
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	if list == nil {
		return errNull
	}
	*t = make(texts, len(list))
	for i, s := range list {
		(*t)[i] = string(s)
	}
	return nil
}

var errNull = errors.New("a null is not what belongs here")

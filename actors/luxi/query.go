package luxi

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/luxi/call"
	"lockstep/actors/luxi/jobs"
	"lockstep/actors/luxi/objects"
	"lockstep/core/query"
	"lockstep/core/wire"
	"lockstep/messages"
)

// queryItems takes [kind, [field, ...], filter or null] (queue.md 1.4 and section 2).
func queryItems(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	var kind call.Text
	var fields call.Texts
	var filter json.RawMessage
	if err := wire.Arguments(args, &kind, &fields, &filter); err != nil {
		return fmt.Errorf("Query: %w", err)
	}
	serve := jobs.Query
	if kind != "job" {
		of, known := objects.Queries[string(kind)]
		if !known {
			return refuseKind(c, ctx, "Query", string(kind))
		}
		serve = of
	}
	err := serve(c, ctx, fields, filter)
	var malformed *query.ParseError
	if errors.As(err, &malformed) {
		return fmt.Errorf("Query: argument 3: %w", err)
	}
	if err != nil {
		c.FailQuery(ctx, err)
	}
	return nil
}

// refuseKind refuses a kind of items that no client can query. Opcodes can query some of these kinds: then the request
// is valid and fails.
func refuseKind(c *call.Call, ctx actor.Context, method, kind string) error {
	if !query.OpcodeOnly(kind) {
		return fmt.Errorf("%s: argument 1: %w", method, &query.UnknownKind{Kind: kind})
	}
	c.Fail(ctx, messages.GenericFailure(fmt.Sprintf("%s %q: only an opcode can ask for that", method, kind)))
	return nil
}

// queryFields takes [kind, [field, ...] or null]. The answer has the definitions of these fields, or of all.
func queryFields(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	var kind call.Text
	var fields *call.Texts
	if err := wire.Arguments(args, &kind, &fields); err != nil {
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
	c.Succeed(ctx, map[string]any{"fields": definitions})
	return nil
}

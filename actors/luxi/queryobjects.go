package luxi

import (
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/config"
	"lockstep/core/query"
	"lockstep/messages"
)

// objectQuery answers a Query for one kind of objects of the configuration.
func objectQuery(of *query.Collection) func(*call, actor.Context, []string, json.RawMessage) error {
	return func(c *call, ctx actor.Context, fields []string, filter json.RawMessage) error {
		q, err := of.NewQuery(fields, filter)
		if err != nil {
			return err
		}
		answerObjects(c, ctx, q, false, func(d *config.Document) ([]*query.ObjectItem, error) { return of.ForQuery(d, q) })
		return nil
	}
}

// classicQuery answers the classic method for one kind of objects: [[name, ...], [field, ...], lock]. An empty list of
// names means all objects.
func classicQuery(name string, of *query.Collection) method {
	return func(c *call, ctx actor.Context, args []json.RawMessage) error {
		var asked, fields texts
		var lock flag
		if err := arguments(args, &asked, &fields, &lock); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		queryObjects(c, ctx, of, asked, fields, bool(lock))
		return nil
	}
}

// queryExports takes [[node, ...], lock].
func queryExports(c *call, ctx actor.Context, args []json.RawMessage) error {
	var nodes texts
	var lock flag
	if err := arguments(args, &nodes, &lock); err != nil {
		return fmt.Errorf("QueryExports: %w", err)
	}
	queryObjects(c, ctx, query.Exports, nodes, []string{"node", "export"}, bool(lock))
	return nil
}

func queryObjects(c *call, ctx actor.Context, of *query.Collection, asked, fields []string, lock bool) {
	if lock {
		c.fail(ctx, messages.PrereqFailure(messages.WrongInput, "Sync queries are not allowed"))
		return
	}
	q, err := of.NewClassicQuery(fields)
	if err != nil {
		c.fail(ctx, queryFailure(err))
		return
	}
	answerObjects(c, ctx, q, true, func(d *config.Document) ([]*query.ObjectItem, error) {
		return of.ForClassicQuery(d, asked)
	})
}

// answerObjects answers a query about the objects that choose takes from the configuration.
func answerObjects(
	c *call, ctx actor.Context, q *query.Query[query.ObjectItem], classic bool,
	choose func(*config.Document) ([]*query.ObjectItem, error),
) {
	c.askDocument(ctx, func(ctx actor.Context, d *config.Document) {
		objects, err := choose(d)
		if err != nil {
			c.fail(ctx, queryFailure(err))
			return
		}
		answerLive(c, ctx, d, q, classic, objects)
	})
}

// queryTags takes [kind, name].
func queryTags(c *call, ctx actor.Context, args []json.RawMessage) error {
	var kind, name text
	if err := arguments(args, &kind, &name); err != nil {
		return fmt.Errorf("QueryTags: %w", err)
	}
	if !config.IsTagKind(string(kind)) {
		return fmt.Errorf("QueryTags: argument 1: %s is not a kind of things with tags; there are cluster, instance, network, node, nodegroup",
			quote(string(kind)))
	}
	c.askDocument(ctx, func(ctx actor.Context, d *config.Document) {
		tags, err := d.Tags(string(kind), string(name))
		if err != nil {
			c.fail(ctx, queryFailure(err))
			return
		}
		c.succeed(ctx, tags)
	})
	return nil
}

// flag is a boolean on the wire; null is an error.
type flag bool

func (f *flag) UnmarshalJSON(data []byte) error {
	var b *bool
	if err := json.Unmarshal(data, &b); err != nil {
		return err
	}
	if b == nil {
		return errNull
	}
	*f = flag(*b)
	return nil
}

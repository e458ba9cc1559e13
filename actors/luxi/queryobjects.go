package luxi

import (
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/config"
	"lockstep/core/query"
	"lockstep/messages"
)

// objectQuery answers a Query for a kind of objects of the configuration.
func objectQuery(of *query.Collection) func(*connection, actor.Context, []string, json.RawMessage) error {
	return func(c *connection, ctx actor.Context, fields []string, filter json.RawMessage) error {
		q, err := of.NewQuery(fields, filter)
		if err != nil {
			return err
		}
		c.withObjects(ctx, q, false, func(d *config.Document) ([]*query.ObjectItem, error) { return of.ForQuery(d, q) })
		return nil
	}
}

// classicQuery answers the call for a kind: [[name, ...], [field, ...], lock], where
// no name means all.
func classicQuery(name string, of *query.Collection) method {
	return func(c *connection, ctx actor.Context, args []json.RawMessage) error {
		var asked, fields texts
		var lock flag
		if err := arguments(args, &asked, &fields, &lock); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		c.queryObjects(ctx, of, asked, fields, bool(lock))
		return nil
	}
}

// queryExports takes [[node, ...], lock].
func (c *connection) queryExports(ctx actor.Context, args []json.RawMessage) error {
	var nodes texts
	var lock flag
	if err := arguments(args, &nodes, &lock); err != nil {
		return fmt.Errorf("QueryExports: %w", err)
	}
	c.queryObjects(ctx, query.Exports, nodes, []string{"node", "export"}, bool(lock))
	return nil
}

func (c *connection) queryObjects(ctx actor.Context, of *query.Collection, asked, fields []string, lock bool) {
	if lock {
		c.fail(ctx, messages.PrereqFailure(messages.WrongInput, "Sync queries are not allowed"))
		return
	}
	q, err := of.NewClassicQuery(fields)
	if err != nil {
		c.fail(ctx, queryFailure(err))
		return
	}
	c.withObjects(ctx, q, true, func(d *config.Document) ([]*query.ObjectItem, error) {
		if len(asked) == 0 {
			return of.All(d), nil
		}
		return of.ByName(d, asked)
	})
}

func (c *connection) withObjects(ctx actor.Context, q *query.Query[query.ObjectItem], plain bool, choose func(*config.Document) ([]*query.ObjectItem, error)) {
	c.withDocument(ctx, func(ctx actor.Context, d *config.Document) {
		objects, err := choose(d)
		if err != nil {
			c.fail(ctx, queryFailure(err))
			return
		}
		answerItems(c, ctx, q, plain, objects)
	})
}

// withDocument is askConfig for those who want to know what is in it.
func (c *connection) withDocument(ctx actor.Context, answer func(actor.Context, *config.Document)) {
	c.askConfig(ctx, func(ctx actor.Context, content, _ []byte) {
		d, err := config.DecodeDocument(content)
		if err != nil {
			c.fail(ctx, messages.ConfigurationFailure(err.Error()))
			return
		}
		answer(ctx, d)
	})
}

// queryTags takes [kind, name].
func (c *connection) queryTags(ctx actor.Context, args []json.RawMessage) error {
	var kind, name text
	if err := arguments(args, &kind, &name); err != nil {
		return fmt.Errorf("QueryTags: %w", err)
	}
	if !config.IsTagKind(string(kind)) {
		return fmt.Errorf("QueryTags: argument 1: %s is not a kind of things with tags; there are cluster, instance, network, node, nodegroup", quote(string(kind)))
	}
	c.withDocument(ctx, func(ctx actor.Context, d *config.Document) {
		tags, err := d.Tags(string(kind), string(name))
		if err != nil {
			c.fail(ctx, queryFailure(err))
			return
		}
		c.succeed(ctx, tags)
	})
	return nil
}

// flag is a boolean on the wire, and nothing else.
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

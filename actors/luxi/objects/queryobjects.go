package objects

import (
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/luxi/call"
	"lockstep/core/config"
	"lockstep/core/query"
	"lockstep/core/wire"
	"lockstep/messages"
)

// objectQuery answers a Query for one kind of objects of the configuration.
func objectQuery(of *query.Collection) func(*call.Call, actor.Context, []string, json.RawMessage) error {
	return func(c *call.Call, ctx actor.Context, fields []string, filter json.RawMessage) error {
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
func classicQuery(name string, of *query.Collection) call.Method {
	return func(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
		var asked, fields call.Texts
		var lock call.Flag
		if err := wire.Arguments(args, &asked, &fields, &lock); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		queryObjects(c, ctx, of, asked, fields, bool(lock))
		return nil
	}
}

// queryExports takes [[node, ...], lock]. The answer has the values of node and export for each row. A call with lock is refused.
func queryExports(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	var nodes call.Texts
	var lock call.Flag
	if err := wire.Arguments(args, &nodes, &lock); err != nil {
		return fmt.Errorf("QueryExports: %w", err)
	}
	queryObjects(c, ctx, query.Exports, nodes, []string{"node", "export"}, bool(lock))
	return nil
}

func queryObjects(c *call.Call, ctx actor.Context, of *query.Collection, asked, fields []string, lock bool) {
	if lock {
		c.Fail(ctx, messages.PrereqFailure(messages.WrongInput, "Sync queries are not allowed"))
		return
	}
	q, err := of.NewClassicQuery(fields)
	if err != nil {
		c.FailQuery(ctx, err)
		return
	}
	answerObjects(c, ctx, q, true, func(d *config.Document) ([]*query.ObjectItem, error) {
		return of.ForClassicQuery(d, asked)
	})
}

// answerObjects answers a query about the objects that choose takes from the configuration.
func answerObjects(
	c *call.Call, ctx actor.Context, q *query.Query[query.ObjectItem], classic bool,
	choose func(*config.Document) ([]*query.ObjectItem, error),
) {
	askDocument(c, ctx, func(ctx actor.Context, d *config.Document) {
		objects, err := choose(d)
		if err != nil {
			c.FailQuery(ctx, err)
			return
		}
		answerLive(c, ctx, d, q, classic, objects)
	})
}

// queryTags takes [kind, name]. The answer is the list of the object's tags.
func queryTags(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	var kind, name call.Text
	if err := wire.Arguments(args, &kind, &name); err != nil {
		return fmt.Errorf("QueryTags: %w", err)
	}
	if !config.IsTagKind(string(kind)) {
		return fmt.Errorf("QueryTags: argument 1: %s is not a kind of things with tags; there are cluster, instance, network, node, nodegroup",
			call.Quote(string(kind)))
	}
	askDocument(c, ctx, func(ctx actor.Context, d *config.Document) {
		tags, err := d.Tags(string(kind), string(name))
		if err != nil {
			c.FailQuery(ctx, err)
			return
		}
		c.Succeed(ctx, tags)
	})
	return nil
}

// answerItems answers a query about items of which all is known. A filter that does not fit a value fails the query.
func answerItems[T any](c *call.Call, ctx actor.Context, q *query.Query[T], classic bool, items []*T) {
	t := query.NewAnswer(q, classic)
	for i, item := range items {
		matches, _, err := q.Match(item, query.LevelLive)
		if err != nil {
			c.FailQuery(ctx, err)
			return
		}
		if matches {
			t.Add(i, item, 0)
		} else {
			t.Skip(i)
		}
		if !c.Admit(ctx, t.Size()) {
			return
		}
	}
	c.Answer(ctx, t.Close()...)
}

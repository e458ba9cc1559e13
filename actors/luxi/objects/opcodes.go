package objects

import (
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/luxi/call"
	"lockstep/core/answer"
	"lockstep/core/wire"
)

// lockstepOpcodes takes [] or [name] and answers with the catalogue or that part of it: a list of answer.Opcode.
func lockstepOpcodes(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	names := c.Config.Catalogue.Names()
	if len(args) > 0 {
		var name string
		if err := wire.Arguments(args, &name); err != nil {
			return fmt.Errorf("LockstepOpcodes: %w", err)
		}
		names = []string{name}
	}
	rows := []answer.Opcode{}
	for _, name := range names {
		op, known := c.Config.Catalogue.Lookup(name)
		if !known {
			continue
		}
		row := answer.Opcode{Name: name, Doc: op.Doc, Defined: op.Defined(), Params: []answer.OpcodeParam{}}
		row.Runs = op.Runs() || c.Config.Distributor != nil // the nodes of a Ganeti cluster execute Ganeti's opcodes
		for i := range op.Params {
			p := &op.Params[i]
			value := p.Default
			if value == nil {
				value = json.RawMessage("null")
			}
			row.Params = append(row.Params, answer.OpcodeParam{
				Name:     p.Name,
				Type:     fmt.Sprint(p.Type),
				Required: p.Required(),
				Default:  value,
				Doc:      p.Doc,
				Secret:   p.Secret,
			})
		}
		rows = append(rows, row)
	}
	c.Succeed(ctx, rows)
	return nil
}

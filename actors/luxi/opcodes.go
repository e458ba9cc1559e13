package luxi

import (
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
)

// opcodeRow is an opcode as `lockstep opcode` shows it.
type opcodeRow struct {
	Name    string     `json:"name"`
	Doc     string     `json:"doc"`
	Defined bool       `json:"defined"` // declared by an operator
	Params  []paramRow `json:"params"`
}

type paramRow struct {
	Name     string          `json:"name"`
	Type     string          `json:"type"`
	Required bool            `json:"required"`
	Default  json.RawMessage `json:"default"`
	Doc      string          `json:"doc"`
	Secret   bool            `json:"secret"`
}

// lockstepOpcodes is the catalogue, for `lockstep opcode`: [] for all of it, or
// [name].
func (c *connection) lockstepOpcodes(ctx actor.Context, args []json.RawMessage) error {
	names := c.config.Catalogue.Names()
	if len(args) > 0 {
		var name string
		if err := arguments(args, &name); err != nil {
			return fmt.Errorf("LockstepOpcodes: %w", err)
		}
		names = []string{name}
	}
	rows := []opcodeRow{}
	for _, name := range names {
		op, known := c.config.Catalogue.Lookup(name)
		if !known {
			continue
		}
		row := opcodeRow{Name: name, Doc: op.Doc, Defined: op.Defined(), Params: []paramRow{}}
		for i := range op.Params {
			p := &op.Params[i]
			value := p.Default
			if value == nil {
				value = json.RawMessage("null")
			}
			row.Params = append(row.Params, paramRow{Name: p.Name, Type: fmt.Sprint(p.Type), Required: p.Required(), Default: value, Doc: p.Doc, Secret: p.Secret})
		}
		rows = append(rows, row)
	}
	c.succeed(ctx, rows)
	return nil
}

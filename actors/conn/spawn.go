package conn

import (
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
)

// Spawn makes the actor of a connection, a child of its gateway. A gateway that is
// leaving makes none; the client comes back to its next incarnation.
func Spawn(ctx actor.Context, env *kit.Env, c Conn, name string, produce func() actor.Actor) {
	_, err := ctx.SpawnNamed(env.Props("connection", produce), name)
	switch {
	case errors.Is(err, kit.ErrStopping):
		c.Close()
	case err != nil:
		panic(fmt.Errorf("spawn a connection: %w", err))
	}
}

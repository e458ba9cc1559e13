package model_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/config/configtest"
	"lockstep/core/config/model"
)

// Parts of a configuration are shared with the configurations derived from it, and join to the encoding.
func TestParts(t *testing.T) {
	e := configtest.Config().Edit()
	one, _ := e.Config().Networks.Get(firstKey(e.Config().Networks))
	for i := range 100 {
		network := one.Value
		network.UUID, network.Name = fmt.Sprintf("n-%02d", i), fmt.Sprintf("net\"%d", i)
		model.Networks.Put(e, network.UUID, network)
	}
	built, _ := e.Commit(1)
	for _, c := range []*model.Config{built, configtest.Decode(t, built.JSON())} {
		require.Equal(t, string(built.JSON()), string(c.JSON()))
		next, _ := configtest.Change(c, 2, func(e *model.Edit) {
			configtest.Put(e, model.Networks, "n-50", func(n *model.Network) { n.Serial++ })
		})
		require.Equal(t, string(next.JSON()), string(configtest.Decode(t, next.JSON()).JSON()))
		require.Equal(t, c.Hash(), configtest.Decode(t, c.JSON()).Hash())
		shared := map[*byte]bool{}
		for _, part := range c.Parts() {
			shared[&part[0]] = true
		}
		changed := 0
		for _, part := range next.Parts() {
			if len(part) > 100 && !shared[&part[0]] {
				changed++
			}
		}
		require.Equal(t, 1, changed, "only the part with the network")
		before, _ := c.Networks.Get("n-50")
		require.Equal(t, string(model.Networks.NewObject(before.Value).JSON()), string(before.JSON()))
	}
}

func firstKey[T any](c model.Container[T]) string {
	for key := range c.All() {
		return key
	}
	return ""
}

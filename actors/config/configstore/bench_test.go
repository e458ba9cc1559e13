package configstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/config/configstore"
	"lockstep/actors/kittest"
	"lockstep/actors/store"
	"lockstep/core/config/model"
	"lockstep/core/paths"
)

// A durable change of one object costs the same with 10 and with 10,000 instances. A fold, which costs the whole, comes once in
// three seconds at most: it is apart.
func BenchmarkChange(b *testing.B) {
	for _, count := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("instances=%d", count), func(b *testing.B) { benchmark(b, count, func(c *bench) { c.change() }) })
	}
}

func BenchmarkFold(b *testing.B) {
	for _, count := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("instances=%d", count), func(b *testing.B) {
			benchmark(b, count, func(c *bench) {
				c.change()
				require.Nil(c, c.flush())
			})
		})
	}
}

func benchmark(b *testing.B, instances int, do func(c *bench)) {
	config, err := model.Decode(initial(b))
	require.NoError(b, err)
	e := config.Edit()
	for i := range instances {
		key := fmt.Sprintf("c1000000-0000-4000-8000-%012d", i)
		o, err := model.Instances.Decode(fmt.Appendf(nil, `{"forthcoming":true,"uuid":%q,"serial_no":1,"tags":[%q]}`, key, strings.Repeat("x", 2000)))
		require.NoError(b, err)
		model.Instances.Put(e, key, o.Value)
	}
	config, _ = e.Commit(1)
	env := kittest.New(b)
	disk := newDisk(b)
	disk.Overwrite(paths.ConfigPath, config.JSON())
	c := &bench{TB: b, Env: env, disk: disk, isPlain: true, parents: map[string]string{}, client: env.Probe("client")}
	files, _, err := env.SpawnRoot(store.Props(store.Config{Env: env.Env, Files: disk, Writers: 4, Clients: []*actor.PID{env.PID("configstore")}}), "store")
	require.NoError(b, err)
	c.pid, _, err = env.SpawnRoot(configstore.Props(configstore.Config{Env: env.Env, Store: files}), "configstore")
	require.NoError(b, err)
	c.load()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		do(c)
		if i%1000 == 999 {
			env.Clock.Advance(3 * time.Second)
		}
	}
}

package clusterconfig_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/config/configstore"
	"lockstep/actors/kittest"
	"lockstep/actors/locks"
	"lockstep/actors/store"
	"lockstep/core/config/calls"
	"lockstep/core/config/configtest"
	"lockstep/core/config/model"
	"lockstep/core/lock"
	"lockstep/core/paths"
)

// many is a configuration with so many instances of one disk.
func many(count int) *model.Config {
	e := configtest.New(configtest.Must{}).Edit()
	one := fresh(configtest.Must{})
	i, _ := one.Instances.Get("i")
	d, _ := one.Disks.Get("d")
	for n := range count {
		instance, disk := i.Value, d.Value
		instance.UUID, disk.UUID = fmt.Sprintf("i-%05d", n), fmt.Sprintf("d-%05d", n)
		instance.Name, instance.Disks = model.Some(fmt.Sprintf("inst%d.example.org", n)), []string{disk.UUID}
		nic := instance.NICs[0]
		nic.MAC, nic.UUID = fmt.Sprintf("aa:00:00:00:%02x:%02x", n>>8, n&255), instance.UUID+"-nic"
		instance.NICs = []model.NIC{nic}
		model.Instances.Put(e, instance.UUID, instance)
		model.Disks.Put(e, disk.UUID, disk)
	}
	c, _ := e.Commit(1)
	return c
}

// BenchmarkUpdateInstance measures an updateInstance from its arguments to its answer, with the journal of configstore on a disk in
// memory. Folds are part of it.
func BenchmarkUpdateInstance(b *testing.B) {
	for _, count := range []int{10, 10_000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			e := kittest.New(b)
			c := many(count)
			disk := kittest.NewDisk(map[string]string{paths.ConfigPath: string(c.JSON())})
			silent, client := e.Probe("silent"), e.Probe("client")
			pids := map[string]*actor.PID{}
			for name, props := range map[string]*actor.Props{
				"store":         store.Props(store.Config{Env: e.Env, Files: disk, Writers: 2, Clients: []*actor.PID{e.PID("configstore"), e.PID("clusterconfig")}}),
				"configstore":   configstore.Props(configstore.Config{Env: e.Env, Store: e.PID("store"), Clients: []*actor.PID{e.PID("clusterconfig")}}),
				"clusterconfig": clusterconfig.Props(clusterconfig.Config{Env: e.Env, Store: e.PID("store"), ConfigStore: e.PID("configstore"), Locks: silent.PID, Owners: &callers{}}),
			} {
				pid, _, err := e.SpawnRoot(props, name)
				require.NoError(b, err)
				pids[name] = pid
			}
			e.Send(pids["clusterconfig"], &locks.ConfigLocks{Config: map[lock.Owner]lock.Mode{}})
			i, _ := c.Instances.Get("i-00003")
			instance := i.Value
			request := uint64(0)
			for b.Loop() {
				call, err := calls.Parse("updateInstance", []json.RawMessage{model.Instances.NewObject(instance).JSON()})
				require.NoError(b, err)
				request++
				client.Ask(pids["clusterconfig"], &clusterconfig.Call{Request: request, Call: call})
				m := kittest.Expect[*clusterconfig.CallResult](client)
				require.Nil(b, m.Error)
				instance.Serial++
			}
		})
	}
}

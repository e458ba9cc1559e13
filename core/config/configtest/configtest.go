// Package configtest makes configurations for tests.
package configtest

import (
	_ "embed"
	"fmt"

	"lockstep/core/config/model"
)

// JSON is a configuration with objects of all kinds: four nodes in two groups, three instances, of which inst3 is forthcoming,
// four disks, of which one is of drbd, four networks and a filter rule.
//
//go:embed config.json
var JSON []byte

// The secrets of the configuration.
var Secrets = []string{"secret-of-inst1", "secret-of-cluster", "5555555555555555555555555555555555555555"}

// UUIDs of objects of the configuration.
const (
	Node1     = "a0000000-0000-4000-8000-000000000001"
	Group     = "b0000000-0000-4000-8000-000000000001"
	Inst1     = "c0000000-0000-4000-8000-000000000001"
	Inst2     = "c0000000-0000-4000-8000-000000000002"
	DRBDDisk  = "d0000000-0000-4000-8000-000000000001" // disk 0 of Inst1
	PlainDisk = "d0000000-0000-4000-8000-000000000002" // disk 1 of Inst1
)

// Config decodes JSON, the configuration for tests. It panics if that is not possible.
func Config() *model.Config {
	c, err := model.Decode(JSON)
	if err != nil {
		panic(fmt.Sprintf("configtest: %v", err))
	}
	return c
}

// Change applies a change to a configuration and commits it, as of the time now.
func Change(c *model.Config, now model.Time, change func(e *model.Edit)) (*model.Config, []model.Touched) {
	e := c.Edit()
	change(e)
	return e.Commit(now)
}

// Put changes one object of a kind with change. It panics if the configuration does not have the object.
func Put[T any](e *model.Edit, k *model.Kind[T], uuid string, change func(v *T)) {
	o, found := k.Get(e.Config(), uuid)
	if !found {
		panic("configtest: no " + k.Name + " " + uuid)
	}
	v := o.Value
	change(&v)
	k.Put(e, uuid, v)
}

// Cluster changes the cluster object of an edit with change.
func Cluster(e *model.Edit, change func(v *model.Cluster)) {
	v := e.Config().Cluster.Value
	change(&v)
	e.SetCluster(v)
}

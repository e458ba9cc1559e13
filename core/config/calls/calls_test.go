package calls

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/config/model"
	"lockstep/core/config/reserve"
	"lockstep/core/lock"
)

const (
	inst1 = "c0000000-0000-4000-8000-000000000001"
	node1 = "a0000000-0000-4000-8000-000000000001"
	node2 = "a0000000-0000-4000-8000-000000000002"
	node3 = "a0000000-0000-4000-8000-000000000003"
	net1  = "e0000000-0000-4000-8000-000000000001"
	cidA  = `[7,"/livelocks/a",70]`
	cidB  = `[8,"/livelocks/b",80]`
)

// bench is a state and an environment for calls.
type bench struct {
	testing.TB
	state State
	env   Env
}

func newBench(t testing.TB) *bench {
	return &bench{t, startState(t), Env{Now: 5, Random: func(n int) []byte { return make([]byte, n) }}}
}

// do applies a call; arguments are JSON texts.
func (b *bench) do(method string, args ...string) Outcome {
	b.Helper()
	var raw []json.RawMessage
	for _, a := range args {
		raw = append(raw, json.RawMessage(a))
	}
	call, err := Parse(method, raw)
	if err != nil {
		return Outcome{Err: asError(err)}
	}
	var out Outcome
	b.state, out = call.Apply(b.state, b.env)
	return out
}

// ok applies a call that must succeed.
func (b *bench) ok(want, method string, args ...string) Outcome {
	b.Helper()
	out := b.do(method, args...)
	require.Nil(b, out.Err)
	require.Equal(b, want, string(out.Result))
	return out
}

// fails applies a call that must fail.
func (b *bench) fails(want, method string, args ...string) {
	b.Helper()
	out := b.do(method, args...)
	require.NotNil(b, out.Err, "%s", out.Result)
	require.Equal(b, want, out.Err.Error())
}

func quoted(s string) string { return string(model.AppendText(nil, s)) }

func (b *bench) edit(change func(e *model.Edit)) {
	e := b.state.Config.Edit()
	change(e)
	c, _ := e.Commit(1)
	b.state = NewState(c, b.state.Reserved)
}

func (b *bench) cluster(change func(c *model.Cluster)) {
	b.edit(func(e *model.Edit) {
		c := b.state.Config.Cluster.Value
		change(&c)
		e.SetCluster(c)
	})
}

// An exhausted port range gives an error; Ganeti's daemon does not answer (config.md 12.3).
func TestNoPortIsLeft(t *testing.T) {
	b := newBench(t)
	b.cluster(func(c *model.Cluster) { c.PortPool, c.HighestUsedPort = nil, 14998 })
	b.ok("14999", "allocatePort")
	b.fails("ConfigurationError: The highest used port is greater than 14999. Aborting.", "allocatePort")
	b.ok("true", "addTcpUdpPort", "12")
	b.ok("12", "allocatePort")
	b.fails("GenericError: RPC input: Unable to read Int", "addTcpUdpPort", "1.5")
	b.fails("GenericError: RPC input: Unable to read Int", "addTcpUdpPort", "9223372036854775808")
}

// A released port is in the pool once (config.md 12.11).
func TestPortIsGivenBackOnce(t *testing.T) {
	b := newBench(t)
	b.ok("true", "addTcpUdpPort", "11005")
	b.ok("true", "addTcpUdpPort", "1")
	b.ok("true", "removeInstance", quoted(inst1))
	require.Equal(t, []int64{11005, 1, 11004, 11002}, b.state.Config.Cluster.Value.PortPool)
	require.Equal(t, 4, b.state.Config.Disks.Len(), "the disks stay")
}

// Only an object of the same kind can be replaced (config.md 12.10).
func TestReplaceInsistsOnTheKind(t *testing.T) {
	b := newBench(t)
	instance := fmt.Sprintf(`{"forthcoming":true,"uuid":%q,"serial_no":1}`, node1)
	b.fails("ConfigurationError: Cannot replace Nothing: UUID "+node1+" not present", "addInstance", instance, cidA, "true")
	b.fails("ConfigurationError: Cannot add Nothing: UUID "+node1+" already in use", "addInstance", instance, cidA, "false")
	disk := fmt.Sprintf(`{"forthcoming":true,"uuid":%q,"serial_no":1}`, node1)
	b.fails("ConfigurationError: Cannot replace Nothing: UUID "+node1+" not present", "addInstanceDisk", quoted(inst1), disk, "null", "true")
	nic := `{"forthcoming":true,"uuid":"11000000-0000-4000-8000-000000000001","serial_no":1}`
	b.fails("ConfigurationError: Cannot add Nothing: UUID 11000000-0000-4000-8000-000000000001 already in use", "addInstance", nic, cidA, "false")
	lv := `{"forthcoming":true,"uuid":"xenvg/0001.disk0_meta","serial_no":1}`
	b.fails("ConfigurationError: Cannot add Nothing: UUID xenvg/0001.disk0_meta already in use", "addInstance", lv, cidA, "false")
}

// prepareClusterDestruction and its repetition (config.md 4.1).
func TestPrepareClusterDestruction(t *testing.T) {
	b := newBench(t)
	b.env.Locks.BGL = BGLClient
	out := b.ok("[]", "prepareClusterDestruction", cidA)
	require.True(t, out.Changed && out.Await)
	require.Equal(t, cidA, out.PassBGL.String())
	require.Equal(t, "", b.state.Config.Cluster.Value.MasterNode)
	require.EqualValues(t, 50, b.state.Config.Cluster.Value.Serial)
	b.env.Locks.BGL = BGLDaemon
	require.False(t, b.ok("[]", "prepareClusterDestruction", cidA).Changed)
	b.env.Locks.BGL = BGLOther
	b.fails("GenericError: Cluster destruction requested without owning BGL exclusively", "prepareClusterDestruction", cidA)
}

// Changes committed while a client holds the lock survive the write of that client (config.md 12.12).
func TestCommitsBesideTheLock(t *testing.T) {
	b := newBench(t)
	read := string(b.state.Config.JSON())
	b.env.Locks = Locks{Held: true, Granted: true, Mode: lock.Exclusive}
	require.True(t, b.do("lockConfig", cidA, "false").IsConfig)
	b.env.Locks = Locks{Held: true}
	b.ok("[]", "reserveIp", cidB, quoted(net1), `"10.0.0.3"`, "true")
	b.ok("[]", "commitTemporaryIps", cidB)
	b.ok("[]", "commitReleaseTemporaryIp", quoted(net1), `"10.0.0.2"`)
	pool := func() string {
		n, _ := b.state.Config.Networks.Get(net1)
		return n.Value.Reservations.Value
	}
	require.Equal(t, "00010000", pool())
	b.env.Locks.Mode = lock.Exclusive
	b.ok("[]", "writeConfig", cidA, read)
	require.Equal(t, "00010000", pool())
	out := b.ok("true", "writeConfigAndUnlock", cidA, read)
	require.Equal(t, "00010000", pool())
	require.Equal(t, cidA, out.Unlock.String())
	b.ok("true", "writeConfigAndUnlock", cidA, read)
	require.Equal(t, "00010000", pool(), "a repetition before the lock is free")
	b.env.Locks.Granted = true
	require.True(t, b.do("lockConfig", cidA, "false").IsConfig)
	require.Empty(t, b.state.ConcurrentChanges)
	b.ok("true", "writeConfigAndUnlock", cidA, read)
	require.Equal(t, "00100000", pool(), "the lock was another one")
	b.env.Locks.Mode = lock.None
	b.ok("false", "writeConfigAndUnlock", cidA, read)
	b.fails("GenericError: Requested lock OwnExclusive on the configuration missing", "writeConfig", cidA, read)
}

// writeConfig increments the serial number of the client, not the stored one.
func TestWriteConfig(t *testing.T) {
	b := newBench(t)
	b.env.Locks.Mode = lock.Exclusive
	read := string(b.state.Config.JSON())
	require.False(t, b.ok("[]", "writeConfig", cidA, read).Changed, "nothing is different")
	b.ok("true", "addTcpUdpPort", "1")
	b.ok("true", "addTcpUdpPort", "2")
	out := b.ok("[]", "writeConfig", cidA, read)
	require.Equal(t, []model.Touched{{Kind: "cluster"}}, out.Touched)
	require.EqualValues(t, 101, b.state.Config.Serial, "it may go down")
	b.fails(`GenericError: RPC input: key 'version' not found, object contains only []`, "writeConfig", cidA, "{}")
}

// Changes that wait for distribution (config.md 8.2).
func TestAwait(t *testing.T) {
	node := func(uuid string, change func(n *model.Node)) func(b *bench) Outcome {
		return func(b *bench) Outcome {
			stored, _ := b.state.Config.Nodes.Get(uuid)
			n := stored.Value
			change(&n)
			return b.do("updateNode", string(model.Nodes.NewObject(n).JSON()))
		}
	}
	cluster := func(change func(c *model.Cluster)) func(b *bench) Outcome {
		return func(b *bench) Outcome {
			c := b.state.Config.Cluster.Value
			change(&c)
			return b.do("updateCluster", string(model.Clusters.NewObject(c).JSON()))
		}
	}
	power := func(n *model.Node) { n.Powered = false }
	for name, c := range map[string]struct {
		do   func(b *bench) Outcome
		want bool
	}{
		"tags of the cluster":   {cluster(func(c *model.Cluster) { c.Tags = nil }), false},
		"user shutdown":         {cluster(func(c *model.Cluster) { c.EnabledUserShutdown = true }), true},
		"hypervisors":           {cluster(func(c *model.Cluster) { c.EnabledHypervisors = []string{"fake"} }), true},
		"certificates":          {cluster(func(c *model.Cluster) { c.CandidateCerts = nil }), true},
		"a port":                {func(b *bench) Outcome { return b.do("addTcpUdpPort", "1") }, false},
		"a regular node":        {node(node3, power), false},
		"a candidate":           {node(node2, power), true},
		"the master":            {node(node1, power), true},
		"vm_capable":            {node(node3, func(n *model.Node) { n.VMCapable = true }), true},
		"a candidate to be":     {node(node3, func(n *model.Node) { n.MasterCandidate = true }), true},
		"no longer a candidate": {node(node2, func(n *model.Node) { n.MasterCandidate = false }), true},
	} {
		b := newBench(t)
		out := c.do(b)
		require.Nil(t, out.Err, name)
		require.True(t, out.Changed, name)
		require.Equal(t, c.want, out.Await, name)
	}
	require.True(t, newBench(t).ok("[]", "flushConfig").Flush)
	require.Equal(t, "g", newBench(t).ok("[]", "flushConfigGroup", `"g"`).FlushGroup)
}

// The hash changes with the configuration, and only with it.
func TestConfigHash(t *testing.T) {
	b := newBench(t)
	before := b.state.Config.Hash().String()
	b.ok(quoted(before), "lockstepConfigHash")
	b.ok("[]", "reserveIp", cidA, quoted(net1), `"10.0.0.3"`, "true")
	b.ok(quoted(before), "lockstepConfigHash")
	require.True(t, b.ok("[]", "commitTemporaryIps", cidA).Changed)
	require.NotEqual(t, before, b.state.Config.Hash().String())
	b.ok(quoted(b.state.Config.Hash().String()), "lockstepConfigHash")
	b.fails("GenericError: RPC input: Unable to read ()", "lockstepConfigHash", "1")
}

// A repeated commit succeeds for the same client or caller only (config.md 12.5).
func TestRepeatedCommit(t *testing.T) {
	b := newBench(t)
	b.ok("[]", "reserveIp", cidA, quoted(net1), `"10.0.0.3"`, "true")
	b.ok("[]", "releaseIp", cidA, quoted(net1), `"10.0.0.2"`)
	require.True(t, b.ok("[]", "commitTemporaryIps", cidA).Changed)
	require.False(t, b.ok("[]", "commitTemporaryIps", cidA).Changed)
	b.ok(`[["reserve","10.0.0.3","`+net1+`"],["release","10.0.0.2","`+net1+`"]]`, "listReservedIps", cidA)
	b.ok("[]", "commitReleaseTemporaryIp", quoted(net1), `"10.0.0.3"`)
	require.True(t, b.state.Reserved.HasFreed(net1, "10.0.0.3", b.env.Caller))
	b.env.Caller = reserve.Caller{PID: 99}
	b.fails("ReservationError: IP 10.0.0.3 is not used by an instance", "commitReleaseTemporaryIp", quoted(net1), `"10.0.0.3"`)
	b.fails("ReservationError: Address '10.0.1.3' not in the network 'net1 10.0.0.0/29'", "commitReleaseTemporaryIp", quoted(net1), `"10.0.1.3"`)
}

// The first commit stores the pool of a network without pools (config.md 12.7).
func TestPoolIsMade(t *testing.T) {
	b := newBench(t)
	const net2 = "e0000000-0000-4000-8000-000000000002"
	b.edit(func(e *model.Edit) {
		n, _ := b.state.Config.Networks.Get(net2)
		v := n.Value
		v.Network = "10.7.0.9/16"
		model.Networks.Put(e, net2, v)
	})
	b.ok(`"10.7.0.0"`, "generateIp", cidA, quoted(net2))
	b.ok("[]", "commitTemporaryIps", cidA)
	n, _ := b.state.Config.Networks.Get(net2)
	require.Len(t, n.Value.Reservations.Value, 1<<16)
	require.False(t, n.Value.ExtReservations.Set)
	require.EqualValues(t, 1, n.Value.Serial)
}

// Generators give up after 64 attempts; reserved and used values are errors.
func TestGenerators(t *testing.T) {
	b := newBench(t)
	b.ok(`"aa:00:00:00:00:00"`, "generateMAC", cidA, "null")
	b.fails("ReservationError: Not able generate new resource", "generateMAC", cidA, "null")
	b.fails(`ReservationError: Network '"x"' not found`, "generateMAC", cidA, `"x"`)
	b.ok(`"0000000000000000000000000000000000000000"`, "generateDRBDSecret", cidA)
	b.fails("ReservationError: Not able generate new resource", "generateDRBDSecret", cidB)
	b.fails("ReservationError: MAC already in use", "reserveMAC", cidA, `"aa:00:00:11:11:12"`)
	b.fails("ReservationError: Duplicate reservation for resource 'x/y'", "reserveLV", cidB, func() string { b.ok("[]", "reserveLV", cidA, `"x/y"`); return `"x/y"` }())
	b.fails("ReservationError: LV already in use", "reserveLV", cidB, `"xenvg/free.disk"`)
	b.fails("GenericError: RPC input: Validation errors: Volume group name must consist only of [a-z][A-Z][0-9][+_.-]; Volume name must not be 'pvmove'",
		"reserveLV", cidB, `"a b/pvmove"`)
}

// benchmarkState returns a configuration with instances that have one disk each.
func benchmarkState(b *testing.B, instances int) State {
	s := startState(b)
	i0, _ := s.Config.Instances.Get(inst1)
	d0, _ := s.Config.Disks.Get("d0000000-0000-4000-8000-000000000001")
	e := s.Config.Edit()
	for n := range instances {
		d := d0.Value
		l := d.LogicalID.Value
		l.MinorA, l.MinorB, l.Secret = int64(n+1), int64(n+1), fmt.Sprintf("%040d", n)
		d.LogicalID, d.UUID = model.Some(l), fmt.Sprintf("d%035d", n)
		d.Children = append([]model.Disk{}, d.Children...)
		for i := range d.Children {
			c := d.Children[i].LogicalID.Value
			c.B = fmt.Sprintf("%06d.%d", n, i)
			d.Children[i].LogicalID = model.Some(c)
		}
		model.Disks.Put(e, d.UUID, d)
		i := i0.Value
		i.UUID, i.Name, i.Disks = fmt.Sprintf("c%035d", n), model.Some(fmt.Sprintf("i%d.example", n)), []string{d.UUID}
		i.NICs = []model.NIC{{MAC: fmt.Sprintf("mac%d", n), UUID: fmt.Sprintf("nic%d", n)}}
		model.Instances.Put(e, i.UUID, i)
	}
	c, _ := e.Commit(1)
	return NewState(c, s.Reserved)
}

// BenchmarkUpdate updates one instance of 10 and of 10000. The times should be similar.
func BenchmarkUpdate(b *testing.B) {
	for _, instances := range []int{10, 10000} {
		state := benchmarkState(b, instances)
		b.Run(fmt.Sprintf("instances=%d", instances), func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				stored, _ := state.Config.Instances.Get(fmt.Sprintf("c%035d", i%instances))
				call, err := Parse("updateInstance", []json.RawMessage{stored.JSON()})
				require.NoError(b, err)
				next, out := call.Apply(state, Env{Now: model.Time(i)})
				require.Nil(b, out.Err)
				state = next
			}
		})
		b.Run(fmt.Sprintf("disk/instances=%d", instances), func(b *testing.B) {
			for i := range b.N {
				uuid := fmt.Sprintf("c%035d", i%instances)
				for _, method := range []string{"detachInstanceDisk", "attachInstanceDisk"} {
					args := []json.RawMessage{json.RawMessage(quoted(uuid)), json.RawMessage(quoted(fmt.Sprintf("d%035d", i%instances)))}
					if method == "attachInstanceDisk" {
						args = append(args, json.RawMessage("null"))
					}
					call, err := Parse(method, args)
					require.NoError(b, err)
					next, out := call.Apply(state, Env{Now: model.Time(i)})
					require.Nil(b, out.Err)
					state = next
				}
			}
		})
	}
}

// BenchmarkConfig decodes, encodes and writes a complete configuration.
func BenchmarkConfig(b *testing.B) {
	state := benchmarkState(b, 10000)
	raw := state.Config.JSON()
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		var before, after runtime.MemStats
		var c *model.Config
		runtime.GC()
		runtime.ReadMemStats(&before)
		for range b.N {
			var err error
			c, err = model.Decode(raw)
			require.NoError(b, err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(len(raw)), "heap/file")
		runtime.KeepAlive(c)
	})
	b.Run("join", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		for range b.N {
			state.Config.JSON()
		}
	})
	parse := func() Call {
		call, err := Parse("writeConfig", []json.RawMessage{json.RawMessage(cidA), raw})
		require.NoError(b, err)
		return call
	}
	b.Run("parse", func(b *testing.B) { // in the connection of the client that writes
		b.SetBytes(int64(len(raw)))
		for range b.N {
			parse()
		}
	})
	b.Run("apply", func(b *testing.B) { // in the actor: calls of other clients wait for it
		call := parse()
		for range b.N {
			_, out := call.Apply(state, Env{Locks: Locks{Mode: lock.Exclusive}})
			require.Nil(b, out.Err)
		}
	})
	b.Run("syntax", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		for range b.N {
			var v any
			require.NoError(b, json.Unmarshal(raw, &v))
		}
	})
}

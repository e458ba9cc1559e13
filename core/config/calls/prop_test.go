package calls

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/config/model"
	"lockstep/core/config/reserve"
	"lockstep/core/config/verify"
	"lockstep/core/lock"
)

// drawn is a random call.
type drawn struct {
	method string
	args   []json.RawMessage
}

func (d drawn) String() string {
	text := d.method
	for _, a := range d.args {
		text += " " + string(a[:min(len(a), 60)])
	}
	return text
}

// drawer draws calls about a state. A sane drawer refers to existing objects only.
type drawer struct {
	*rapid.T
	state State
	sane  bool
}

// key draws the key of an object; without sane it can be missing.
func (d drawer) key(what string, keys []string) string {
	if !d.sane {
		keys = append(keys, "nothing", "b0000000-0000-4000-8000-000000000001")
	}
	if len(keys) == 0 {
		return "nothing"
	}
	return rapid.SampledFrom(keys).Draw(d.T, what)
}

func (d drawer) instance() string { return d.key("instance", keysOf(d.state.Config.Instances)) }
func (d drawer) node() string     { return d.key("node", keysOf(d.state.Config.Nodes)) }
func (d drawer) disk() string     { return d.key("disk", keysOf(d.state.Config.Disks)) }
func (d drawer) network() string {
	return d.key("network", []string{"e0000000-0000-4000-8000-000000000001", "e0000000-0000-4000-8000-000000000002"})
}

func keysOf[T any](c model.Container[T]) []string {
	var keys []string
	for key := range c.All() {
		keys = append(keys, key)
	}
	return keys
}

func (d drawer) owner() lock.Owner {
	return lock.JobOwner(5, "/livelock", rapid.IntRange(1, 3).Draw(d.T, "owner"))
}

func (d drawer) int(name string, low, high int) int { return rapid.IntRange(low, high).Draw(d.T, name) }

func (d drawer) orNull(v any) any {
	if rapid.Bool().Draw(d.T, "null") {
		return nil
	}
	return v
}

func (d drawer) address() string {
	return fmt.Sprintf("10.0.%d.%d", d.int("net", 0, 1), d.int("host", 0, 4))
}
func (d drawer) mac() string { return fmt.Sprintf("aa:00:00:00:00:%02d", d.int("mac", 0, 9)) }

// object draws a stored object, with or without a change.
func object[T any](d drawer, k *model.Kind[T], change func(*T)) json.RawMessage {
	all := keysOf(k.All(d.state.Config))
	if len(all) == 0 {
		return json.RawMessage("{}")
	}
	stored, _ := k.Get(d.state.Config, rapid.SampledFrom(all).Draw(d.T, "key"))
	v := stored.Value
	if rapid.Bool().Draw(d.T, "change") {
		change(&v)
	}
	return k.NewObject(v).JSON()
}

func (d drawer) newInstance() json.RawMessage {
	n := d.int("new", 0, 3)
	nics := fmt.Sprintf(`[{"mac":%q,"nicparams":{},"uuid":"nic%d","ip":%q,"network":%q}]`, d.mac(), n, d.address(), d.network())
	return fmt.Appendf(nil, `{"name":"i%d","primary_node":%q,"os":"o","hypervisor":"fake","admin_state":"down","admin_state_source":"admin",
		"nics":%s,"disks":[],"disks_active":false,"network_port":%d,"uuid":"inst%d","serial_no":1}`, n, d.node(), nics, d.int("port", 11000, 11004), n)
}

func (d drawer) newDisk() json.RawMessage {
	n := d.int("new", 0, 5)
	return fmt.Appendf(nil, `{"dev_type":"drbd","logical_id":["a0000000-0000-4000-8000-000000000001","a0000000-0000-4000-8000-000000000002",
		11001,%d,%d,"s%d"],"children":[{"dev_type":"plain","logical_id":["vg","lv%d"],"size":1,"uuid":"c%d","serial_no":1}],"size":1024,"uuid":"disk%d","serial_no":1}`, n+1, n+1, n, n, n, n)
}

// drawers draw the arguments of calls that change the state.
var drawers = map[string]func(d drawer) []any{
	"updateCluster": func(d drawer) []any {
		c := d.state.Config.Cluster.Value
		c.MasterNetmask = int64(d.int("mask", 0, 3))
		return []any{json.RawMessage(model.Clusters.NewObject(c).JSON())}
	},
	"updateNode": func(d drawer) []any {
		return []any{object(d, model.Nodes, func(n *model.Node) { n.Powered = !n.Powered })}
	},
	"updateInstance": func(d drawer) []any {
		return []any{object(d, model.Instances, func(i *model.Instance) { i.Serial += int64(d.int("off", 0, 1)) })}
	},
	"updateNodeGroup": func(d drawer) []any {
		return []any{object(d, model.Groups, func(g *model.NodeGroup) { g.Name += "x" })}
	},
	"updateNetwork": func(d drawer) []any {
		return []any{object(d, model.Networks, func(n *model.Network) { n.Name += "x" })}
	},
	"updateDisk": func(d drawer) []any { return []any{object(d, model.Disks, func(x *model.Disk) { x.Nodes = nil })} },
	"addInstance": func(d drawer) []any {
		return []any{d.newInstance(), d.owner(), rapid.Bool().Draw(d.T, "replace")}
	},
	"removeInstance":         func(d drawer) []any { return []any{d.instance()} },
	"setInstanceStatus":      func(d drawer) []any { return []any{d.instance(), d.orNull("up"), d.orNull(true), d.orNull("user")} },
	"setInstancePrimaryNode": func(d drawer) []any { return []any{d.instance(), d.node()} },
	"addInstanceDisk": func(d drawer) []any {
		return []any{d.instance(), d.newDisk(), d.orNull(d.int("index", -1, 3)), rapid.Bool().Draw(d.T, "replace")}
	},
	"attachInstanceDisk": func(d drawer) []any { return []any{d.instance(), d.disk(), d.orNull(d.int("index", 0, 3))} },
	"detachInstanceDisk": func(d drawer) []any { return []any{d.instance(), d.disk()} },
	"removeInstanceDisk": func(d drawer) []any { return []any{d.instance(), d.disk()} },
	"allocatePort":       func(d drawer) []any { return nil },
	"addTcpUdpPort":      func(d drawer) []any { return []any{d.int("port", 11000, 11004)} },

	"dropAllReservations":      func(d drawer) []any { return []any{d.owner()} },
	"allocateDRBDMinor":        func(d drawer) []any { return []any{d.disk(), []string{d.node()}} },
	"releaseDRBDMinors":        func(d drawer) []any { return []any{d.disk()} },
	"generateMAC":              func(d drawer) []any { return []any{d.owner(), d.orNull(d.network())} },
	"reserveMAC":               func(d drawer) []any { return []any{d.owner(), d.mac()} },
	"generateDRBDSecret":       func(d drawer) []any { return []any{d.owner()} },
	"reserveLV":                func(d drawer) []any { return []any{d.owner(), fmt.Sprintf("vg/lv%d", d.int("lv", 0, 5))} },
	"reserveIp":                func(d drawer) []any { return []any{d.owner(), d.network(), d.address(), rapid.Bool().Draw(d.T, "ext")} },
	"releaseIp":                func(d drawer) []any { return []any{d.owner(), d.network(), d.address()} },
	"generateIp":               func(d drawer) []any { return []any{d.owner(), d.network()} },
	"commitTemporaryIps":       func(d drawer) []any { return []any{d.owner()} },
	"commitReleaseTemporaryIp": func(d drawer) []any { return []any{d.network(), d.address()} },
}

func (d drawer) call() drawn {
	method := rapid.SampledFrom(slices.Sorted(maps.Keys(drawers))).Draw(d.T, "method")
	c := drawn{method: method}
	for _, a := range drawers[method](d) {
		raw, err := json.Marshal(a)
		require.NoError(d.T, err)
		c.args = append(c.args, raw)
	}
	return c
}

func startState(t testing.TB) State {
	base, _ := records(t)
	c, err := model.Decode(base)
	require.NoError(t, err)
	return NewState(c, reserve.State{})
}

// repeatable are the calls whose repetition has the same answer and changes nothing (config.md 4.7 and 12.5).
var repeatable = []string{"updateCluster", "updateNode", "updateInstance", "updateNodeGroup", "updateNetwork", "updateDisk", "addInstance", "removeInstance",
	"setInstanceStatus", "setInstancePrimaryNode", "addInstanceDisk", "attachInstanceDisk", "detachInstanceDisk", "removeInstanceDisk", "addTcpUdpPort",
	"dropAllReservations", "releaseDRBDMinors", "reserveMAC", "reserveLV", "reserveIp", "releaseIp", "commitTemporaryIps", "commitReleaseTemporaryIp"}

// Invariants of random sequences of calls: findings match the configuration; errors change nothing; each change increments
// the serial number; a repetition changes nothing; calls of a sane client leave a consistent configuration.
func TestAnySequence(t *testing.T) {
	start := startState(t)
	rapid.Check(t, func(t *rapid.T) {
		d := drawer{t, start, rapid.Bool().Draw(t, "sane")}
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			c := d.call()
			env := Env{Now: model.Time(1000 + i), Caller: reserve.Caller{PID: 1}, Random: func(n int) []byte {
				return rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "random")
			}}
			env.Locks.Held = rapid.IntRange(0, 9).Draw(t, "held") == 0
			call, err := Parse(c.method, c.args)
			if len(c.args) > 0 && string(c.args[0]) == "{}" {
				continue // there is no object of the kind
			}
			require.NoError(t, err, "%s", c)
			next, out := call.Apply(d.state, env)
			checkStep(t, d.state, next, out, c)
			if out.Err == nil && !out.Busy && slices.Contains(repeatable, c.method) {
				env.Now++
				again, repeated := call.Apply(next, env)
				require.Nil(t, repeated.Err, "%s", c)
				require.Equal(t, string(out.Result), string(repeated.Result), "%s", c)
				require.Same(t, next.Config, again.Config, "%s", c)
				require.True(t, next.Reserved.Equal(again.Reserved), "%s", c)
			}
			d.state = next
			if d.sane {
				require.Empty(t, d.state.Findings.Texts(), "%s", c)
			}
		}
		require.Equal(t, verify.Of(d.state.Config).Texts(), d.state.Findings.Texts())
		back, err := model.Decode(d.state.Config.JSON())
		require.NoError(t, err)
		require.Equal(t, string(d.state.Config.JSON()), string(back.JSON()))
		reserved, err := reserve.Decode(d.state.Reserved.Encode())
		require.NoError(t, err)
		require.Equal(t, string(d.state.Reserved.Encode()), string(reserved.Encode()))
	})
}

func checkStep(t *rapid.T, before, after State, out Outcome, c drawn) {
	switch {
	case out.Err != nil || out.Busy:
		require.Same(t, before.Config, after.Config, "%s", c)
		require.Equal(t, before.Reserved, after.Reserved, "%s", c)
	case !out.Changed:
		require.Same(t, before.Config, after.Config, "%s", c)
	case c.method == "addInstanceDisk":
		require.Equal(t, before.Config.Serial+2, after.Config.Serial)
	default:
		require.Equal(t, before.Config.Serial+1, after.Config.Serial, "%s", c)
	}
	patched, touched, err := before.Config.ApplyDelta(after.Config.Delta(out.Touched))
	require.NoError(t, err)
	require.ElementsMatch(t, out.Touched, touched)
	require.Equal(t, string(after.Config.JSON()), string(patched.JSON()), "%s", c)
	require.True(t, json.Valid(out.Result) || out.Err != nil, "%s: %s", c, out.Result)
	require.Equal(t, before.Reserved != after.Reserved, out.ReservedChanged)
}

// Random arguments are rejected or executed, without panic.
func TestAnyArguments(t *testing.T) {
	start := startState(t)
	values := rapid.SampledFrom([]string{"null", "true", "1", "-1", "1.5", "99999999999999999999", `""`, `"x"`, "[]", "{}", `[null]`,
		`[1,"l",1]`, `"10.0.0.3"`, `"10.0.0.999"`, `"e0000000-0000-4000-8000-000000000001"`, `"vg/lv"`, "\"\xe4\"", ` "x" `, `["a","a"]`, `{"uuid":null,"forthcoming":true}`,
		`{"uuid":"u","serial_no":1,"forthcoming":true}`, `"c0000000-0000-4000-8000-000000000001"`})
	rapid.Check(t, func(t *rapid.T) {
		method := rapid.SampledFrom(slices.Sorted(maps.Keys(specs))).Draw(t, "method")
		var args []json.RawMessage
		for _, v := range rapid.SliceOfN(values, 0, 5).Draw(t, "args") {
			args = append(args, json.RawMessage(v))
		}
		call, err := Parse(method, args)
		var refused *Error
		if errors.As(err, &refused) {
			require.Equal(t, "GenericError", refused.Class)
			require.Regexp(t, "^RPC input: .", refused.Text)
			return
		}
		require.NoError(t, err)
		env := Env{Now: 5, Random: func(n int) []byte { return make([]byte, n) }, Locks: Locks{Mode: lock.Exclusive, Granted: true}}
		_, out := call.Apply(start, env)
		require.True(t, out.IsConfig || out.Err != nil || json.Valid(out.Result), "%s %s", method, out.Result)
	})
	require.Len(t, specs, 40)
}

// A committed change of a pool is in every later configuration, whatever a client with the lock writes (config.md 12.12).
func TestCommitsAreNotLost(t *testing.T) {
	start := startState(t)
	rapid.Check(t, func(t *rapid.T) {
		state, used := start, "00100000"
		locked, read := false, ""
		do := func(locks Locks, method string, args ...string) Outcome {
			var raw []json.RawMessage
			for _, a := range args {
				raw = append(raw, json.RawMessage(a))
			}
			call, err := Parse(method, raw)
			require.NoError(t, err)
			var out Outcome
			state, out = call.Apply(state, Env{Now: 5, Locks: locks})
			return out
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch step := rapid.IntRange(0, 5).Draw(t, "step"); {
			case step == 0 && !locked:
				locked = true
				require.True(t, do(Locks{Granted: true, Held: true, Mode: lock.Exclusive}, "lockConfig", cidA, "false").IsConfig)
				read = string(state.Config.JSON())
			case step == 1 && locked:
				require.Nil(t, do(Locks{Held: true, Mode: lock.Exclusive}, "writeConfig", cidA, read).Err)
			case step == 2 && locked:
				locked = false
				require.Nil(t, do(Locks{Held: true, Mode: lock.Exclusive}, "writeConfigAndUnlock", cidA, read).Err)
			default:
				i := rapid.IntRange(2, 6).Draw(t, "host")
				address := fmt.Sprintf("\"10.0.0.%d\"", i)
				if used[i] == '1' {
					require.Nil(t, do(Locks{Held: locked}, "commitReleaseTemporaryIp", quoted(net1), address).Err)
					used = used[:i] + "0" + used[i+1:]
				} else {
					require.Nil(t, do(Locks{Held: locked}, "reserveIp", cidB, quoted(net1), address, "true").Err)
					require.Nil(t, do(Locks{Held: locked}, "commitTemporaryIps", cidB).Err)
					require.Nil(t, do(Locks{Held: locked}, "dropAllReservations", cidB).Err)
					used = used[:i] + "1" + used[i+1:]
				}
			}
			n, _ := state.Config.Networks.Get(net1)
			require.Equal(t, used, n.Value.Reservations.Value)
		}
	})
}

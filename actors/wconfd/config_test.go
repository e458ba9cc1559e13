package wconfd_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/conn"
)

const you = `["tool","/live/tool",7]`

// state is the state of the locks and the configuration.
func (w *whole) state() string {
	w.Helper()
	c := w.connect()
	return c.result("listLocksWaitingStatus", `[]`) + c.result("readConfig", `[]`)
}

// A change of the configuration locks, writes and unlocks.
func TestALifeOfTheConfiguration(t *testing.T) {
	onWhole(t, func(t *testing.T, w *whole, c *client) {
		other := w.connect()
		requireConfig(t, freshText(t), c.result("readConfig", `[]`))
		requireConfig(t, freshText(t), c.result("lockConfig", `[`+me+`,false]`))
		require.Equal(t, `null`, other.result("lockConfig", `[`+you+`,false]`))
		require.Equal(t, `null`, other.result("lockConfig", `[`+you+`,true]`))
		one := changed(freshText(t), "5")
		require.Equal(t, `false`, other.result("writeConfigAndUnlock", `[`+you+`,`+one+`]`))
		require.Equal(t, `[]`, c.result("writeConfig", `[`+me+`,`+one+`]`))
		requireConfig(t, one, w.stored())
		requireConfig(t, one, other.result("readConfig", `[]`))
		require.Equal(t, `[]`, c.result("unlockConfig", `[`+me+`]`))
		requireConfig(t, one, other.result("lockConfig", `[`+you+`,false]`))
		two := changed(one, "6")
		require.Equal(t, `true`, other.result("writeConfigAndUnlock", `[`+you+`,`+two+`]`))
		requireConfig(t, two, w.stored())
		require.Equal(t, `[[],[]]`, other.result("listLocksWaitingStatus", `[]`))
		c.Call("writeConfig", `[`+me+`,`+one+`]`)
		require.Contains(t, c.Answer(), "Requested lock OwnExclusive on the configuration missing")
		require.Equal(t, `[]`, c.result("verifyConfig", `[]`))
	})
}

// Readers share the lock, and block a writer.
func TestReadersOfTheConfiguration(t *testing.T) {
	onWhole(t, func(t *testing.T, w *whole, c *client) {
		other := w.connect()
		requireConfig(t, freshText(t), c.result("lockConfig", `[`+me+`,true]`))
		requireConfig(t, freshText(t), other.result("lockConfig", `[`+you+`,true]`))
		require.Equal(t, `null`, c.result("lockConfig", `[`+me+`,false]`))
		require.Equal(t, `[]`, other.result("unlockConfig", `[`+you+`]`))
		requireConfig(t, freshText(t), c.result("lockConfig", `[`+me+`,false]`))
	})
}

// After a failed write the client gets an error and still holds the lock, so that it can try again.
func TestAWriteThatFails(t *testing.T) {
	onWhole(t, func(t *testing.T, w *whole, c *client) {
		c.result("lockConfig", `[`+me+`,false]`)
		one := changed(freshText(t), "5")
		w.storage.Fail("the disk says no")
		c.Call("writeConfigAndUnlock", `[`+me+`,`+one+`]`)
		require.Contains(t, c.Answer(), "the disk says no")
		requireConfig(t, freshText(t), c.result("readConfig", `[]`))
		require.Equal(t, exclusive, c.result("listLocks", `[`+me+`]`))
		require.Equal(t, `true`, c.result("writeConfigAndUnlock", `[`+me+`,`+one+`]`))
		requireConfig(t, one, w.stored())
	})
}

// Ganeti's clients repeat a call when they lose the answer. The repetition has the same answer and no second effect.
// The exception is writeConfigAndUnlock, which answers false.
func TestEveryCallMayComeTwice(t *testing.T) {
	onWhole(t, func(t *testing.T, w *whole, c *client) {
		holder := w.connect()
		holder.result("updateLocksWaiting", `[`+you+`,0,[["instance/i","shared"],["node/z","exclusive"]]]`)
		one := changed(freshText(t), "5")
		for _, call := range []string{
			`echo ["x"]`, `readConfig []`, `verifyConfig []`, `flushConfig []`, `flushConfigGroup ["g"]`, `cleanupLocks []`,
			`dropAllReservations [` + me + `]`,
			`tryUpdateLocks [` + me + `,[["cluster/BGL","shared"],["instance/i","shared"]]]`,
			`tryUpdateLocks [` + me + `,[["node/z","shared"]]]`,
			`updateLocksWaiting [` + me + `,0,[["node/a","exclusive"],["node/b","exclusive"]]]`,
			`updateLocksWaiting [` + me + `,0,[["node/z","shared"]]]`,
			`hasPendingRequest [` + me + `]`,
			`listLocks [` + me + `]`, `listAllLocks []`, `listAllLocksOwners []`, `listLocksWaitingStatus []`,
			`freeLocksLevel [` + me + `,"network"]`,
			`downGradeLocksLevel [` + me + `,"node"]`,
			`intersectLocks [` + me + `,["node/a","instance/i"]]`,
			`guardedOpportunisticLockUnion [9,` + me + `,[["node/c","shared"]]]`,
			`opportunisticLockUnion [` + me + `,[["node/z","shared"]]]`,
			`lockConfig [` + me + `,true]`, `lockConfig [` + me + `,false]`,
			`writeConfig [` + me + `,` + one + `]`,
			`unlockConfig [` + me + `]`,
			`lockstepAwaitLocks [` + me + `,0,[["node-res/a","shared"]],60]`,
			`freeLocks [` + me + `]`,
		} {
			method, args, _ := strings.Cut(call, " ")
			first := c.result(method, args)
			after := w.state()
			again := w.connect() // the client has lost its connection
			require.Equal(t, first, again.result(method, args), method)
			require.Equal(t, after, w.state(), method)
		}
		c.result("lockConfig", `[`+me+`,false]`)
		require.Equal(t, `true`, c.result("writeConfigAndUnlock", `[`+me+`,`+freshText(t)+`]`))
		after := w.state()
		require.Equal(t, `false`, c.result("writeConfigAndUnlock", `[`+me+`,`+freshText(t)+`]`))
		require.Equal(t, after, w.state())
	})
}

// The connection is cut between the change and the answer, and the client repeats the call on a new one. The repetition has the
// answer of a call that was not cut, and no second effect (config.md 4.7). Calls that allocate a value allocate another one.
func TestACutConnection(t *testing.T) {
	allocates := []string{"allocatePort", "allocateDRBDMinor", "generateMAC", "generateDRBDSecret", "generateIp"}
	for method, row := range functions {
		if row[1] == aConfig || !slices.Contains(changing, method) {
			continue
		}
		t.Run(method, func(t *testing.T) {
			onWhole(t, func(t *testing.T, w *whole, c *client) {
				switch method {
				case "writeConfig", "writeConfigAndUnlock":
					c.result("lockConfig", `[`+me+`,false]`)
				case "commitTemporaryIps":
					c.result("reserveIp", `[`+me+`,"w","192.0.2.5",false]`)
				case "prepareClusterDestruction":
					c.result("tryUpdateLocks", `[`+me+`,[["cluster/BGL","exclusive"]]]`)
				}
				w.storage.Hold()
				args := withObjects(t, row[0])
				if strings.HasPrefix(method, "writeConfig") {
					args = changed(args, "5")
				}
				c.Call(method, args)
				if !slices.Contains([]string{"releaseDRBDMinors", "dropAllReservations", "setInstanceStatus", "setInstancePrimaryNode"}, method) { // they change nothing here
					c.Silent()
				}
				c.Tell(&conn.Closed{})
				w.storage.Release(w.Env)
				after := w.storage.State()
				again := w.connect()
				result := again.result(method, args)
				if slices.Contains(allocates, method) {
					return
				}
				want := strings.Replace(withObjects(t, row[1]), "TIME", fmt.Sprint(w.Clock.Now().Unix()), 1)
				if method == "writeConfigAndUnlock" {
					want = `false`
				}
				require.JSONEq(t, want, result)
				requireConfig(t, string(after.Config.JSON()), w.stored())
				require.True(t, after.Reserved.Equal(w.storage.State().Reserved))
			})
		})
	}
}

// changing are the calls of config.md 4 that change something.
var changing = []string{"writeConfig", "writeConfigAndUnlock", "prepareClusterDestruction", "dropAllReservations", "allocateDRBDMinor", "releaseDRBDMinors",
	"generateMAC", "reserveMAC", "generateDRBDSecret", "reserveLV", "reserveIp", "releaseIp", "generateIp", "commitTemporaryIps", "commitReleaseTemporaryIp",
	"addInstance", "addInstanceDisk", "attachInstanceDisk", "detachInstanceDisk", "removeInstanceDisk", "removeInstance", "setInstancePrimaryNode",
	"setInstanceStatus", "allocatePort", "addTcpUdpPort", "updateCluster", "updateNode", "updateInstance", "updateNodeGroup", "updateNetwork", "updateDisk"}

// A call is answered although the lock manager restarts meanwhile.
func TestTheLockManagerRestartsInACall(t *testing.T) {
	onWhole(t, func(t *testing.T, w *whole, c *client) {
		other := w.connect()
		c.result("updateLocksWaiting", `[`+me+`,0,[["node/a","exclusive"]]]`)
		other.Call("lockstepAwaitLocks", `[`+you+`,0,[["node/a","exclusive"]],600]`)
		other.Silent()
		w.Restart(w.PID("above-locks/locks"))
		other.Silent()
		require.Equal(t, `[]`, c.result("freeLocks", `[`+me+`]`))
		require.Contains(t, other.Answer(), `"granted":true`)
		require.Equal(t, `[["node/a","exclusive"]]`, other.result("listLocks", `[`+you+`]`))
	})
}

// After prepareClusterDestruction the daemon holds the big lock, and the configuration has no master.
func TestTheEndOfACluster(t *testing.T) {
	onWhole(t, func(t *testing.T, w *whole, c *client) {
		c.result("tryUpdateLocks", `[`+me+`,[["cluster/BGL","exclusive"]]]`)
		for range 2 {
			require.Equal(t, `[]`, c.result("prepareClusterDestruction", `[`+me+`]`))
			require.Contains(t, w.stored(), `"master_node":""`)
			require.Equal(t, `[]`, c.result("listLocks", `[`+me+`]`))
			require.JSONEq(t, `[["lockstepd-destruction","/live/daemon",1]]`,
				c.result("tryUpdateLocks", `[`+me+`,[["cluster/BGL","shared"]]]`))
		}
	})
}

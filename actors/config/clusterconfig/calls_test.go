package clusterconfig_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/config/configstore/configstoretest"
	"lockstep/actors/kittest"
	"lockstep/actors/locks"
	"lockstep/core/config/configtest"
	"lockstep/core/config/model"
	"lockstep/core/config/reserve"
	"lockstep/core/lock"
	"lockstep/messages"
)

func identity(o lock.Owner) string { return o.String() }

// An answered change is on the disk and published, and reads have it.
func TestAChangeIsDurableBeforeItsAnswer(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		before := b.current()
		b.storage.Hold()
		number := b.send("updateInstance", "["+b.instance(before, "post")+"]")
		b.client.Quiet()
		b.others.Quiet()
		require.Equal(t, string(before.JSON()), string(b.current().JSON()), "a read does not show what may be undone")
		b.storage.Release(b.Env)
		result, err := b.expect(number)
		require.NoError(t, err)
		require.Contains(t, result, "[2,")
		published := b.expectPublished()
		require.Equal(t, before.Serial+1, published.Serial)
		require.Equal(t, string(published.JSON()), string(b.current().JSON()))
		require.Equal(t, string(published.JSON()), string(b.storage.State().Config.JSON()))
	})
}

// Changes that arrive during a write share the next one. A call without a change that comes after them waits for them, since its
// answer tells of them.
func TestChangesShareAWrite(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.storage.Hold()
		var numbers []uint64
		for port := range 5 {
			numbers = append(numbers, b.send("addTcpUdpPort", fmt.Sprintf("[%d]", 12000+port)))
		}
		numbers = append(numbers, b.send("addTcpUdpPort", "[12004]")) // it is there
		b.client.Quiet()
		b.storage.Release(b.Env)
		for _, number := range numbers {
			result, err := b.expect(number)
			require.NoError(t, err)
			require.Equal(t, "true", result)
		}
		require.Equal(t, []int{1, 4}, b.storage.Batches())
		require.Equal(t, []int64{12004, 12003, 12002, 12001, 12000}, b.storage.State().Config.Cluster.Value.PortPool)
	})
}

// After a failed write memory equals the disk, and all calls that depend on the write fail.
func TestAFailedWriteIsUndone(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		before := b.current()
		b.call("reserveMAC", "["+identity(job12)+`,"aa:00:00:00:00:09"]`)
		b.storage.Hold()
		b.storage.Fail("disk full")
		numbers := []uint64{b.send("updateInstance", "["+b.instance(before, "post")+"]"), b.send("allocatePort", "[]"),
			b.send("reserveMAC", "["+identity(tool)+`,"aa:00:00:00:00:0a"]`), b.send("addTcpUdpPort", "[11000]")}
		b.storage.Release(b.Env)
		for _, number := range numbers {
			_, err := b.expect(number)
			require.EqualError(t, err, "ConfigurationError: disk full")
		}
		require.Equal(t, string(before.JSON()), string(b.current().JSON()))
		require.Len(t, b.storage.State().Reserved.Callers(), 1)
		b.others.Quiet()
		require.Equal(t, "[]", b.call("reserveMAC", "["+identity(tool)+`,"aa:00:00:00:00:0a"]`))
		require.Contains(t, b.call("updateInstance", "["+b.instance(before, "post")+"]"), "[2,")
		require.Equal(t, string(b.storage.State().Config.JSON()), string(b.current().JSON()))
	})
}

// If the storage has another state, the calls are applied to that one.
func TestARefusedRecordIsDecidedAgain(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.storage.Replace(configtest.Edit(t, fresh(t), configtest.Slots(7)))
		require.Equal(t, "11000", b.call("allocatePort", "[]"))
		require.Equal(t, int64(7), b.current().Cluster.Value.MaxRunningJobs)
		require.Equal(t, string(b.storage.State().Config.JSON()), string(b.current().JSON()))
	})
}

// While another program has changed config.data, changes fail, until an operator adopts or discards its content.
func TestForeignContent(t *testing.T) {
	for adopt, slots := range map[bool]int64{true: 7, false: 20} {
		onBench(t, func(t *testing.T, b *bench) {
			b.storage.Overwrite(configtest.Edit(t, fresh(t), configtest.Slots(7)))
			require.Contains(t, b.fails("allocatePort", "[]"), "another program has changed config.data")
			require.Equal(t, int64(20), b.current().Cluster.Value.MaxRunningJobs)
			b.client.Ask(b.cluster, &clusterconfig.CheckForeign{Request: 76})
			require.ErrorContains(t, kittest.Expect[*clusterconfig.CheckForeignResult](b.client).Foreign, "another program has changed config.data")
			b.client.Ask(b.cluster, &clusterconfig.ResolveForeign{Request: 77, Adopt: adopt})
			resolved := kittest.Expect[*clusterconfig.ResolveForeignResult](b.client)
			require.Equal(t, &clusterconfig.ResolveForeignResult{Request: 77, Foreign: true, Serial: b.storage.State().Config.Serial}, resolved)
			require.Equal(t, slots, b.current().Cluster.Value.MaxRunningJobs)
			require.Equal(t, "11000", b.call("allocatePort", "[]"))
			require.Equal(t, string(b.storage.State().Config.JSON()), string(b.current().JSON()))
		})
	}
}

// A restarted storage gets the open requests again.
func TestTheStorageRestarts(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.storage.Hold()
		number := b.send("allocatePort", "[]")
		b.storage.Restart(b.Env, b.cluster)
		result, err := b.expect(number)
		require.NoError(t, err)
		require.Equal(t, "11000", result)
	})
}

// The actor loads what was answered after a crash; a call under way has no answer, and its sender repeats it.
func TestTheActorCrashes(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.call("allocatePort", "[]")
		b.call("reserveMAC", "["+identity(job12)+`,"aa:00:00:00:00:09"]`)
		b.storage.Hold()
		b.send("allocatePort", "[]")
		b.Restart(b.cluster)
		kittest.Expect[*locks.PublishConfigLocks](b.locks)
		b.locked(nil)
		b.storage.Release(b.Env)
		b.client.Quiet()
		require.Equal(t, int64(11001), b.current().Cluster.Value.HighestUsedPort, "the record was written after the crash")
		require.Contains(t, b.fails("reserveMAC", "["+identity(tool)+`,"aa:00:00:00:00:09"]`), "Duplicate reservation")
		require.Contains(t, b.callers.take(), reserve.Caller{Known: true, Owner: job12})
	})
}

// The gateway repeats its question when the lock manager has read its files again. The actor works on one copy of it: a second one
// could succeed after the first was answered with a failure.
func TestARepeatedQuestion(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.storage.Hold()
		number := b.send("allocatePort", "[]")
		b.number--
		b.send("allocatePort", "[]") // the same number
		b.storage.Fail("disk full")
		b.storage.Release(b.Env)
		_, err := b.expect(number)
		require.ErrorContains(t, err, "disk full")
		b.number--
		b.send("allocatePort", "[]")
		b.client.Quiet()
		require.Equal(t, "11000", b.call("allocatePort", "[]"), "the refused call has no effect")
	})
}

// A call that takes the configuration lock waits for its release, for a second (config.md 12.15).
func TestCallsWaitForTheConfigurationLock(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.locked(map[lock.Owner]lock.Mode{tool: lock.Shared})
		first, second := b.send("allocatePort", "[]"), b.send("addTcpUdpPort", "[11000]")
		b.Advance(900 * time.Millisecond)
		b.client.Quiet()
		b.locked(nil)
		for number, want := range map[uint64]string{first: "11000"} {
			result, err := b.expect(number)
			require.NoError(t, err)
			require.Equal(t, want, result)
		}
		_, err := b.expect(second)
		require.NoError(t, err)
		b.locked(map[lock.Owner]lock.Mode{tool: lock.Exclusive})
		third, fourth := b.send("allocatePort", "[]"), b.send("addTcpUdpPort", "[11007]")
		b.Advance(time.Second)
		result, err := b.expect(third)
		require.NoError(t, err)
		require.Equal(t, "null", result)
		result, err = b.expect(fourth)
		require.NoError(t, err)
		require.Equal(t, "false", result)
		b.locked(nil)
		b.client.Quiet()
	})
}

// Until the lock manager has told the holders, only reads are answered.
func TestUnknownHolders(t *testing.T) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := newBench(t, e, nil)
		b.storage = startStorage(t, e)
		b.start()
		b.current()
		number := b.send("dropAllReservations", "["+identity(job12)+"]")
		b.Advance(time.Hour)
		b.client.Quiet()
		b.locked(nil)
		_, err := b.expect(number)
		require.NoError(t, err)
	})
}

// lockConfig answers with all changes that were applied before, when they are durable.
func TestLockConfigSeesChangesUnderWay(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.storage.Hold()
		change := b.send("allocatePort", "[]")
		b.locked(map[lock.Owner]lock.Mode{job12: lock.Exclusive})
		read := b.send("lockConfig", "["+identity(job12)+",false]")
		b.client.Quiet()
		b.storage.Release(b.Env)
		_, err := b.expect(change)
		require.NoError(t, err)
		content, err := b.expect(read)
		require.NoError(t, err)
		require.Equal(t, int64(11000), configtest.Decode(t, []byte(content)).Cluster.Value.HighestUsedPort)
	})
}

// A change that is made beside a holder of the configuration lock survives the holder's write (config.md 12.12).
func TestACommitBesideAHolder(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.call("reserveIp", "["+identity(tool)+`,"w","192.0.2.5",false]`)
		b.locked(map[lock.Owner]lock.Mode{job12: lock.Exclusive})
		old := b.call("lockConfig", "["+identity(job12)+",false]")
		require.Equal(t, "[]", b.call("commitTemporaryIps", "["+identity(tool)+"]"))
		pool := func() string { n, _ := b.current().Networks.Get("w"); return n.Value.Reservations.Value }
		require.Equal(t, "1000010000000000", pool())
		require.Len(t, b.storage.State().Concurrent, 1, "a crash keeps it")

		written := strings.Replace(old, `"max_running_jobs":20`, `"max_running_jobs":9`, 1)
		number := b.send("writeConfigAndUnlock", "["+identity(job12)+","+written+"]")
		op := b.lockCall(nil).(locks.Apply)
		require.Equal(t, "unlockConfig", op.Call.Function)
		result, err := b.expect(number)
		require.NoError(t, err)
		require.Equal(t, "true", result)
		require.Equal(t, "1000010000000000", pool())
		require.Equal(t, int64(9), b.current().Cluster.Value.MaxRunningJobs)

		// The lock is not free yet when the call comes again.
		number = b.send("writeConfigAndUnlock", "["+identity(job12)+","+written+"]")
		b.lockCall(nil)
		_, err = b.expect(number)
		require.NoError(t, err)
		require.Equal(t, "1000010000000000", pool())
		b.call("lockConfig", "["+identity(job12)+",false]")
		require.Empty(t, b.storage.State().Concurrent)
	})
}

// The lock is freed after the write, and not after a failed one.
func TestWriteConfigAndUnlock(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		content := string(b.current().JSON())
		require.Equal(t, "false", b.call("writeConfigAndUnlock", "["+identity(job12)+","+content+"]"))
		b.locked(map[lock.Owner]lock.Mode{job12: lock.Exclusive})
		changed := strings.Replace(content, `"max_running_jobs":20`, `"max_running_jobs":9`, 1)
		b.storage.Fail("disk full")
		require.Contains(t, b.fails("writeConfigAndUnlock", "["+identity(job12)+","+changed+"]"), "disk full")
		b.noLockCall()
		b.storage.Hold()
		number := b.send("writeConfigAndUnlock", "["+identity(job12)+","+changed+"]")
		b.noLockCall()
		b.storage.Release(b.Env)
		b.client.Quiet()
		b.lockCall(nil)
		result, err := b.expect(number)
		require.NoError(t, err)
		require.Equal(t, "true", result)

		number = b.send("writeConfigAndUnlock", "["+identity(job12)+","+content+"]")
		b.lockCall(messages.LockFailure("the locks cannot be written"))
		_, err = b.expect(number)
		require.EqualError(t, err, "LockError: The configuration was changed, and its lock is still held: the locks cannot be written")
		require.Equal(t, int64(20), b.current().Cluster.Value.MaxRunningJobs)

		number = b.send("unlockConfig", "["+identity(job12)+"]")
		b.lockCall(messages.LockFailure("the locks cannot be written"))
		_, err = b.expect(number)
		require.EqualError(t, err, "LockError: the locks cannot be written")
	})
}

// A call to the lock manager is repeated after its restart.
func TestTheLockManagerRestarts(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.locked(map[lock.Owner]lock.Mode{job12: lock.Shared})
		number := b.send("unlockConfig", "["+identity(job12)+"]")
		first := kittest.Expect[*locks.Operate](b.locks)
		b.Send(b.cluster, &messages.LocksStarted{Incarnation: 2})
		require.Equal(t, first, kittest.Expect[*locks.Operate](b.locks))
		b.locks.Ask(b.cluster, &locks.OperateResult{Request: first.Request, Value: []any{}})
		_, err := b.expect(number)
		require.NoError(t, err)
	})
}

// A flush waits for the fold, and not for a holder of the lock. So does a change that other nodes must have (config.md 8.2).
func TestFlush(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.locked(map[lock.Owner]lock.Mode{job12: lock.Shared})
		require.Equal(t, "[]", b.call("flushConfigGroup", `["g"]`))
		require.Equal(t, "[]", b.call("flushConfig", `[]`))
		require.Equal(t, 2, b.storage.Flushes())
		b.storage.Fail("disk full")
		require.Contains(t, b.fails("flushConfig", `[]`), "ConfigurationError: The configuration cannot be written: disk full")
		b.locked(nil)
		node, _ := b.current().Nodes.Get("n")
		b.call("updateNode", "["+string(node.JSON())+"]")
		require.Equal(t, 4, b.storage.Flushes(), "the node is the master")
		b.call("allocatePort", "[]")
		require.Equal(t, 4, b.storage.Flushes())
	})
}

func TestPrepareClusterDestruction(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		refusal := "GenericError: Cluster destruction requested without owning BGL exclusively"
		require.Equal(t, refusal, b.fails("prepareClusterDestruction", "["+identity(job12)+"]"))
		b.holds(nil, tool)
		require.Equal(t, refusal, b.fails("prepareClusterDestruction", "["+identity(job12)+"]"))
		b.holds(nil, job12)
		number := b.send("prepareClusterDestruction", "["+identity(job12)+"]")
		require.Equal(t, locks.PassBGL{From: job12}, b.lockCall(nil))
		_, err := b.expect(number)
		require.NoError(t, err)
		require.Empty(t, b.storage.State().Config.Cluster.Value.MasterNode)
		b.holds(nil, daemon)
		require.Equal(t, "[]", b.call("prepareClusterDestruction", "["+identity(job12)+"]"), "a repetition")
	})
}

// The reservations of a dead owner are dropped, also if it holds no lock.
func TestADeadOwner(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.call("reserveMAC", "["+identity(job12)+`,"aa:00:00:00:00:09"]`)
		b.call("reserveLV", "["+identity(tool)+`,"vg/three"]`)
		require.Equal(t, []reserve.Caller{{Known: true, Owner: job12}, {Known: true, Owner: tool}}, b.callers.take())
		b.Send(b.cluster, &clusterconfig.CallerDied{Caller: reserve.Caller{Known: true, Owner: lock.Owner{Livelock: job12.Livelock}}})
		b.Settle()
		require.Equal(t, []reserve.Caller{{Known: true, Owner: tool}}, b.storage.State().Reserved.Callers())

		// A release that cannot be written is repeated.
		b.storage.Fail("disk full")
		b.Send(b.cluster, &clusterconfig.CallerDied{Caller: reserve.Caller{Known: true, Owner: tool}})
		b.Settle()
		require.NotEmpty(t, b.storage.State().Reserved.Callers())
		b.Advance(time.Minute)
		b.Settle()
		require.Empty(t, b.storage.State().Reserved.Callers())
	})
}

// An owner drops its reservations and dies before that is written. When the write fails, the actor asks again whether the owner lives.
func TestAnOwnerDiesDuringAFailedWrite(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.call("reserveMAC", "["+identity(job12)+`,"aa:00:00:00:00:09"]`)
		b.storage.Hold()
		number := b.send("dropAllReservations", "["+identity(job12)+"]")
		caller := reserve.Caller{Known: true, Owner: job12}
		b.Send(b.cluster, &clusterconfig.CallerDied{Caller: caller})
		b.Settle()
		b.callers.take()
		b.storage.Fail("disk full")
		b.storage.Release(b.Env)
		_, err := b.expect(number)
		require.ErrorContains(t, err, "disk full")
		require.Equal(t, []reserve.Caller{caller}, b.callers.take())
		b.Send(b.cluster, &clusterconfig.CallerDied{Caller: caller})
		b.Settle()
		require.Empty(t, b.storage.State().Reserved.Callers())
	})
}

// The owner of a DRBD minor is the process at the other end of the socket: a tool by its pid, or the owner that it has named
// itself in another call. The minor stays while a disk of the configuration has it (config.md 12.6).
func TestTheOwnerOfAMinor(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		process := reserve.Caller{PID: 4711, UID: 1000, Program: "python3"}
		require.Equal(t, "[0]", b.call("allocateDRBDMinor", `["new",["n"]]`))
		require.Equal(t, []reserve.Caller{process}, b.callers.take())
		b.Send(b.cluster, &clusterconfig.Identified{PID: 112, Owner: job12})
		b.Send(b.cluster, &clusterconfig.Identified{PID: 112, Owner: tool}) // has another pid
		b.pid = 112
		require.Equal(t, "[1]", b.call("allocateDRBDMinor", `["d",["n"]]`))
		known := reserve.Caller{Known: true, Owner: job12}
		require.Equal(t, []reserve.Caller{process, known}, b.storage.State().Reserved.Callers())

		for _, died := range []reserve.Caller{process, known} {
			b.Send(b.cluster, &clusterconfig.CallerDied{Caller: died})
			b.Settle()
		}
		require.Equal(t, []reserve.Caller{known}, b.storage.State().Reserved.Callers(), "disk d has its minor")
		require.Equal(t, "true", b.call("removeInstanceDisk", `["i","d"]`))
		b.Settle()
		require.Empty(t, b.storage.State().Reserved.Callers())
		require.Equal(t, "[0]", b.call("allocateDRBDMinor", `["f",["n"]]`))
		require.Equal(t, []reserve.Caller{{PID: 112, UID: 1000, Program: "python3"}}, b.storage.State().Reserved.Callers(), "a dead owner's pid is no name")
	})
}

// A repeated call, after the connection was cut between change and answer, has the first answer and no second effect
// (config.md 4.7).
func TestRepeatedCalls(t *testing.T) {
	cid := identity(job12)
	network := `"w"`
	for name, c := range map[string]struct {
		prepare []string // calls before: method, space, arguments
		call    string
		leaks   bool // the second call cannot be told from another one
	}{
		"add":            {nil, `addInstance [INSTANCE,CID,false]`, false},
		"remove":         {nil, `removeInstance ["i"]`, false},
		"status":         {nil, `setInstanceStatus ["i","up",true,"admin"]`, false},
		"primary":        {nil, `setInstancePrimaryNode ["i","n"]`, false},
		"add a disk":     {nil, `addInstanceDisk ["i",DISK,null,false]`, false},
		"attach":         {nil, `attachInstanceDisk ["i","e",null]`, false},
		"detach":         {nil, `detachInstanceDisk ["i","d"]`, false},
		"remove a disk":  {nil, `removeInstanceDisk ["i","d"]`, false},
		"port":           {nil, `addTcpUdpPort [11003]`, false},
		"take a port":    {nil, `allocatePort []`, true},
		"minor":          {nil, `allocateDRBDMinor ["e",["n"]]`, true},
		"release":        {[]string{`allocateDRBDMinor ["e",["n"]]`}, `releaseDRBDMinors ["e"]`, false},
		"drop":           {[]string{`reserveMAC [CID,"aa:00:00:00:00:09"]`}, `dropAllReservations [CID]`, false},
		"mac":            {nil, `reserveMAC [CID,"aa:00:00:00:00:09"]`, false},
		"lv":             {nil, `reserveLV [CID,"vg/three"]`, false},
		"ip":             {nil, `reserveIp [CID,` + network + `,"192.0.2.5",false]`, false},
		"release ip":     {nil, `releaseIp [CID,` + network + `,"192.0.2.0"]`, false},
		"commit":         {[]string{`reserveIp [CID,` + network + `,"192.0.2.5",false]`}, `commitTemporaryIps [CID]`, false},
		"commit release": {nil, `commitReleaseTemporaryIp [` + network + `,"192.0.2.0"]`, false},
		"generate ip":    {nil, `generateIp [CID,` + network + `]`, true},
		"instance":       {nil, `updateInstance [OBJECT]`, false},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				added := configtest.Complete(t, []byte(`{"instances": {"j": {"name": "web", "primary_node": "n"}}, "disks": {"f": {"dev_type": "plain", "logical_id": ["vg", "four"]}}}`))
				instance, _ := added.Instances.Get("j")
				disk, _ := added.Disks.Get("f")
				replace := strings.NewReplacer("CID", cid, "INSTANCE", string(instance.JSON()), "DISK", string(disk.JSON()), "OBJECT", b.instance(b.current(), "post"))
				for _, before := range c.prepare {
					method, args, _ := strings.Cut(replace.Replace(before), " ")
					b.call(method, args)
				}
				method, args, _ := strings.Cut(replace.Replace(c.call), " ")
				first := b.call(method, args)
				b.Settle()
				after := b.storage.State()
				b.Advance(time.Minute)
				second := b.call(method, args)
				if c.leaks {
					return
				}
				require.JSONEq(t, first, second)
				require.Equal(t, string(after.Config.JSON()), string(b.storage.State().Config.JSON()))
				require.True(t, after.Reserved.Equal(b.storage.State().Reserved))
			})
		})
	}
}

// The author of a change is the client that the call names, or the process that has made it.
func TestOwnEdits(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		edit := func(m *messages.EditConfig) *messages.Failure {
			b.number++
			m.Request = b.number
			b.client.Ask(b.cluster, m)
			b.Settle()
			return kittest.Expect[*messages.EditConfigResult](b.client).Failure
		}
		require.Nil(t, edit(&messages.EditConfig{Cluster: map[string][]byte{"max_running_jobs": []byte("7")}}))
		require.Equal(t, int64(7), b.expectPublished().Cluster.Value.MaxRunningJobs)
		require.Equal(t, "max_running_jobs is 0, must be at least 1", edit(&messages.EditConfig{Cluster: map[string][]byte{"max_running_jobs": []byte("0")}}).Text)
		rule := configtest.Rule("f", "")
		require.Nil(t, edit(&messages.EditConfig{Filter: "f", Rule: rule.Rule}))
		require.True(t, b.expectPublished().Filters.Has("f"))
		require.Nil(t, edit(&messages.EditConfig{Filter: "f"}))
		require.False(t, b.expectPublished().Filters.Has("f"))
		require.Equal(t, "There is no filter rule f", edit(&messages.EditConfig{Filter: "f"}).Text)
		b.storage.Fail("disk full")
		require.Contains(t, edit(&messages.EditConfig{Cluster: map[string][]byte{"max_running_jobs": []byte("8")}}).Text, "disk full")
		require.Equal(t, int64(7), b.current().Cluster.Value.MaxRunningJobs)

		b.locked(map[lock.Owner]lock.Mode{tool: lock.Exclusive})
		b.client.Ask(b.cluster, &messages.EditConfig{Request: 77, Filter: "f", Rule: rule.Rule})
		b.Advance(59 * time.Second)
		b.client.Quiet()
		b.Advance(time.Second)
		require.Equal(t, "The configuration is locked by "+tool.String()+"; try again", kittest.Expect[*messages.EditConfigResult](b.client).Failure.Text)
	})
}

// The actor waits until the storage has a configuration that can be used.
func TestAConfigurationThatCannotBeUsed(t *testing.T) {
	for reason, c := range map[string]*model.Config{
		"master node":               configtest.Complete(t, []byte(`{"cluster": {"master_node": "gone"}}`)),
		"there is no configuration": nil,
	} {
		kittest.Run(t, func(t *testing.T, e *kittest.Env) {
			b := newBench(t, e, nil)
			b.storage = configstoretest.Start(t, e, c)
			b.startUnusable()
			b.number++
			b.client.Ask(b.cluster, &messages.PublishConfig{Request: b.number})
			b.client.Quiet()
			require.Contains(t, b.Logged("configuration cannot be loaded; loading it again")[0]["err"], reason)
			b.storage.Replace(fresh(t))
			b.Advance(time.Second)
			b.expectPublished()
		})
	}
}

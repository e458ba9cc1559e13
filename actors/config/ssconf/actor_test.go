package ssconf_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/config/configstore"
	"lockstep/actors/config/ssconf"
	"lockstep/actors/kittest"
	"lockstep/actors/store"
	"lockstep/core/config"
	"lockstep/core/config/model"
	values "lockstep/core/config/ssconf"
)

const release = "3.0.2"

// bench is the actor with a store on a disk in memory, and a probe for the actor that publishes configurations.
type bench struct {
	testing.TB
	*kittest.Env
	disk       *kittest.Disk
	publisher  *kittest.Probe
	store, pid *actor.PID
	config     *model.Config
	writesOnce int // as of the last wantWrites
}

// fresh is the configuration of a new cluster.
func fresh(t testing.TB) *model.Config {
	c, err := config.New(config.Identity{ClusterName: "demo", ClusterUUID: "c", NodeName: "node1", NodeUUID: "n", NodeIP: "192.0.2.1", GroupUUID: "g", Now: 1})
	require.NoError(t, err)
	return c
}

func onBench(t *testing.T, f func(*bench)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{TB: t, Env: e, disk: kittest.NewDisk(nil), publisher: e.Probe("publisher"), config: fresh(t)}
		b.store = e.Start("store", store.Props(store.Config{Env: e.Env, Files: b.disk, Writers: 4, Clients: []*actor.PID{e.PID("above-ssconf/ssconf")}}))
		b.pid = e.Start("ssconf", ssconf.Props(ssconf.Config{Env: e.Env, Store: b.store, ConfigStore: b.publisher.PID, Release: release}))
		kittest.Expect[*configstore.PublishCopy](b.publisher)
		f(b)
	})
}

// publish publishes the configuration after a change.
func (b *bench) publish(change func(*model.Edit)) {
	b.Helper()
	e := b.config.Edit()
	change(e)
	b.config, _ = e.Commit(2)
	b.publisher.Ask(b.pid, &configstore.CopyPublished{Config: b.config})
	b.Settle()
}

func nothing(*model.Edit) {}

// tag adds a tag to the cluster, which changes one file.
func tag(name string) func(*model.Edit) {
	return func(e *model.Edit) {
		v := e.Config().Cluster.Value
		v.Tags = append(append([]string{}, v.Tags...), name)
		e.SetCluster(v)
	}
}

// wantFiles requires that the disk has exactly the values of the configuration.
func (b *bench) wantFiles() {
	b.Helper()
	files, err := values.Of(b.config, release).WithoutHypervisors().Files()
	require.NoError(b, err)
	require.Len(b, b.disk.Names(), len(files))
	for _, f := range files {
		require.Equal(b, f.Content, b.disk.Content(f.Name), f.Name)
	}
}

// wantWrites requires the writes since the last call: the number of files, or their keys.
func (b *bench) wantWrites(count int, keys ...string) {
	b.Helper()
	calls := b.disk.Calls("replace ssconf ssconf_")[b.writesOnce:]
	b.writesOnce += len(calls)
	require.Len(b, calls, count)
	for i, key := range keys {
		require.Equal(b, "replace ssconf ssconf_"+key, calls[i])
	}
}

// Each start writes all files, whatever they hold. Later only files whose values change are written.
func TestFilesFollowTheConfiguration(t *testing.T) {
	onBench(t, func(b *bench) {
		require.NoError(t, b.disk.Replace("before", "ssconf_cluster_name", []byte("former\n")))
		require.NoError(t, b.disk.Replace("before", "ssconf_hypervisor_list", []byte("of an earlier version\n")))
		b.wantWrites(0)
		b.publish(nothing)
		b.wantWrites(22)
		b.wantFiles()
		b.Advance(ssconf.Interval)
		b.publish(tag("x"))
		b.wantWrites(1, "cluster_tags")
		require.Equal(t, "x\n", b.disk.Content("ssconf_cluster_tags"))
		b.wantFiles()
		b.Advance(ssconf.Interval)

		b.publish(func(e *model.Edit) {
			n, _ := e.Config().Nodes.Get("n")
			v := n.Value
			v.Offline = true
			model.Nodes.Put(e, "n", v)
		})
		b.wantWrites(2)
		b.wantFiles()
		b.Advance(ssconf.Interval)

		b.publish(func(e *model.Edit) { e.BumpSerial() }) // touches no value
		b.publish(nothing)
		b.Advance(time.Hour)
		b.wantWrites(0)
		b.wantFiles()
	})
}

// A change that is taken back within the pause writes nothing.
func TestAChangeThatIsTakenBack(t *testing.T) {
	onBench(t, func(b *bench) {
		b.publish(nothing)
		b.wantWrites(22)
		former := b.config
		b.publish(tag("x"))
		b.config = former
		b.publish(func(e *model.Edit) {
			v := e.Config().Cluster.Value
			v.MaxRunningJobs++ // no file has it
			e.SetCluster(v)
		})
		b.Advance(ssconf.Interval)
		b.wantWrites(0)
		b.Advance(ssconf.Interval)
		b.publish(tag("y"))
		b.wantWrites(1, "cluster_tags")
	})
}

// Of the configurations that come while files are written, or within the pause after it, the last one is written.
func TestLatestConfigurationCounts(t *testing.T) {
	onBench(t, func(b *bench) {
		block := b.disk.Block("replace ssconf ssconf_cluster_tags")
		b.publish(tag("a"))
		block.Entered()
		b.publish(tag("b"))
		b.publish(tag("c"))
		block.Release()
		b.Settle()
		b.wantWrites(22)
		require.Equal(t, "a\n", b.disk.Content("ssconf_cluster_tags"))
		b.Advance(ssconf.Interval)
		b.wantWrites(1, "cluster_tags")
		b.wantFiles()
		b.publish(tag("d"))
		b.publish(tag("e"))
		b.wantWrites(0)
		b.Advance(ssconf.Interval)
		b.wantWrites(1, "cluster_tags")
		b.wantFiles()
	})
}

// A failed write is repeated with growing pauses, with the values of that time, and harms no other file.
func TestFailedWrites(t *testing.T) {
	onBench(t, func(b *bench) {
		b.disk.Fail("replace ssconf ssconf_cluster_tags", 3)
		b.publish(tag("a"))
		b.wantWrites(22)
		require.Len(t, b.Logged("write of ssconf files failed; they are written again after a pause"), 1)
		b.Advance(100 * time.Millisecond)
		b.wantWrites(1, "cluster_tags")
		b.Advance(100 * time.Millisecond)
		b.wantWrites(0)
		b.publish(tag("b"))
		b.wantWrites(0)
		b.Advance(100 * time.Millisecond)
		b.wantWrites(1, "cluster_tags")
		b.Advance(400 * time.Millisecond)
		b.wantWrites(1, "cluster_tags")
		b.wantFiles()
		require.Len(t, b.Logged("write of ssconf files failed; they are written again after a pause"), 3)
		b.Advance(time.Hour)
		b.wantWrites(0)

		// A disk that fails for long is tried every 30 s, without a change too.
		b.disk.Fail("replace", 20)
		b.publish(tag("c"))
		for range 20 {
			b.Advance(30 * time.Second)
		}
		b.wantWrites(21)
		b.wantFiles()
		b.Advance(ssconf.Interval)
		b.publish(tag("d"))
		b.wantWrites(1, "cluster_tags")
	})
}

// After a failed write the content of a file is unknown: a value that returns to the former one is written.
func TestFailedWriteOfAFormerValue(t *testing.T) {
	onBench(t, func(b *bench) {
		b.publish(nothing)
		b.Advance(ssconf.Interval)
		b.wantWrites(22)
		before := b.config
		b.disk.Fail("replace ssconf ssconf_cluster_tags", 1)
		b.publish(tag("a"))
		b.wantWrites(1, "cluster_tags")
		b.config = before
		b.publish(nothing)
		b.Advance(time.Second)
		b.wantWrites(1, "cluster_tags")
		b.wantFiles()
	})
}

// After its crash the actor asks for the configuration and writes all files.
func TestRestart(t *testing.T) {
	onBench(t, func(b *bench) {
		b.publish(tag("a"))
		b.Advance(ssconf.Interval)
		b.wantWrites(22)
		block := b.disk.Block("replace ssconf ssconf_cluster_tags")
		b.publish(tag("b"))
		block.Entered()
		b.Restart(b.pid)
		kittest.Expect[*configstore.PublishCopy](b.publisher)
		b.publish(tag("c"))
		block.Release()
		b.Advance(time.Hour)
		b.wantWrites(23)
		b.wantFiles()
		b.publisher.Quiet()
	})
}

// A crash of the store loses no write.
func TestRestartOfTheStore(t *testing.T) {
	onBench(t, func(b *bench) {
		b.Crash(b.store)
		b.publish(tag("a"))
		b.wantWrites(0)
		b.Advance(kittest.Backoff)
		b.wantWrites(22)
		b.wantFiles()
	})
}

// A value that is too long is logged once, and its file keeps its content.
func TestValueThatIsTooLong(t *testing.T) {
	onBench(t, func(b *bench) {
		b.publish(tag("a"))
		b.Advance(ssconf.Interval)
		b.wantWrites(22)
		for i := range 3 {
			b.publish(func(e *model.Edit) {
				v := e.Config().Cluster.Value
				v.Tags = []string{strings.Repeat("x", 200_000+i)}
				v.Name = fmt.Sprintf("demo%d", i)
				e.SetCluster(v)
			})
			b.Advance(ssconf.Interval)
			b.wantWrites(1, "cluster_name")
		}
		require.Len(t, b.Logged("ssconf values are too long; their files keep their content"), 1)
		require.Equal(t, "a\n", b.disk.Content("ssconf_cluster_tags"))
	})
}

// The actor writes nothing before it has a configuration.
func TestWithoutConfiguration(t *testing.T) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		disk := kittest.NewDisk(nil)
		pid := e.Start("store", store.Props(store.Config{Env: e.Env, Files: disk, Writers: 1, Clients: []*actor.PID{e.PID("above-ssconf/ssconf")}}))
		writer := e.Start("ssconf", ssconf.Props(ssconf.Config{Env: e.Env, Store: pid, ConfigStore: e.Probe("publisher").PID, Release: release}))
		e.Advance(time.Hour)
		require.Empty(t, disk.Names())
		e.Send(writer, &configstore.CopyPublished{Config: fresh(t)})
		e.Settle()
		require.Len(t, disk.Names(), 22)
		require.Empty(t, disk.Calls("sync"), "the start after a power loss writes the files")
	})
}

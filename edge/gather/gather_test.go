package gather_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"lockstep/actors/kit"
	"lockstep/actors/monitor"
	core "lockstep/core/monitor"
	"lockstep/edge/gather"
)

// asker receives readings.
type asker struct{ got chan *monitor.Gathered }

func (a *asker) Receive(ctx actor.Context) {
	if m, is := ctx.Message().(*monitor.Gathered); is {
		a.got <- m
	}
}

type bench struct {
	t       *testing.T
	sources *gather.Sources
	got     chan *monitor.Gathered
	to      *actor.PID
	number  uint64
}

func newBench(t *testing.T, c gather.Config) *bench {
	env := kit.New(kit.Options{})
	b := &bench{t: t, got: make(chan *monitor.Gathered, 100)}
	pid, _, err := env.SpawnRoot(env.Props("asker", func() actor.Actor { return &asker{b.got} }), "asker")
	require.NoError(t, err)
	c.System = env.System()
	b.to, b.sources = pid, gather.New(c)
	return b
}

func (b *bench) next() *monitor.Gathered {
	b.t.Helper()
	select {
	case m := <-b.got:
		return m
	case <-time.After(20 * time.Second):
		b.t.Fatal("no answer")
		return nil
	}
}

func (b *bench) ask(collector string) *monitor.Gathered {
	b.t.Helper()
	b.number++
	b.sources.Gather(b.number, collector, b.to)
	m := b.next()
	require.Equal(b.t, b.number, m.Number)
	require.Equal(b.t, collector, m.Collector)
	return m
}

func write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

// program puts a shell script into a directory that is the only one in PATH.
func program(t *testing.T, dir, name, script string) {
	t.Helper()
	write(t, filepath.Join(dir, name), "#!/bin/sh\n"+script+"\n")
	require.NoError(t, os.Chmod(filepath.Join(dir, name), 0o700))
	t.Setenv("PATH", dir+":/bin:/usr/bin")
}

func TestFilesOfTheKernel(t *testing.T) {
	proc := t.TempDir()
	b := newBench(t, gather.Config{Proc: proc})
	require.True(t, b.ask(core.DRBD).Absent, "no DRBD here")
	write(t, filepath.Join(proc, "drbd"), "version: 8.4.2\n")
	m := b.ask(core.DRBD)
	require.False(t, m.Absent)
	require.Equal(t, "version: 8.4.2\n", string(m.Reading.Text))
	require.NoError(t, os.Mkdir(filepath.Join(proc, "diskstats"), 0o700))
	require.Error(t, b.ask(core.DiskStats).Err)
	write(t, filepath.Join(proc, "stat"), strings.Repeat("x", 5<<20))
	require.ErrorContains(t, b.ask(core.CPULoad).Err, "is longer than")
}

func TestTheRealKernel(t *testing.T) {
	b := newBench(t, gather.Config{Proc: "/proc", DataDir: t.TempDir()})
	var cpu core.CPU
	require.NoError(t, cpu.Add(time.Now(), b.ask(core.CPULoad).Reading.Text))
	_, err := core.DiskStatsData(b.ask(core.DiskStats).Reading.Text)
	require.NoError(t, err)
	u := b.ask(core.Lockstepd).Reading.Usage
	require.Greater(t, u.Memory, int64(1<<20))
	require.Greater(t, u.Goroutines, 0)
	require.Greater(t, u.CPU, time.Duration(0))
	booted := gather.BootTime("/proc")
	p := gather.Describe("/proc", core.Process{Job: 5, PID: os.Getpid()}, booted)
	require.Greater(t, p.RSS, int64(1<<20))
	require.InDelta(t, float64(time.Now().Unix()), p.Since, 600)
	require.Equal(t, core.Process{PID: 1 << 30}, gather.Describe("/proc", core.Process{PID: 1 << 30}, booted))
}

func TestPrograms(t *testing.T) {
	dir := t.TempDir()
	b := newBench(t, gather.Config{})
	program(t, dir, "lvs", `echo "$*"`)
	require.Contains(t, string(b.ask(core.LV).Reading.Text), "--units B --separator ; -o lv_uuid,")
	program(t, dir, "lvs", `echo "no such group" >&2; exit 5`)
	require.EqualError(t, b.ask(core.LV).Err, "lvs: exit status 5: no such group")
	program(t, dir, "lvs", `yes 0123456789012345678901234567890123456789012345678901234567890123456789`)
	require.Error(t, b.ask(core.LV).Err, "the output is bounded")
	require.True(t, b.ask(core.XenCPULoad).Absent)
	require.True(t, b.ask(core.InstStatus).Absent)
	program(t, dir, "xl", `[ "$1" = list ] && echo "Name ID" || exit 1`)
	require.Equal(t, "Name ID\n", string(b.ask(core.InstStatus).Reading.Xen.List))
}

// One reading at a time for each collector: a later request is answered by a reading that begins after it.
func TestAReadingThatHangsDelaysItselfOnly(t *testing.T) {
	dir, proc := t.TempDir(), t.TempDir()
	pipe, count := filepath.Join(dir, "pipe"), filepath.Join(dir, "count")
	for _, number := range []string{"1", "2"} {
		require.NoError(t, unix.Mkfifo(pipe+number, 0o600))
	}
	program(t, dir, "lvs", `echo x >> `+count+`; read line < `+pipe+`$(grep -c x `+count+`); echo "$line"`)
	b := newBench(t, gather.Config{Proc: proc})
	for number := range uint64(50) {
		b.sources.Gather(number+1, core.LV, b.to)
	}
	b.number = 50
	require.True(t, b.ask(core.DRBD).Absent)
	for i, line := range []string{"first", "second"} {
		f, err := os.OpenFile(pipe+strconv.Itoa(i+1), os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.WriteString(line + "\n")
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	m := b.next()
	require.Equal(t, uint64(50), m.Number)
	require.Equal(t, "second\n", string(m.Reading.Text))
	lines, err := os.ReadFile(count)
	require.NoError(t, err)
	require.Equal(t, "x\nx\n", string(lines))
	require.Empty(t, b.got)
}

func TestOwnCollectors(t *testing.T) {
	data := t.TempDir()
	b := newBench(t, gather.Config{Proc: "/proc", DataDir: data, Restarts: func() int64 { return 3 }, Log: func() (uint64, uint64) { return 4, 90 },
		Processes: func() []core.Process { return []core.Process{{Job: 7}} }})
	require.True(t, b.ask(core.QueueName).Reading.Disk.Unwritable, "there is no directory")
	require.NoError(t, os.Mkdir(filepath.Join(data, "queue"), 0o700))
	d := b.ask(core.QueueName).Reading.Disk
	require.False(t, d.Unwritable)
	require.True(t, d.Known)
	write(t, filepath.Join(data, "ssconf_node_list"), "n1\n")
	require.Equal(t, map[string][]byte{"ssconf_node_list": []byte("n1\n")}, b.ask(core.ConfigName).Reading.Files)
	require.Equal(t, int64(7), b.ask(core.Processes).Reading.Processes[0].Job)
	require.Equal(t, int64(3), b.ask(core.Lockstepd).Reading.Usage.Restarts)
	r := b.ask(core.Replication).Reading
	require.Equal(t, []uint64{4, 90}, []uint64{r.Term, r.Committed})
	empty := newBench(t, gather.Config{})
	require.Empty(t, empty.ask(core.ConfigName).Reading.Files)
	require.False(t, empty.ask(core.QueueName).Reading.Disk.Known)
}

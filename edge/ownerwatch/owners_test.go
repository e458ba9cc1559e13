package ownerwatch

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"lockstep/core/ownership"
	"lockstep/persistence"
)

const (
	patience = 30 * time.Second
	// never turns off periodic probes: only the watches report deaths.
	never = time.Hour
	// often makes periodic probes frequent.
	often = time.Millisecond
)

// fixture is the port with the deaths that it has reported.
type fixture struct {
	t      testing.TB
	dir    string
	port   *Owners
	deaths chan string
}

func newFixture(t testing.TB, pause time.Duration) *fixture {
	t.Helper()
	r := &fixture{t: t, dir: t.TempDir(), deaths: make(chan string, 4096)}
	r.port = New(r.dir, "", func(livelock string) { r.deaths <- livelock })
	r.port.interval = pause
	t.Cleanup(r.port.Close)
	return r
}

func receiveWithin[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		require.Fail(t, "nothing comes")
		panic("unreachable")
	}
}

func (r *fixture) expect(livelock string) {
	r.t.Helper()
	require.Equal(r.t, livelock, receiveWithin(r.t, r.deaths))
}

// probe probes livelocks and returns the dead ones. All deaths before it may have been
// reported when it returns.
func (r *fixture) probe(livelocks ...string) []string {
	r.t.Helper()
	answer := make(chan []string, 1)
	r.port.Probe(livelocks, func(dead []string) { answer <- dead })
	return receiveWithin(r.t, answer)
}

// expectNone fails if another death is reported.
func (r *fixture) expectNone() {
	r.t.Helper()
	r.port.Close()
	require.Empty(r.t, r.deaths)
}

func TestDeathIsSeenByEvent(t *testing.T) {
	r := newFixture(t, never)
	o := startOwnerProcess(t, r.dir, "job_000001", "job_000002")
	r.port.Watch(o.livelocks[0], o.pid())
	r.port.Watch(o.livelocks[1], o.pid())
	r.port.Watch(o.livelocks[1], o.pid())
	require.Empty(t, r.probe(o.livelocks...))
	require.Empty(t, r.deaths)
	o.kill()
	first, second := receiveWithin(t, r.deaths), receiveWithin(t, r.deaths)
	require.ElementsMatch(t, o.livelocks, []string{first, second})
	require.ElementsMatch(t, o.livelocks, r.probe(o.livelocks...))
	r.port.Watch(o.livelocks[0], o.pid())
	r.expect(o.livelocks[0]) // that watch was over
	r.expectNone()
}

func TestAnEndInOrderIsADeathToo(t *testing.T) {
	r := newFixture(t, never)
	o := startOwnerProcess(t, r.dir, "job_000001")
	r.port.Watch(o.livelocks[0], o.pid())
	require.Empty(t, o.readRest())
	r.expect(o.livelocks[0])
}

// Only regular livelocks directly in the directory can be alive. A path that a client names
// counts as dead if it leads elsewhere or to another kind of file.
func TestWhatIsDeadFromTheBeginning(t *testing.T) {
	r := newFixture(t, never)
	elsewhere := startOwnerProcess(t, t.TempDir(), "job_000001")
	outside := elsewhere.livelocks[0]
	in := func(name string) string { return filepath.Join(r.dir, name) }
	require.NoError(t, os.WriteFile(in("free"), nil, 0o640))
	require.NoError(t, unix.Mkfifo(in("fifo"), 0o640))
	require.NoError(t, os.Mkdir(in("directory"), 0o750))
	require.NoError(t, os.Symlink(outside, in("link")))
	relative, err := filepath.Rel(r.dir, outside)
	require.NoError(t, err)
	all := []string{in("free"), in("fifo"), in("directory"), in("link"), in("absent"), outside, in(relative), relative,
		"", "/", ".", "..", in("."), r.dir + "/..", r.dir + "/", in("free") + "/", in("nul\x00"), in(strings.Repeat("x", 300))}
	for _, livelock := range all {
		r.port.Watch(livelock, elsewhere.pid())
		r.expect(livelock)
	}
	require.Equal(t, all, r.probe(all...))
	r.expectNone()
}

func TestAPathThroughALinkIsTheSameLivelock(t *testing.T) {
	r := newFixture(t, never)
	o := startOwnerProcess(t, r.dir, "job_000001")
	link := filepath.Join(t.TempDir(), "run")
	require.NoError(t, os.Symlink(r.dir, link))
	base := filepath.Base(o.livelocks[0])
	names := []string{filepath.Join(link, base), "/no/such/directory/" + base, base}
	for _, name := range names {
		r.port.Watch(name, o.pid())
	}
	require.Empty(t, r.probe(names...))
	r.port.Wake(names[1], o.pid())
	require.Equal(t, "woken", o.line())
	require.Empty(t, r.deaths)
	o.kill()
	require.ElementsMatch(t, names, []string{receiveWithin(t, r.deaths), receiveWithin(t, r.deaths), receiveWithin(t, r.deaths)})
}

func TestAnOwnerOfUnknownPidIsLookedAtAgain(t *testing.T) {
	for name, pid := range map[string]int{"none": 0, "nonsense": -7, "nobody's": 1 << 30} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t, often)
			o := startOwnerProcess(t, r.dir, "job_000001")
			r.port.Watch(o.livelocks[0], pid)
			require.Empty(t, r.probe(o.livelocks...))
			o.kill()
			r.expect(o.livelocks[0])
			r.expectNone()
		})
	}
}

func TestALivelockIsGivenUpByOneThatLives(t *testing.T) {
	r := newFixture(t, often)
	o := startOwnerProcess(t, r.dir, "job_000001")
	r.port.Watch(o.livelocks[0], o.pid())
	require.Empty(t, r.probe(o.livelocks...))
	o.release()
	r.expect(o.livelocks[0])
	r.expectNone()
}

// A child may hold a dead process's livelock for a moment, between fork and exec.
func TestALivelockThatOutlivesItsProcess(t *testing.T) {
	r := newFixture(t, never)
	livelock, err := persistence.CreateLivelock(r.dir, "job_000001", ownership.Rules{})
	require.NoError(t, err)
	other := startOwnerProcess(t, r.dir)
	r.port.Watch(livelock.Path(), other.pid())
	other.kill()
	require.Eventually(t, func() bool { return r.openProcesses(livelock.Path()) == 0 }, patience, often)
	require.Empty(t, r.deaths)
	require.NoError(t, livelock.Release())
	r.expect(livelock.Path())
	r.expectNone()
}

func (r *fixture) openProcesses(livelock string) int {
	r.port.mu.Lock()
	defer r.port.mu.Unlock()
	return r.port.watches[livelock].openProcesses
}

func TestWhatIsForgottenIsNotTold(t *testing.T) {
	r := newFixture(t, often)
	o := startOwnerProcess(t, r.dir, "job_000001", "job_000002")
	r.port.Watch(o.livelocks[0], o.pid())
	r.port.Watch(o.livelocks[1], 0)
	require.Empty(t, r.probe(o.livelocks...))
	for _, livelock := range o.livelocks {
		r.port.Forget(livelock)
		r.port.Forget(livelock)
		r.port.Wake(livelock, o.pid())
	}
	require.Empty(t, o.readRest())
	require.Equal(t, o.livelocks, r.probe(o.livelocks...))
	r.expectNone()
	r.port.Watch(o.livelocks[0], 0)
	r.expectNone()
}

func TestWakeReachesEachProcessAndNoOther(t *testing.T) {
	r := newFixture(t, never)
	o, other := startOwnerProcess(t, r.dir, "job_000001"), startOwnerProcess(t, r.dir, "job_000002")
	r.port.Watch(o.livelocks[0], o.pid())
	r.port.Watch(other.livelocks[0], other.pid())
	r.port.Wake(other.livelocks[0], o.pid()) // no owner of this livelock has given this pid
	for range 3 {
		r.port.Wake(other.livelocks[0], other.pid())
		require.Equal(t, "woken", other.line())
	}
	r.port.Watch(o.livelocks[0], other.pid())
	r.port.Wake(o.livelocks[0], other.pid())
	require.Equal(t, "woken", other.line())
	other.release()
	r.port.Wake(other.livelocks[0], other.pid()) // lives, but does not hold it
	require.Empty(t, o.readRest())
	require.Empty(t, other.readRest())
}

// sleeper is a process that ends on SIGHUP.
func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "300")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// The livelock stays locked, so only the end of the process shows that its pid may belong
// to a different process. A second Watch of the pid does not add the different process.
func TestTheNextProcessWithThePidIsNotWoken(t *testing.T) {
	r := newFixture(t, never)
	o := startOwnerProcess(t, r.dir, "job_000001")
	gone, other := sleeper(t), sleeper(t)
	pid := gone.Process.Pid
	r.port.Watch(o.livelocks[0], o.pid())
	r.port.Watch(o.livelocks[0], pid)
	require.NoError(t, gone.Process.Kill())
	_ = gone.Wait()
	require.Eventually(t, func() bool { return r.openProcesses(o.livelocks[0]) == 1 }, patience, often)
	r.port.Wake(o.livelocks[0], pid)

	r.port.mu.Lock()
	processes := r.port.watches[o.livelocks[0]].processes
	require.Contains(t, processes, pid)
	// A different process gets the pid.
	delete(processes, pid)
	processes[other.Process.Pid] = nil
	r.port.mu.Unlock()
	r.port.Watch(o.livelocks[0], other.Process.Pid)
	r.port.Wake(o.livelocks[0], other.Process.Pid)
	require.Equal(t, 1, r.openProcesses(o.livelocks[0]))
	require.NoError(t, other.Process.Signal(syscall.Signal(0)))
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", other.Process.Pid))
	require.NoError(t, err)
	require.NotContains(t, string(stat), ") Z ", "the stranger has been signalled")
	require.Empty(t, o.readRest())
}

func TestTheDaemonsOwnLivelockLives(t *testing.T) {
	r := newFixture(t, often)
	held, err := persistence.CreateLivelock(r.dir, persistence.DaemonLivelock, ownership.Rules{})
	require.NoError(t, err)
	r.port = New(r.dir, held.Path(), r.port.onDeath)
	r.port.interval = often
	o := sleeper(t)
	own := "/elsewhere/" + filepath.Base(held.Path())
	for _, pid := range []int{os.Getpid(), o.Process.Pid, 0} {
		r.port.Watch(own, pid)
		r.port.Wake(own, pid)
	}
	require.Empty(t, r.probe(own, held.Path()))
	r.port.Remove(own)
	require.FileExists(t, held.Path())
	alive, err := persistence.ProbeLivelock(held.Path())
	require.NoError(t, err)
	require.True(t, alive, "to probe it has released it")

	// This process gets no signal, although a client claims its pid. A SIGHUP would end
	// the test.
	client := startOwnerProcess(t, r.dir, "job_000001")
	r.port.Watch(client.livelocks[0], os.Getpid())
	r.port.Wake(client.livelocks[0], os.Getpid())

	require.NoError(t, held.Release())
	require.Empty(t, r.probe(own, held.Path()), "it lives while it asks")
	r.expectNone()
}

func TestRemove(t *testing.T) {
	r := newFixture(t, never)
	o := startOwnerProcess(t, r.dir, "job_000001", "job_000002")
	outside := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(outside, nil, 0o640))
	link := filepath.Join(r.dir, "link")
	require.NoError(t, os.Symlink(outside, link))
	r.port.Remove(o.livelocks[0])
	require.FileExists(t, o.livelocks[0], "its owner lives")
	o.kill()
	for range 2 {
		r.port.Remove("/elsewhere/" + filepath.Base(o.livelocks[0]))
		require.NoFileExists(t, o.livelocks[0])
	}
	for _, livelock := range []string{outside, link, "", "..", r.dir, r.dir + "/"} {
		r.port.Remove(livelock)
	}
	require.FileExists(t, outside)
	require.FileExists(t, link)
	require.FileExists(t, o.livelocks[1])
}

// A thousand owners take no threads, and after their end no resources.
func TestManyOwners(t *testing.T) {
	const count = 1000
	var names []string
	for i := range count {
		names = append(names, "many"+strconv.Itoa(i))
	}
	r := newFixture(t, never)
	o := startOwnerProcess(t, r.dir, names...)
	warm := startOwnerProcess(t, r.dir, "warm")
	r.port.Watch(warm.livelocks[0], warm.pid())
	r.port.Forget(warm.livelocks[0])
	before := entries(t, "/proc/self/fd")
	for _, livelock := range o.livelocks {
		r.port.Watch(livelock, o.pid())
	}
	require.Empty(t, r.probe(o.livelocks...))
	require.Less(t, entries(t, "/proc/self/task"), count/4)
	o.kill()
	deaths := map[string]bool{}
	for range count {
		deaths[receiveWithin(t, r.deaths)] = true
	}
	require.Len(t, deaths, count)
	r.expectNone()
	require.LessOrEqual(t, entries(t, "/proc/self/fd"), before)
}

func entries(t *testing.T, dir string) int {
	t.Helper()
	all, err := os.ReadDir(dir)
	require.NoError(t, err)
	return len(all)
}

func TestClientsThatComeAndGo(t *testing.T) {
	r := newFixture(t, often)
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			for range 5 {
				o := startOwnerProcess(t, r.dir, "job_"+strconv.Itoa(i))
				for range 100 {
					r.port.Watch(o.livelocks[0], o.pid())
					r.port.Watch(o.livelocks[0], os.Getppid())
					r.port.Wake(o.livelocks[0], o.pid())
					r.port.Forget(o.livelocks[0])
				}
				r.port.Watch(o.livelocks[0], o.pid())
				r.probe(o.livelocks...)
				o.kill()
				r.port.Remove(o.livelocks[0])
			}
		})
	}
	for range 4 * 5 {
		receiveWithin(t, r.deaths)
	}
	group.Wait()
	r.expectNone()
	left, err := os.ReadDir(r.dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func BenchmarkWatchAndForget(b *testing.B) {
	r := newFixture(b, never)
	o := startOwnerProcess(b, r.dir, "job_000001")
	for b.Loop() {
		r.port.Watch(o.livelocks[0], o.pid())
		r.port.Forget(o.livelocks[0])
	}
}

// BenchmarkDeath measures the time from the kill to the report.
func BenchmarkDeath(b *testing.B) {
	r := newFixture(b, never)
	for b.Loop() {
		b.StopTimer()
		o := startOwnerProcess(b, r.dir, "job_000001")
		r.port.Watch(o.livelocks[0], o.pid())
		r.probe()
		b.StartTimer()
		_ = o.cmd.Process.Kill()
		receiveWithin(b, r.deaths)
		b.StopTimer()
		o.kill()
		b.StartTimer()
	}
}

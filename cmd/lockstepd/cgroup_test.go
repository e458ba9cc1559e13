package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/job"
	"lockstep/edge/cgroup"
	"lockstep/edge/cgroup/cgrouptest"
)

// startInGroup starts the daemon with a control group for its jobs, which it returns.
func (d *daemon) startInGroup() (group string) {
	d.t.Helper()
	group = filepath.Join(cgrouptest.New(d.t), "jobs")
	d.start("--job-cgroup", group)
	return group
}

// hiding is a command that starts one without its environment and in another session, which works until it is killed. The file "pid" has
// its pid. rest follows in the shell.
func (d *daemon) hiding(rest string) op {
	return command("bash", "-c", fmt.Sprintf(`setsid env -i sh -c 'echo $$ > %[1]s.new; mv %[1]s.new %[1]s; exec sleep 999' & %[2]s`, d.path("pid"), rest))
}

// A command that hides from its session and its environment is killed with its job, also if the daemon was killed with the job process. The
// result says what the command has used.
func TestADeadJobLeavesNothingInItsGroup(t *testing.T) {
	t.Parallel()
	for name, down := range map[string]bool{"daemon up": false, "daemon killed with it": true} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon(t)
			group := d.startInGroup()
			c := d.dial()
			id := c.submit(d.hiding("exec sleep 999"))
			d.awaitStep(d.path("pid"))
			c.awaitStatus(id, "running")
			if down {
				d.kill()
			}
			require.NoError(t, syscall.Kill(d.processOf(id), syscall.SIGKILL))
			if down {
				d.start("--job-cgroup", group)
				c = d.dial()
			}
			j := c.await(id)
			require.Equal(t, "error", j.Status)
			require.True(t, isGone(d.workerPID()))
			require.NotNil(t, job.UsageIn(j.Results[0]), "%s", j.Results[0])
			require.Contains(t, string(j.Results[0]), "detected death of job")
			require.NoDirExists(t, d.commandGroup(group))
		})
	}
}

// commandGroup is the group of the only command; "": there is none.
func (d *daemon) commandGroup(group string) string {
	found, err := filepath.Glob(filepath.Join(group, "job_*"))
	require.NoError(d.t, err)
	return strings.Join(found, " ")
}

func TestAForcedEndLeavesNothingInTheGroup(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	group := d.startInGroup()
	c := d.dial()
	id := c.submit(d.hiding("exec sleep 999"))
	d.awaitStep(d.path("pid"))
	c.ask("CancelJob", id, true)
	require.Equal(t, "error", c.await(id).Status)
	require.True(t, isGone(d.workerPID()))
	require.Empty(t, d.commandGroup(group))
}

// After the normal end of a command, what has left its process group goes on.
func TestANormalEndLeavesWhatHasLeftTheCommand(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	group := d.startInGroup()
	c := d.dial()
	id := c.submit(d.hiding(fmt.Sprintf(`while [ ! -e %s ]; do sleep 0.01; done`, d.path("pid"))))
	require.Equal(t, "success", c.await(id).Status)
	require.False(t, isGone(d.workerPID()))
	left := d.commandGroup(group)
	require.DirExists(t, left)
	require.NoError(t, cgroup.Kill(left, patience))
	require.True(t, isGone(d.workerPID()))
}

// A daemon that a command has started leaves the group of the command, so that it outlives its job.
func TestADaemonThatAJobHasStartedLeavesItsGroup(t *testing.T) {
	t.Parallel()
	group := filepath.Join(cgrouptest.New(t), "jobs")
	marker := "job_000007_1_2_3"
	require.NoError(t, os.Mkdir(group, 0o755))
	g, err := cgroup.Make(group, marker, 0)
	require.NoError(t, err)
	defer g.Close()
	d := newDaemon(t)
	d.env = []string{"LOCKSTEP_JOB=" + marker}
	// The shell waits in the group for the daemon, as a command would.
	procs := filepath.Join(g.Path, "cgroup.procs")
	d.awaitReady(d.launchProgram("sh", append([]string{"-c", `echo $$ > ` + procs + `; exec "$0" "$@"`, filepath.Join(programs, "lockstepd")}, d.args()...)...))
	c := d.dial()
	work, open := d.gate("gate")
	id := c.submit(work)
	c.awaitStatus(id, "running")
	require.NoError(t, cgroup.Kill(g.Path, time.Second))
	cgroup.Remove(g.Path)
	require.NoDirExists(t, g.Path)
	open()
	require.Equal(t, "success", c.await(id).Status)
}

// A limit that this machine cannot enforce is refused at the submission, with what to do. Niceness needs no controller.
func TestLimitsOfACommand(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	group := d.startInGroup()
	c := d.dial()
	touched := d.path("touched")
	refused := func(o op, text string) {
		var id int64
		c := d.dial() // an opcode that cannot be read closes the connection
		require.ErrorContains(t, c.Call(context.Background(), "SubmitJob", []any{[]op{o}}, &id), text)
	}
	controllers, err := os.ReadFile(filepath.Join(filepath.Dir(group), "cgroup.controllers"))
	require.NoError(t, err)
	if !strings.Contains(string(controllers), "memory") {
		refused(command("touch", touched).with("limits", op{"memory": "50M"}),
			"this node cannot limit memory: no memory controller in "+filepath.Dir(group)+"; add Delegate=memory")
		refused(command("touch", touched).with("limits", op{"memory": "50M"}).with("dry_run", true), "this node cannot limit memory")
		require.NoFileExists(t, touched)
	}
	require.Equal(t, "success", c.await(c.submit(command("touch", touched).with("limits", op{"nice": 5}).with("dry_run", true))).Status)
	require.NoFileExists(t, touched)
	refused(command("true").with("limits", op{"memory": "banana"}), `like "2G"`)
	for _, nice := range []string{"7", "0"} {
		j := c.await(c.submit(command("nice").with("limits", op{"nice": json.Number(nice)})))
		require.Equal(t, []string{nice}, j.lines())
	}
}

// The kernel enforces limits where it has the controllers in version 2.
func TestACommandIsOutOfMemory(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	group := d.startInGroup()
	controllers, err := os.ReadFile(filepath.Join(filepath.Dir(group), "cgroup.controllers"))
	require.NoError(t, err)
	if !strings.Contains(string(controllers), "memory") {
		t.Skip("NOT RUN: the control groups of version 2 have no memory controller here")
	}
	c := d.dial()
	j := c.await(c.submit(command("tail", "/dev/zero").with("limits", op{"memory": "50M"})))
	require.Contains(t, string(j.Results[0]), "out of memory (limit 50M)")
	require.Equal(t, job.MemoryOfGroup, job.UsageIn(j.Results[0]).MemoryOf)
}

// BenchmarkNoOpInAGroup measures a command that does nothing, from its submission to its success, alternately with a control group of its own
// and without one. It reports the medians and how much more the group costs.
func BenchmarkNoOpInAGroup(b *testing.B) {
	group := filepath.Join(cgrouptest.New(b), "jobs")
	var clients [2]*client
	for i, args := range [][]string{{}, {"--job-cgroup", group}} {
		d := newDaemon(b)
		d.start(args...)
		clients[i] = d.dial()
	}
	var took [2][]float64
	for b.Loop() {
		for i, c := range clients {
			began := time.Now()
			c.await(c.submit(command("/bin/true")))
			took[i] = append(took[i], time.Since(began).Seconds())
		}
	}
	var median [2]float64
	for i := range took {
		slices.Sort(took[i])
		median[i] = took[i][len(took[i])/2]
	}
	b.ReportMetric(median[0]*1000, "ms/without")
	b.ReportMetric(median[1]*1000, "ms/with")
	b.ReportMetric((median[1]/median[0]-1)*100, "%more")
}

// The group of a command of alice belongs to the daemon's user. Her command can neither leave it nor change its settings, a forced end ends
// all of it, and the result says what it has used.
func TestTheGroupOfAUsersCommand(t *testing.T) {
	t.Parallel()
	d := newUsersDaemon(t)
	group := filepath.Join(cgrouptest.New(t), "jobs")
	other := filepath.Join(filepath.Dir(group), "other")
	require.NoError(t, os.Mkdir(other, 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(group), 0o755))
	marks := d.path("marks")
	require.NoError(t, os.Mkdir(marks, 0o777))
	require.NoError(t, os.Chmod(marks, 0o777))
	// It tries each file of its group and the ways out of it, and then hides a process without environment in another session.
	script := fmt.Sprintf(`root=%[1]s; own=%[2]s/$(sed -n 's,^0::.*/,,p' /proc/self/cgroup)
tried=0
for file in $own/* %[2]s/* $root/* %[3]s/*; do
	[ -f $file ] || continue
	tried=$((tried+1))
	for value in $$ max 1 +cpu; do if (echo $value > $file) 2>/dev/null; then echo "wrote $value to $file"; fi; done
done
mkdir $own/new 2>/dev/null && echo made a group
rmdir %[3]s 2>/dev/null && echo removed a group
[ $tried -gt 20 ] && [ -d $own ] && echo tried
setsid env -i sh -c 'echo $$ > %[4]s/pid.new; mv %[4]s/pid.new %[4]s/pid; exec sleep 999' &
i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done
exec sleep 999`, filepath.Dir(group), group, other, marks)
	ids, release := d.submitAs(d.startAgain(), submission{alice, []op{command("sh", "-c", script)}})
	c := release("--job-cgroup", group)
	d.awaitStep(filepath.Join(marks, "pid"))
	content, err := os.ReadFile(filepath.Join(marks, "pid"))
	require.NoError(t, err)
	hidden := strings.TrimSpace(string(content))
	own := d.commandGroup(group)
	require.NoError(t, filepath.WalkDir(own, func(path string, e os.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := e.Info()
		require.NoError(t, err)
		require.EqualValues(t, os.Geteuid(), info.Sys().(*syscall.Stat_t).Uid, path)
		return nil
	}))
	inside, err := os.ReadFile(filepath.Join(own, "cgroup.procs"))
	require.NoError(t, err)
	require.Contains(t, strings.Fields(string(inside)), hidden)

	require.Eventually(t, func() bool { used, known := cgroup.UsageOf(own); return known && used.CPU > 50*time.Millisecond }, patience, 5*time.Millisecond)
	done, _ := c.ask("CancelJob", ids[0], true)
	require.True(t, done)
	j := c.await(ids[0])
	require.Equal(t, []string{"tried"}, j.lines())
	require.Contains(t, string(j.Results[0]), "Ended on request")
	require.Greater(t, job.UsageIn(j.Results[0]).CPUSeconds, 0.05)
	require.True(t, isGone(hidden))
	require.NoDirExists(t, own)
}

// A controller that the operator adds counts at the next submission, without a restart of the daemon.
func TestAControllerIsAdded(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	unit := d.path("unit")
	require.NoError(t, os.Mkdir(unit, 0o755))
	d.start("--job-cgroup", filepath.Join(unit, "jobs"))
	c := d.dial()
	submit := func() (id int64, err error) {
		err = c.Call(context.Background(), "SubmitJob", []any{[]op{command("true").with("limits", op{"memory": "50M"})}}, &id)
		return id, err
	}
	delegate := func(controllers string) {
		require.NoError(t, os.WriteFile(filepath.Join(unit, "cgroup.controllers"), []byte(controllers), 0o600))
	}
	_, err := submit()
	require.ErrorContains(t, err, unit+" is no control group of version 2 that exists")
	delegate("cpu pids\n")
	_, err = submit()
	require.ErrorContains(t, err, "this node cannot limit memory: no memory controller in "+unit+"; add Delegate=memory to the unit of that group, and start the unit again")
	delegate("cpu memory pids\n")
	id, err := submit()
	require.NoError(t, err)
	require.Contains(t, string(c.await(id).Results[0]), "this node cannot limit memory", "its job process sees that this is no control group")
}

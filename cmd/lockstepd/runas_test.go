package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"lockstep/core/access"
	"lockstep/core/answer"
	"lockstep/core/paths"
	"lockstep/core/record"
)

// usersDaemon is root's daemon in a mount namespace with accounts of its own: alice and bob.
type usersDaemon struct {
	*daemon
	mount string     // a further command of the shell that makes the namespace
	fuse  []*os.File // descriptor 3 of that shell; nil: none
}

var (
	alice = access.Submitter{UID: 41000, Name: "alice"}
	bob   = access.Submitter{UID: 41001, Name: "bob"}
)

func newUsersDaemon(t *testing.T) *usersDaemon {
	d := &usersDaemon{daemon: newDaemon(t)}
	if os.Geteuid() != 0 {
		t.Skip("NOT RUN: only root can run commands as other users")
	}
	require.NoError(t, os.Chmod(d.root, 0o711))
	d.setAccounts("alice:x:41000:41000::/home/alice:/bin/zsh\nbob:x:41001:41001::/home/bob:/bin/sh\n")
	require.NoError(t, os.WriteFile(d.path("group"),
		[]byte("root:x:0:\nalice:x:41000:\nbob:x:41001:\ndba:x:41500:bob,alice\nlockstep:x:41600:alice\n"), 0o644))
	return d
}

// setAccounts changes /etc/passwd of the daemon.
func (d *usersDaemon) setAccounts(lines string) {
	d.t.Helper()
	require.NoError(d.t, os.WriteFile(d.path("passwd"), []byte("root:x:0:0:root:/root:/bin/sh\n"+lines), 0o644))
}

func (d *usersDaemon) startAgain(more ...string) *client {
	d.t.Helper()
	d.kill()
	script := fmt.Sprintf(`mount --bind %[1]s/passwd /etc/passwd && mount --bind %[1]s/group /etc/group && %[2]s true && exec "$0" "$@" 3<&-`, d.root, d.mount)
	args := append([]string{"-m", "sh", "-c", script, filepath.Join(programs, "lockstepd")}, d.args(more...)...)
	cmd := exec.Command("unshare", args...)
	cmd.ExtraFiles = d.fuse
	ready := d.launchCommand(cmd)
	select {
	case <-d.done:
		d.t.Skipf("NOT RUN: no mount namespace: %s", d.logged())
	case <-ready:
	}
	return d.dial()
}

// submission is a job of a user.
type submission struct {
	by  access.Submitter
	ops []op
}

// submitAs submits jobs of users, which start when the result is called.
func (d *usersDaemon) submitAs(c *client, jobs ...submission) (ids []int64, release func(more ...string) *client) {
	d.t.Helper()
	var pause string
	c.call("ReplaceFilter", &pause, nil, 0, [][]any{{"jobid", []any{">", "id", 0}}}, "PAUSE", []any{})
	for _, j := range jobs {
		ids = append(ids, c.submit(j.ops...))
	}
	d.kill()
	for i, j := range jobs {
		d.writeRecord(ids[i], record.Record{}.WithSubmitter(j.by.Encode()).Encode())
	}
	return ids, func(more ...string) *client {
		c := d.startAgain(more...)
		c.call("DeleteFilter", nil, pause)
		return c
	}
}

func (d *usersDaemon) writeRecord(id int64, content []byte) {
	d.t.Helper()
	require.NoError(d.t, os.WriteFile(d.path("lib", paths.RecordPath(id)), content, 0o640))
}

// A command of alice has her ids and groups, her environment and nothing of the daemon's, and her streams. It looks for its directory and
// its program with her rights, and it says its progress. One of root is as ever.
func TestACommandRunsAsItsSubmitter(t *testing.T) {
	t.Parallel()
	d := newUsersDaemon(t)
	d.env = []string{"DAEMON_SECRET=x", "TZ=Europe/Berlin", "LC_ALL=C.UTF-8"}
	private, open := d.path("private"), d.path("open")
	require.NoError(t, os.Mkdir(private, 0o700))
	require.NoError(t, os.Mkdir(open, 0o755))
	for _, dir := range []string{private, open} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "program"), []byte("#!/bin/sh\necho ran\n"), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(open, "roots"), []byte("#!/bin/sh\necho ran\n"), 0o700))
	run := func(script string) op { return command("sh", "-c", script) }
	ids, release := d.submitAs(d.startAgain(),
		submission{alice, []op{
			run("id -u; id -ru; id -g; id -G; umask; pwd; cat /proc/self/status | grep -E 'Groups|CapEff'"),
			run("echo x > /dev/stderr; echo y > /dev/stdout; cat < /dev/stdin").with("stdin", "z\n"),
			command("env", "-u", "PWD").with("env", map[string]string{"A": "b"}),
			run("ls -l /proc/self/fd | wc -l; echo '60% half' > \"$LOCKSTEP_PROGRESS\" && stat -c %U:%a \"$LOCKSTEP_PROGRESS\""),
			command("program").with("cwd", open).with("env", map[string]string{"PATH": open + ":" + private}),
		}},
		submission{alice, []op{command("true").with("cwd", private)}},
		submission{alice, []op{command(filepath.Join(private, "program"))}},
		submission{alice, []op{command("program").with("env", map[string]string{"PATH": private})}},
		submission{alice, []op{command("nosuchprogram")}},
		submission{alice, []op{command(filepath.Join(open, "roots"))}},
		submission{alice, []op{command("roots").with("cwd", private).with("dry_run", true)}},
		submission{alice, []op{command("env").with("cwd", open).with("dry_run", true)}},
		submission{access.Submitter{}, []op{run("id -u; echo $HOME")}},
	)
	c := release()
	j := c.await(ids[0])
	require.Equal(t, "success", j.Status, "%s", j.Results)
	require.Equal(t, []string{"41000", "41000", "41000", "41000 41500 41600", "0022", "/", "Groups:\t41000 41500 41600 ", "CapEff:\t0000000000000000"},
		j.linesOfOp(0))
	require.ElementsMatch(t, []string{"x", "y", "z"}, j.linesOfOp(1), "its streams are hers")
	require.Equal(t, []string{"A", "HOME=/home/alice", "LC_ALL=C.UTF-8", "LOGNAME=alice", "PATH=/usr/local/bin:/usr/bin:/bin", "SHELL=/bin/zsh",
		"TZ=Europe/Berlin", "USER=alice"}, j.environment(2))
	// ls lists 0 to 2, and its own; one line more is the sum.
	require.Equal(t, []string{"5", "alice:600"}, j.linesOfOp(3))
	require.Equal(t, []string{"ran"}, j.linesOfOp(4))
	for i, want := range map[int]string{
		1: "cannot start true: cannot change to " + private + ": permission denied",
		2: "cannot start " + private + "/program: permission denied",
		3: "cannot start program: no such program in the command's PATH",
		4: "cannot start nosuchprogram: no such program in the command's PATH",
		5: "cannot start " + open + "/roots: permission denied",
		6: "cannot start roots: cannot change to " + private + ": permission denied",
	} {
		j := c.await(ids[i])
		require.Equal(t, "error", j.Status, "job %d", i)
		require.Contains(t, string(j.Results[0]), want, "job %d", i)
	}
	require.Equal(t, "success", c.await(ids[7]).Status)
	require.Equal(t, []string{"0", os.Getenv("HOME")}, c.await(ids[8]).linesOfOp(0))
	list := c.list(answer.JobSelection{IDs: []int64{ids[0], ids[8]}})
	require.Equal(t, []string{"alice", ""}, []string{list[0].RunAs, list[1].RunAs})
}

// linesOfOp are the lines that the command of an opcode has written.
func (j queriedJob) linesOfOp(i int) []string {
	return (queriedJob{Log: j.Log[i : i+1]}).lines()
}

// environment are the variables that a command has printed: A=b without its value, none of lockstep's and none that depends on the test's.
func (j queriedJob) environment(op int) (names []string) {
	for _, v := range j.linesOfOp(op) {
		switch name, _, _ := strings.Cut(v, "="); {
		case strings.HasPrefix(name, "LOCKSTEP_"), name == "LANG":
		case name == "A":
			names = append(names, name)
		default:
			names = append(names, v)
		}
	}
	slices.Sort(names)
	return names
}

// A command of alice is killed, with what it has started in other sessions, and ends at its time limit. When its job's process is killed,
// nothing of it is left.
func TestTheCommandOfAUserIsKilled(t *testing.T) {
	t.Parallel()
	d := newUsersDaemon(t)
	marks := d.path("marks")
	require.NoError(t, os.Mkdir(marks, 0o777))
	require.NoError(t, os.Chmod(marks, 0o777))
	script := func(name string) op {
		return command("sh", "-c", fmt.Sprintf(`trap "" TERM; setsid sleep 300 & echo $! > %[1]s/%[2]s.new; mv %[1]s/%[2]s.new %[1]s/%[2]s; while :; do wait; done`,
			marks, name))
	}
	ids, release := d.submitAs(d.startAgain(), submission{alice, []op{script("killed")}}, submission{alice, []op{script("late").with("timeout", 0.5)}},
		submission{bob, []op{script("orphan")}})
	c := release()
	pids := map[string]int{}
	for _, name := range []string{"killed", "late", "orphan"} {
		file := filepath.Join(marks, name)
		d.awaitStep(file)
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		pids[name], err = strconv.Atoi(strings.TrimSpace(string(content)))
		require.NoError(t, err)
	}
	done, _ := c.ask("CancelJob", ids[0], true)
	require.True(t, done)
	require.Contains(t, string(c.await(ids[0]).Results[0]), "Ended on request")
	require.Contains(t, string(c.await(ids[1]).Results[0]), "time")
	j, err := os.ReadFile(d.path("lib", "queue", "job-"+itoa(ids[2])))
	require.NoError(t, err)
	var file struct {
		PID int `json:"process_id"`
	}
	require.NoError(t, json.Unmarshal(j, &file))
	require.NoError(t, syscall.Kill(file.PID, syscall.SIGKILL))
	require.Equal(t, "error", c.await(ids[2]).Status)
	for name, pid := range pids {
		require.Eventually(t, func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH }, patience, 5*time.Millisecond, name)
	}
}

// alice's uid changes, and bob's account goes, while their jobs are queued.
func TestAnAccountThatChangesWhileAJobIsQueued(t *testing.T) {
	t.Parallel()
	d := newUsersDaemon(t)
	ids, release := d.submitAs(d.startAgain(), submission{alice, []op{command("id")}}, submission{bob, []op{command("id")}},
		submission{access.Submitter{UID: access.NoUID, Remote: "deploy"}, []op{command("id")}})
	d.setAccounts("alice:x:41007:41000::/:/bin/sh\n")
	c := release()
	for i, want := range []string{
		"alice had the uid 41000 when the job was submitted, and has the uid 41007 now",
		"there is no user bob (uid 41001) on this node",
		"deploy (remote API) has no account on the nodes",
	} {
		j := c.await(ids[i])
		require.Equal(t, "error", j.Status)
		require.Contains(t, string(j.Results[0]), want)
		require.Empty(t, j.lines())
	}
}

// While the directory service does not answer, alice's job waits and says so, and root's runs. Then alice's runs.
func TestAJobWaitsForTheDirectoryService(t *testing.T) {
	t.Parallel()
	d := newUsersDaemon(t)
	gate, fake := d.path("gate"), d.path("fake")
	require.NoError(t, os.Mkdir(fake, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(fake, "getent"),
		[]byte("#!/bin/sh\n[ -e "+gate+" ] || { echo 'no answer from ldap1' >&2; exit 1; }\nexec /usr/bin/getent \"$@\"\n"), 0o755))
	d.env = []string{"PATH=" + fake + ":" + os.Getenv("PATH")}
	ids, release := d.submitAs(d.startAgain(), submission{alice, []op{command("id", "-un")}})
	c := release()
	require.Equal(t, "success", c.await(c.submit(command("true"))).Status)
	var why answer.Why
	require.Eventually(t, func() bool {
		c.call("LockstepWhy", &why, ids[0])
		return why.Reasons[0].Kind == answer.WhyCannotStart
	}, patience, 5*time.Millisecond)
	require.Equal(t, "alice", why.Reasons[0].By)
	require.Equal(t, "getent passwd: exit status 1: no answer from ldap1", why.Reasons[0].Text)
	require.NoError(t, os.WriteFile(gate, nil, 0o644))
	require.Equal(t, []string{"alice"}, c.await(ids[0]).linesOfOp(0))
}

// Accounts and groups of a directory service have their names at the socket, and may be named by as= of the users file.
func TestAccountsOfADirectoryService(t *testing.T) {
	t.Parallel()
	d := newUsersDaemon(t)
	fake := d.path("fake")
	require.NoError(t, os.Mkdir(fake, 0o755))
	for name, script := range map[string]string{
		"getent": `case $1:$2 in passwd:dora|passwd:41800) echo dora:x:41800:41800::/:/bin/sh ;; group:41801) echo ops:x:41801: ;; *) exec /usr/bin/getent "$@" ;; esac`,
		"id":     `echo 41800 41801`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(fake, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	d.env = []string{"PATH=" + fake + ":" + os.Getenv("PATH")}
	require.NoError(t, os.MkdirAll(d.path("lib", "rapi"), 0o750))
	require.NoError(t, os.WriteFile(d.path("lib", "rapi", "users"), []byte("peer secret submit,as=dora\n"), 0o600))
	address := loopback(t, 1)[0]
	root := d.startAgain("--socket-group", "lockstep", "--rapi-address", address)
	root.call("LockstepGrant", nil, "operate", "group:ops")
	c := d.dialAs(account{access.Submitter{UID: 41800}, []uint32{41801, socketGroup}})
	var who struct{ User, Role string }
	c.call("LockstepWhoAmI", &who)
	require.Equal(t, struct{ User, Role string }{"dora", "operate"}, who)
	require.Equal(t, []string{"41800"}, root.await(c.submit(command("id", "-u").with("env", map[string]string{"PATH": "/usr/bin:/bin"}))).lines())
	r := &remote{d.daemon, "http://" + address, &http.Client{Timeout: patience}}
	t.Cleanup(r.client.CloseIdleConnections)
	var jobs struct{ IDs []int64 }
	require.Equal(t, 201, r.do("POST", "/3/jobs", `{"ops":[{"OP_ID":"OP_RUN_COMMAND","argv":["/usr/bin/id","-u"]}]}`, &jobs))
	require.Equal(t, []string{"41800"}, root.await(jobs.IDs[0]).lines())
}

// With --run-as daemon root's daemon runs alice's command as root, and says so.
func TestRootRunsTheCommandsOfMembers(t *testing.T) {
	t.Parallel()
	d := newUsersDaemon(t)
	ids, release := d.submitAs(d.startAgain(), submission{alice, []op{command("id", "-u")}})
	c := release("--run-as", "daemon")
	require.Equal(t, []string{"0"}, c.await(ids[0]).linesOfOp(0))
	require.Contains(t, d.logged(), "the commands of all users run as root")
	var status answer.QueueStatus
	c.call("LockstepStatus", &status)
	require.True(t, status.MembersAreRoot)
	require.Empty(t, c.list(answer.JobSelection{IDs: ids})[0].RunAs)
}

// The command of a declared opcode runs as its declaration says, and as root without it.
func TestADeclaredOpcodeRunsAsItsUser(t *testing.T) {
	t.Parallel()
	d := newUsersDaemon(t)
	require.NoError(t, os.MkdirAll(d.path("lib", "opcodes.d"), 0o755))
	require.NoError(t, os.WriteFile(d.path("lib", "opcodes.d", "x.yaml"), []byte(`name: OP_OWN
user: submitter
submit: true
command: [id, -un]
---
name: OP_BOB
user: bob
command: [id, -un]
---
name: OP_ROOT
command: [id, -un]
`), 0o644))
	own := func(name string) op { return op{"OP_ID": name} }
	ids, release := d.submitAs(d.startAgain(), submission{alice, []op{own("OP_OWN"), own("OP_BOB"), own("OP_ROOT")}})
	j := release().await(ids[0])
	require.Equal(t, "success", j.Status, "%s", j.Results)
	require.Equal(t, []string{"alice", "bob", "root"}, j.lines())
}

// The commands of a job whose record is damaged do not run.
func TestAJobWithADamagedRecord(t *testing.T) {
	t.Parallel()
	d := newUsersDaemon(t)
	ids, release := d.submitAs(d.startAgain(), submission{alice, []op{command("id")}})
	d.writeRecord(ids[0], []byte(`{"submitter": {"uid": 41`))
	j := release().await(ids[0])
	require.Equal(t, "error", j.Status)
	require.Contains(t, string(j.Results[0]), "it is not known who has submitted the job")
}

// The commands of a job whose record is lost do not run either, if another user than root has submitted it.
func TestAJobWithALostRecord(t *testing.T) {
	t.Parallel()
	d := newUsersDaemon(t)
	root := d.startAgain("--socket-group", "lockstep")
	var pause string
	root.call("ReplaceFilter", &pause, nil, 0, [][]any{{"jobid", []any{">", "id", 0}}}, "PAUSE", []any{})
	alices, roots := d.dialAs(asAlice).submit(command("id", "-un")), root.submit(command("id", "-un"))
	d.kill()
	require.NoError(t, os.Remove(d.path("lib", paths.RecordPath(alices))))
	require.NoFileExists(t, d.path("lib", paths.RecordPath(roots)))
	root = d.startAgain("--socket-group", "lockstep")
	root.call("DeleteFilter", nil, pause)
	j := root.await(alices)
	require.Equal(t, "error", j.Status)
	require.Contains(t, string(j.Results[0]), "it is not known who has submitted the job")
	require.Equal(t, []string{"root"}, root.await(roots).lines())
}

// While the start of alice's command waits for a directory that does not answer, other jobs start, and it can be killed. (Linux does not kill a
// second process that asks for the same directory.)
func TestADirectoryThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	d := newUsersDaemon(t)
	dir := d.path("hangs")
	require.NoError(t, os.Mkdir(dir, 0o755))
	ids, release := d.submitAs(d.startAgain(), submission{alice, []op{command("id").with("cwd", dir+"/x")}})
	awaitRequest := d.mountHanging(dir)
	c := release()
	awaitRequest()
	require.Equal(t, "success", c.await(c.submit(command("true"))).Status)
	c.awaitStatus(ids[0], "running")
	done, text := c.ask("CancelJob", ids[0], true)
	require.True(t, done, text)
	require.Equal(t, "error", c.await(ids[0]).Status)
}

// mountHanging lets the next start mount a file system that answers no request. awaitRequest waits for the first one.
func (d *usersDaemon) mountHanging(dir string) (awaitRequest func()) {
	file, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		d.t.Skipf("NOT RUN: no FUSE: %v", err)
	}
	d.t.Cleanup(func() { _ = file.Close() }) // requests that are open fail
	d.mount = "mount -i -t fuse -o fd=3,rootmode=40755,user_id=0,group_id=0,allow_other hangs " + dir + " &&"
	d.fuse = []*os.File{file}
	return func() {
		fd := int(file.Fd())
		answerInit(d.t, fd)
		// It is not read: who waits for it can be killed then.
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(patience.Milliseconds()))
		require.NoError(d.t, err)
		require.Equal(d.t, 1, n)
	}
}

// answerInit answers the first request of a FUSE file system.
func answerInit(t testing.TB, fd int) {
	// The kernel begins with FUSE_INIT, which has its number at 8. The answer has the length, no error, the number, and the version 7.31.
	request := make([]byte, 1<<16)
	_, err := unix.Read(fd, request)
	require.NoError(t, err)
	answer := make([]byte, 16+64)
	binary.NativeEndian.PutUint32(answer, uint32(len(answer)))
	copy(answer[8:16], request[8:16])
	binary.NativeEndian.PutUint32(answer[16:], 7)
	binary.NativeEndian.PutUint32(answer[20:], 31)
	binary.NativeEndian.PutUint32(answer[36:], 4096)
	_, err = unix.Write(fd, answer)
	require.NoError(t, err)
}

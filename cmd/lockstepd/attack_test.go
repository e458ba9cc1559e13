package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"lockstep/core/access"
	"lockstep/core/answer"
	"lockstep/core/confd"
	"lockstep/core/paths"
)

// The attackers: alice is a member of the socket's group, bob is one with the role operate, and carol may read over the remote API only.
var (
	asAlice = account{alice, []uint32{41000, 41500, socketGroup}}
	asBob   = account{bob, []uint32{41001, 41500, socketGroup}}
	asCarol = account{access.Submitter{UID: 41002, Name: "carol"}, []uint32{41002}}
)

// socketGroup is the number of the group lockstep.
const socketGroup = 41600

// The secrets that no attacker may see.
const (
	anySecret   = "the secret of "
	rootsSecret = anySecret + "root"
	bobsSecret  = anySecret + "bob"
)

// attacked is root's daemon of a cluster of one node, with all its doors open, and with jobs at work.
type attacked struct {
	*usersDaemon
	host        string
	as          map[string]*client // by user
	roots, bobs victim
	alices      victim
	archived    int64 // a job of root
	cli         string
	process     string // a copy of lockstep-job that users may execute
}

// victim is a job whose command runs, with its processes and files.
type victim struct {
	id       int64
	process  int // of the job
	command  int
	livelock string
}

// attempt is something that a user has no right to. try returns the refusal.
type attempt struct {
	name string
	by   account
	try  func(by account) error
	want string // in the text of the refusal
}

const (
	denied = "permission denied"       // EACCES
	notMay = "operation not permitted" // EPERM
)

// Each attempt of a user to see or to change what is not his is refused with the documented text, and has no effect.
func TestAttack(t *testing.T) {
	t.Parallel()
	a := newAttacked(t)
	var all []attempt
	for _, more := range [][]attempt{
		a.files(), a.processes(), a.sockets(), a.orders(), a.submissions(), a.frames(), a.commandLines(), a.startedCommands(), a.routes(), a.otherPorts(),
	} {
		all = append(all, more...)
	}
	require.Greater(t, len(all), 40)
	before := a.state()
	for _, x := range all {
		t.Run(x.by.Name+" "+x.name, func(t *testing.T) {
			err := x.try(x.by)
			require.ErrorContains(t, err, x.want)
			require.NotContains(t, err.Error(), anySecret)
		})
	}
	require.Equal(t, before, a.state())
	for _, v := range []victim{a.roots, a.bobs, a.alices} {
		require.Equal(t, "running", a.as["root"].query(v.id).Status)
		require.NoError(t, syscall.Kill(v.process, 0))
		require.NoError(t, syscall.Kill(v.command, 0))
	}
	a.requireNoSecrets(t)
}

func newAttacked(t *testing.T) *attacked {
	address := loopback(t, 1)[0]
	host, _, err := net.SplitHostPort(address)
	require.NoError(t, err)
	a := &attacked{usersDaemon: newUsersDaemon(t), host: host, as: map[string]*client{}}
	a.setAccounts("alice:x:41000:41000::/:/bin/sh\nbob:x:41001:41001::/:/bin/sh\ncarol:x:41002:41002::/:/bin/sh\n")
	require.NoError(t, os.WriteFile(a.path("group"), []byte("root:x:0:\nalice:x:41000:\nbob:x:41001:\ncarol:x:41002:\n"+
		"dba:x:41500:bob,alice\nlockstep:x:41600:alice,bob\n"), 0o644))
	require.NoError(t, os.Mkdir(a.path("lib"), 0o700))
	a.cli, a.process = a.path("lockstep"), a.path("lockstep-job")
	for from, to := range map[string]string{a.lockstep(): a.cli, filepath.Join(programs, "lockstep-job"): a.process} {
		copyProgram(t, from, to)
	}
	out, code := a.client("node", "init", "--address", address, "--name", "n1", "--data-dir", a.path("lib"))
	require.Zero(t, code, out)
	require.NoError(t, os.Mkdir(a.path("lib", "rapi"), 0o750))
	require.NoError(t, os.WriteFile(a.path("lib", "rapi", "users"),
		[]byte("alice secret submit,as=alice\nbob secret operate,as=bob\ncarol secret read\n"), 0o600))
	a.startAgain("--socket-group", "lockstep", "--rapi-address", host+":5080", "--mond-address", host+":1815",
		"--confd-address", host+":1814", "--max-frame", "1048576")
	var root *client
	require.Eventually(t, func() bool {
		root = a.dial() // a connection ends when the node becomes the master
		return root.Call(context.Background(), "LockstepGrant", []any{"operate", "bob"}, nil) == nil
	}, patience, 20*time.Millisecond, "it is not the master")
	a.as["root"], a.as["alice"], a.as["bob"] = root, a.dialAs(asAlice), a.dialAs(asBob)
	a.archived = root.submit(command("true"))
	root.await(a.archived)
	root.call("ArchiveJob", nil, a.archived)
	a.roots, a.bobs, a.alices = a.victimOf("root", rootsSecret), a.victimOf("bob", bobsSecret), a.victimOf("alice", "mine")
	return a
}

// copyProgram makes a program that all users may execute.
func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, content, 0o755)) //nolint:gosec // as said
}

// victimOf starts a job of a user with a secret in its environment, which keeps its output.
func (a *attacked) victimOf(user, secret string) (v victim) {
	a.t.Helper()
	ready := a.path("ready-" + user)
	require.NoError(a.t, os.Mkdir(ready, 0o700))
	uid := map[string]int{"root": 0, "alice": alice.UID, "bob": bob.UID}[user]
	require.NoError(a.t, os.Chown(ready, uid, uid))
	script := fmt.Sprintf("echo output; echo $$ > %[1]s/pid.new; mv %[1]s/pid.new %[1]s/pid; exec sleep 1000", ready)
	work := command("sh", "-c", script).with("secret_env", map[string]string{"TOKEN": secret}).with("keep_output", true)
	v.id = a.as[user].submit(work)
	pid := filepath.Join(ready, "pid")
	a.awaitStep(pid)
	content, err := os.ReadFile(pid)
	require.NoError(a.t, err)
	_, err = fmt.Sscan(string(content), &v.command)
	require.NoError(a.t, err)
	content, err = os.ReadFile(a.path("lib", paths.JobPath(v.id)))
	require.NoError(a.t, err)
	var file struct {
		PID      int `json:"process_id"`
		Livelock string
	}
	require.NoError(a.t, json.Unmarshal(content, &file))
	v.process, v.livelock = file.PID, file.Livelock
	return v
}

// state is what the attempts must not change.
func (a *attacked) state() map[string]string {
	a.t.Helper()
	state := map[string]string{}
	for _, name := range []string{"access.json", "settings.json", "rapi/users", "hmac.key", paths.RecordPath(a.bobs.id),
		paths.RecordPath(a.roots.id), paths.ArchivePath(a.archived)} {
		content, err := os.ReadFile(a.path("lib", name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			require.NoError(a.t, err)
		}
		state[name] = string(content)
	}
	list := a.as["root"].list(answer.JobSelection{IDs: []int64{a.roots.id, a.bobs.id}})
	for _, j := range list {
		state[itoa(j.ID)] = fmt.Sprint(j.Status, j.Priority, j.Parent, j.RunAs, j.Name)
	}
	var rules []json.RawMessage
	a.as["root"].call("LockstepListFilters", &rules)
	var status answer.QueueStatus
	a.as["root"].call("LockstepStatus", &status)
	state["queue"] = fmt.Sprint(len(rules), status.Drained)
	return state
}

// requireNoSecrets looks at what users may see of jobs, and at the disk.
func (a *attacked) requireNoSecrets(t *testing.T) {
	ids := []string{itoa(a.roots.id), itoa(a.bobs.id)}
	for _, args := range [][]string{append([]string{"info", "--json"}, ids...), {"list", "--json"}, {"why", ids[0]}, {"config", "show"}} {
		cmd := asAlice.command(a.cli, append([]string{"--socket", a.path("run", "socket", "ganeti-query")}, args...)...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%v: %s", args, out)
		require.NotContains(t, string(out), anySecret, "%v", args)
	}
	var all json.RawMessage
	a.as["alice"].call("QueryJobs", &all, nil, []string{"id", "ops", "opresult", "oplog", "summary"})
	require.NotContains(t, string(all), anySecret)
	for _, dir := range []string{"lib", "run", "log"} {
		require.NoError(t, filepath.WalkDir(a.path(dir), func(path string, e os.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			content, err := os.ReadFile(path)
			require.False(t, bytes.Contains(content, []byte(anySecret)), path)
			return err
		}))
	}
}

// files are attempts to open, to list, to make and to move files of the daemon.
func (a *attacked) files() (all []attempt) {
	lib := func(name string) string { return a.path("lib", name) }
	for name, path := range map[string]string{
		"the configuration": lib("config.data"), "a job": lib(paths.JobPath(a.roots.id)), "an archived job": lib(paths.ArchivePath(a.archived)),
		"the grants": lib(paths.AccessPath), "the audit log": lib(paths.AuditPath(1)), "the users file": lib("rapi/users"), "the key of ConfD": lib("hmac.key"),
		"the key of the node": lib("peer/node.key"), "kept output": filepath.Join(lib(paths.KeptDirOf(a.bobs.id)), paths.KeptName(0, 1, "stdout")),
		"kept output of root": filepath.Join(lib(paths.KeptDirOf(a.roots.id)), paths.KeptName(0, 1, "stdout")), "the log of job processes": a.path("log", "jobs.log"),
		"a lock file": a.roots.livelock, "the lock of the queue": lib("queue/lock"), "sessions": lib("sessions.json"),
	} {
		all = append(all, attempt{"reads " + name, asAlice, func(account) error { return errorOf(os.ReadFile(path)) }, denied})
	}
	for name, path := range map[string]string{
		"DATA": lib(""), "the queue": lib("queue"), "the consensus log": lib("raft"), "the audit log": lib("audit"), "kept outputs": lib("output"),
		"the pipes for progress": a.path("run", "progress"), "the lock files": a.path("run", "livelocks"), "LOG": a.path("log"),
		"messages to job processes": a.path("run", "luxidmessages"),
	} {
		all = append(all, attempt{"lists " + name, asBob, func(account) error { return errorOf(os.ReadDir(path)) }, denied})
	}
	for name, path := range map[string]string{"the run directory": a.path("run"), "the sockets": a.path("run", "socket")} {
		all = append(all, attempt{"lists " + name, asCarol, func(account) error { return errorOf(os.ReadDir(path)) }, denied})
	}
	trap := a.path("trap")
	require.NoError(a.t, os.Mkdir(trap, 0o777))
	require.NoError(a.t, os.Chmod(trap, 0o777))
	for name, try := range map[string]func() error{
		"writes the serial":               func() error { return os.WriteFile(lib("queue/serial"), []byte("9"), 0o644) },
		"writes the record of a job":      func() error { return os.WriteFile(lib(paths.RecordPath(a.bobs.id)), nil, 0o644) },
		"removes the record of a job":     func() error { return os.Remove(lib(paths.RecordPath(a.alices.id))) },
		"makes grants":                    func() error { return os.WriteFile(lib("access.json.new"), nil, 0o644) },
		"replaces the data directory":     func() error { return os.Rename(lib(""), filepath.Join(trap, "lib")) },
		"makes a hard link to the grants": func() error { return os.Link(lib(paths.AccessPath), filepath.Join(trap, "x")) },
		"puts a link into the queue":      func() error { return os.Symlink("/etc/passwd", lib("queue/job-999999")) },
		"puts a link where output is kept": func() error {
			return os.Symlink("/etc/passwd", filepath.Join(lib(paths.KeptDirOf(a.alices.id)), paths.KeptName(1, 1, "stdout")))
		},
		"forges a lock file":             func() error { return os.WriteFile(a.path("run", "livelocks", "job_000099_1_2_3"), nil, 0o644) },
		"replaces a socket":              func() error { return os.Rename(trap, a.path("run", "socket", "ganeti-query")) },
		"removes a socket":               func() error { return os.Remove(a.path("run", "socket", "ganeti-query")) },
		"removes the pipe for progress":  func() error { return os.Remove(a.pipe(a.alices)) },
		"replaces the pipe for progress": func() error { return os.Symlink("/etc/passwd", a.pipe(a.alices)+"2") },
		"says the progress of bob's job": func() error { return os.WriteFile(a.pipe(a.bobs), []byte("99\n"), 0) },
		"orders a job process":           func() error { return os.WriteFile(a.path("run", "luxidmessages", "1"), []byte("-20"), 0o644) },
		"puts a declared opcode":         func() error { return os.MkdirAll(lib("opcodes.d"), 0o755) },
	} {
		all = append(all, attempt{name, asAlice, func(account) error { return try() }, denied})
	}
	inRights := func(f func() error) func(account) error { return func(by account) error { return by.run(f) } }
	for i, x := range all {
		all[i].try = inRights(func() error { return x.try(x.by) })
	}
	return all
}

// pipe is the pipe for the progress of a user's job.
func (a *attacked) pipe(v victim) string { return a.path("run", "progress", itoa(v.id), "pipe") }

func errorOf[T any](_ T, err error) error { return err }

// processes are attempts to look into processes, and to signal them.
func (a *attacked) processes() (all []attempt) {
	daemon := a.cmd.Process.Pid
	for name, pid := range map[string]int{
		"the daemon": daemon, "a process of root's job": a.roots.process, "root's command": a.roots.command, "a process of her job": a.alices.process,
		"bob's command": a.bobs.command,
	} {
		of := func(file string) string { return filepath.Join("/proc", itoa(int64(pid)), file) }
		for what, c := range map[string]struct {
			try  func() error
			want string
		}{
			"the environment of":        {func() error { return errorOf(os.ReadFile(of("environ"))) }, denied},
			"the memory of":             {func() error { return errorOf(os.Open(of("mem"))) }, denied},
			"the files of":              {func() error { return errorOf(os.ReadDir(of("fd"))) }, denied},
			"the standard output of":    {func() error { return errorOf(os.OpenFile(of("fd/1"), os.O_WRONLY, 0)) }, denied},
			"the directory of":          {func() error { return errorOf(os.ReadDir(of("cwd"))) }, denied},
			"with ptrace, the state of": {func() error { return unix.PtraceAttach(pid) }, notMay},
			"with a copy, the memory of": {func() error {
				word := make([]byte, 8)
				local, remote := []unix.Iovec{{Base: &word[0], Len: 8}}, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}
				return errorOf(unix.ProcessVMReadv(pid, local, remote, 0))
			}, notMay},
		} {
			all = append(all, attempt{"takes " + what + " " + name, asAlice, func(by account) error { return by.run(c.try) }, c.want})
		}
		for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1, syscall.SIGKILL, syscall.SIGSTOP} {
			all = append(all, attempt{"sends " + signal.String() + " to " + name, asAlice,
				func(by account) error { return by.run(func() error { return syscall.Kill(pid, signal) }) }, notMay})
		}
	}
	return all
}

// sockets are attempts to open sockets.
func (a *attacked) sockets() (all []attempt) {
	open := func(name string) func(account) error {
		return func(by account) error {
			c, err := by.connect(a.path("run", "socket", name))
			if err == nil {
				_ = c.Close()
			}
			return err
		}
	}
	for _, name := range []string{"ganeti-query", "ganeti-wconfd", "lockstep-output", "admin"} {
		all = append(all, attempt{"opens " + name, asCarol, open(name), denied})
	}
	for _, name := range []string{"ganeti-wconfd", "admin"} {
		all = append(all, attempt{"opens " + name, asBob, open(name), denied})
	}
	forged := func(name, hello string) attempt {
		return attempt{name, asAlice, func(by account) error {
			c, err := by.connect(a.path("run", "socket", "lockstep-output"))
			if err != nil {
				return err
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(patience))
			if _, err = io.WriteString(c, hello+"\n"); err == nil {
				_, err = c.Read(make([]byte, 1))
			}
			if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
				return errors.New("the connection is closed")
			}
			return err
		}, "the connection is closed"}
	}
	return append(all, forged("takes the readers of root's output", fmt.Sprintf(`{"job": %d, "writes": true}`, a.roots.id)),
		forged("reads output of no job", `{"job": -1}`), forged("says hello for ever", strings.Repeat(" ", 600)))
}

// orders are attempts to give orders on the socket.
func (a *attacked) orders() (all []attempt) {
	roots, bobs := a.roots.id, a.bobs.id
	name := filepath.Base(a.roots.livelock)
	call := func(by account, want, method string, args ...any) {
		all = append(all, attempt{"calls " + method, by, func(by account) error {
			return a.as[by.Name].Call(context.Background(), method, args, nil)
		}, want})
	}
	order := func(what string, id int64, owner string) string {
		return fmt.Sprintf("job %d is %s's; to %s needs the role operate, alice has submit", id, owner, what)
	}
	call(asAlice, order("kill it", roots, "root"), "CancelJob", roots, true)
	call(asAlice, order("cancel it", bobs, "bob"), "CancelJob", bobs)
	call(asAlice, order("change its priority", bobs, "bob"), "ChangeJobPriority", bobs, 5)
	call(asAlice, order("hold it", roots, "root"), "LockstepHoldJob", roots, true)
	call(asAlice, "to give a job priority before those of others needs the role operate, alice has submit", "ChangeJobPriority", a.alices.id, -1)
	for method, args := range map[string][]any{
		"drain the queue":                {"SetDrainFlag", true},
		"pause the watcher":              {"SetWatcherPause", 2000000000},
		"change filter rules":            {"ReplaceFilter", nil, 0, []any{}, "REJECT", []any{}},
		"delete filter rules":            {"DeleteFilter", "7f9ba4d5-0000-4000-8000-000000000000"},
		"read the audit log":             {"LockstepAudit", map[string]any{}},
		"submit jobs to a drained queue": {"SubmitJobToDrainedQueue", []op{command("true")}},
	} {
		call(asAlice, "to "+method+" needs the role operate, alice has submit", args[0].(string), args[1:]...)
	}
	for method, args := range map[string][]any{
		"change settings":                          {"LockstepSetSettings", map[string]any{"max_running_jobs": 1}},
		"reload opcodes":                           {"LockstepReloadOpcodes"},
		"change the configuration":                 {"LockstepConfigAdopt"},
		"replace the key of configuration queries": {"LockstepRotateConfdKey"},
		"compare the files of nodes":               {"LockstepNodeCheck"},
		"remove nodes":                             {"LockstepNodeRemove", "n1"},
		"promote nodes":                            {"LockstepNodePromote", "n1"},
		"grant roles":                              {"LockstepGrant", "admin", "bob"},
		"revoke roles":                             {"LockstepRevoke", "operate", "alice"},
		"call LockstepBecomeRoot":                  {"LockstepBecomeRoot"},
		"call LockstepForward":                     {"LockstepForward"},
	} {
		call(asBob, "to "+method+" needs the role admin, bob has operate", args[0].(string), args[1:]...)
	}
	for _, livelock := range []string{name, a.roots.livelock, "../../../../etc/passwd", "job_000001", strings.Repeat("x", 100_000)} {
		call(asAlice, "only the process of a job may report on a job, not alice", "LockstepReportJob", roots, livelock, nil)
		call(asBob, "only the process of a job may begin an opcode, not bob", "LockstepBeginOpcode", roots, livelock, 0)
	}
	call(account{Submitter: access.Submitter{Name: "root"}}, "only the process of a job may report on a job, not root", "LockstepReportJob", roots, name, nil)
	for what, args := range map[string][]any{
		"open a session": {"LockstepOpenSession", "hash", "uid=0(root)", "", ""}, "redeem a login link": {"LockstepRedeemLink", "hash", "hash"},
		"check a session": {"LockstepCheckSession", "hash"}, "end a session": {"LockstepEndSession", "hash"},
	} {
		call(asBob, "only the console of a node may "+what+", not bob", args[0].(string), args[1:]...)
	}
	return all
}

// submissions are attempts to submit what a role does not permit, or in the name of another user.
func (a *attacked) submissions() (all []attempt) {
	add := func(name string, by account, want, method string, args ...any) {
		all = append(all, attempt{"submits " + name, by, func(by account) error { // an invalid request ends the connection
			return a.dialAs(by).Call(context.Background(), method, args, nil)
		}, want})
	}
	one := func(o op) []op { return []op{o} }
	locks := func(name string) op { return command("true").with("locks", [][2]string{{name, "exclusive"}}) }
	add("an opcode of Ganeti", asAlice, "to submit OP_TEST_DELAY needs the role admin, alice has submit", "SubmitJob", one(op{"OP_ID": "OP_TEST_DELAY", "duration": 0}))
	add("an opcode of Ganeti", asBob, "to submit OP_TEST_DELAY needs the role admin, bob has operate", "SubmitJob", one(op{"OP_ID": "OP_TEST_DELAY", "duration": 0}))
	add("with a priority", asAlice, "to submit a job before those of others (priority below 0) needs the role operate, alice has submit", "SubmitJob", one(command("true").with("priority", -10)))
	add("with all locks of a level", asAlice, "to take node/[lockset] exclusively needs the role operate, alice has submit", "SubmitJob", one(locks("node/[lockset]")))
	add("with the lock of the cluster", asAlice, "to take cluster/BGL exclusively needs the role operate, alice has submit", "SubmitJob", one(locks("cluster/BGL")))
	add("one of two jobs", asAlice, "to submit OP_TEST_DELAY needs the role admin, alice has submit, in job 2 of 2", "SubmitManyJobs",
		[][]op{one(command("true")), one(op{"OP_ID": "OP_TEST_DELAY", "duration": 0})})
	for _, by := range []account{asAlice, asBob} {
		for name, uid := range map[string]int{"root": 0, "bob": 41001, "nobody": 65534} {
			add("as "+name, by, "to run commands as another user needs the role admin, "+by.Name+" has ", "LockstepSubmitJobs",
				[]any{map[string]any{"ops": one(command("id")), "as": map[string]any{"uid": uid, "name": name}}})
		}
	}
	add("with a submitter", asAlice, "unknown field", "LockstepSubmitJobs", []any{map[string]any{"ops": one(command("id")), "submitter": map[string]any{"uid": 0}}})
	add("with a reason that is no trail", asAlice, "reason", "SubmitJob", one(command("id").with("reason", "none")))
	for _, parameter := range []string{"run_as", "user", "uid", "submitter", "account"} {
		add("with the parameter "+parameter, asAlice, parameter, "SubmitJob", one(command("id").with(parameter, "root")))
	}
	return all
}

// frames are attempts with frames that no client makes.
func (a *attacked) frames() (all []attempt) {
	socket := a.path("run", "socket", "ganeti-query")
	settings := "to change settings needs the role admin, alice has submit"
	for name, f := range map[string]struct{ frame, want string }{
		"an identity": {`{"method": "LockstepSetSettings", "args": [{}], "from": {"uid": 0, "daemon": true}, "by": "uid=0(root)", "user": "uid=0(root)"}`, settings},
		"two methods": {`{"method": "LockstepWhoAmI", "method": "LockstepSetSettings", "args": [{}]}`, "LockstepWhoAmI: 1 arguments, expected 0"},
		"the identity of the console": {`{"from": {"uid": 0, "daemon": true}, "method": "LockstepOpenSession", "args": ["h", "uid=0(root)", "", ""]}`,
			"only the console of a node may open a session, not alice"},
		"a name that goes on for ever":   {`{"method": "` + strings.Repeat("x", 200_000) + `", "args": []}`, "needs the role admin, alice has submit"},
		"a name with control characters": {`{"method": "Lockstep\u001b[2J\u0000", "args": []}`, "needs the role admin, alice has submit"},
		"deep arguments":                 {`{"method": "CancelJob", "args": ` + strings.Repeat("[", 300_000), "Failed to parse request"},
		"deep arguments, closed":         {`{"method": "CancelJob", "args": ` + strings.Repeat("[", 300_000) + strings.Repeat("]", 300_000) + `}`, ""},
		"a number as its method":         {`{"method": 5, "args": []}`, "Failed to parse request"},
		"no object":                      {`"LockstepSetSettings"`, "Failed to parse request"},
		"bytes that are no text":         {"{\"method\": \"\xff\xfe\", \"args\": []}", ""},
		"a path as a job":                {`{"method": "CancelJob", "args": ["../access.json", true]}`, "CancelJob"},
		"a number without end":           {`{"method": "CancelJob", "args": [1e999, true]}`, "CancelJob"},
		"more than a request may have":   {`{"method": "CancelJob", "args": ["` + strings.Repeat("x", 2<<20) + `"]}`, ""},
	} {
		all = append(all, attempt{"sends " + name, asAlice, func(by account) error { return by.frame(socket, f.frame) }, f.want})
	}
	// The name of the program is alice's choice.
	self, err := os.Executable()
	require.NoError(a.t, err)
	named := a.path("trap", "lockstep-job")
	copyProgram(a.t.(*testing.T), self, named)
	report := fmt.Sprintf(`{"method": "LockstepReportJob", "args": [%d, %q, null]}`, a.roots.id, filepath.Base(a.roots.livelock))
	return append(all, attempt{"sends a report from a program of the name lockstep-job", asAlice, func(by account) error {
		cmd := by.command(named)
		cmd.Env = append(cmd.Env, childEnv+"="+socketCall+"|"+socket, "FRAME="+report)
		return textOf(cmd.CombinedOutput())
	}, "only the process of a job may report on a job, not alice"})
}

// textOf is the output of a command as an error.
func textOf(out []byte, err error) error { return fmt.Errorf("%s: %v", out, err) }

// commandLines are attempts with lockstep and lockstep-job.
func (a *attacked) commandLines() (all []attempt) {
	run := func(by account, want string, args ...string) {
		all = append(all, attempt{"runs lockstep " + strings.Join(args, " "), by, func(by account) error {
			cmd := by.command(a.cli, args...)
			cmd.Env = append(cmd.Env, "LOCKSTEP_SOCKET="+a.path("run", "socket", "ganeti-query"))
			out, err := cmd.CombinedOutput()
			require.Error(a.t, err, "%s", out)
			return textOf(out, err)
		}, want})
	}
	roots := itoa(a.roots.id)
	run(asAlice, "job "+roots+" is root's; to kill it needs the role operate, alice has submit", "kill", roots)
	run(asAlice, "to run commands as another user needs the role admin, alice has submit", "run", "--as", "root", "--", "id")
	run(asAlice, "to change settings needs the role admin, alice has submit", "config", "set", "max_running_jobs=1")
	run(asAlice, "to change filter rules needs the role operate, alice has submit", "filter", "add", "--action", "REJECT", "--opcode", "OP_RUN_COMMAND")
	run(asAlice, "to drain the queue needs the role operate, alice has submit", "drain", "on")
	run(asAlice, "to read the audit log needs the role operate, alice has submit", "audit")
	run(asBob, "to change settings needs the role admin, bob has operate", "config", "set", "max_running_jobs=1")
	run(asBob, "to grant roles needs the role admin, bob has operate", "access", "grant", "admin", "bob")
	run(asAlice, denied, "config", "check", "--file", a.path("lib", "config.data"))
	run(asCarol, "you are not allowed to use the daemon's socket", "list")
	run(asCarol, "you are not allowed to use the daemon's socket", "log", roots)
	orders := a.path("orders")
	require.NoError(a.t, os.WriteFile(orders, []byte(`{"account": {"name": "root", "uid": 0, "gid": 0, "groups": [0]}, "argv": ["id"], "cwd": "/"}`), 0o644))
	return append(all,
		attempt{"becomes root by lockstep-job", asAlice, func(by account) error {
			return textOf(by.command("sh", "-c", a.process+" --become 3< "+orders+" 4>&1").CombinedOutput())
		}, `"step":"cannot become root"`},
		attempt{"runs the process of root's job", asAlice, func(by account) error {
			return textOf(by.command(a.process, roots, a.path("lib"), a.path("run")).CombinedOutput())
		}, denied},
		attempt{"says the progress of bob's job by lockstep", asAlice, func(by account) error {
			cmd := by.command(a.cli, "progress", "99")
			cmd.Env = append(cmd.Env, "LOCKSTEP_PROGRESS="+a.pipe(a.bobs))
			return textOf(cmd.CombinedOutput())
		}, denied},
		attempt{"claims to be a process of root's job", asAlice, func(by account) error {
			cmd := by.command(a.cli, "--socket", a.path("run", "socket", "ganeti-query"), "run", "--detach", "--", "true")
			cmd.Env = append(cmd.Env, "LOCKSTEP_JOB="+filepath.Base(a.roots.livelock))
			out, err := cmd.Output()
			require.NoError(a.t, err)
			var id int64
			_, err = fmt.Sscan(string(out), &id)
			require.NoError(a.t, err)
			return fmt.Errorf("its parent is %d", a.as["root"].list(answer.JobSelection{IDs: []int64{id}})[0].Parent)
		}, "its parent is 0"})
}

// startedCommands are attempts of a command that the daemon runs.
func (a *attacked) startedCommands() (all []attempt) {
	private := a.path("private")
	require.NoError(a.t, os.Mkdir(private, 0o700))
	copyProgram(a.t.(*testing.T), "/bin/true", filepath.Join(private, "true"))
	require.NoError(a.t, os.Symlink(private, a.path("trap", "cwd")))
	require.NoError(a.t, os.Symlink(filepath.Join(private, "true"), a.path("trap", "program")))
	run := func(name, want string, o op) {
		all = append(all, attempt{"lets a job of hers " + name, asAlice, func(by account) error {
			j := a.as[by.Name].await(a.as[by.Name].submit(o))
			return fmt.Errorf("%s: [%s]: %s", j.Status, j.endOf(0), strings.Join(j.lines(), "\n"))
		}, want})
	}
	shell := func(script string) op { return command("sh", "-c", script) }
	run("begin in a directory of root", "cannot change to "+a.path("trap", "cwd")+": permission denied", command("true").with("cwd", a.path("trap", "cwd")))
	run("execute a program of root", "cannot start "+a.path("trap", "program")+": permission denied", command(a.path("trap", "program")))
	run("remove its pipe", "Permission denied", shell(`mv "$LOCKSTEP_PROGRESS" /tmp/`))
	run("put a link beside its pipe", "Permission denied", shell(`ln -s /etc/passwd "${LOCKSTEP_PROGRESS%/*}/x"`))
	run("end its process", "Operation not permitted", shell(`env kill $PPID`))
	run("read the environment of its process", "Permission denied", shell(`cat /proc/$PPID/environ`))
	run("read the files of the daemon", "Permission denied", shell(`cat `+a.path("lib", paths.AccessPath)))
	run("report on it", "only the process of a job may report on a job, not alice",
		command(a.path("trap", "lockstep-job")).with("env", map[string]string{childEnv: socketCall + "|" + a.path("run", "socket", "ganeti-query"),
			"FRAME": fmt.Sprintf(`{"method": "LockstepReportJob", "args": [%d, %q, null]}`, a.alices.id, filepath.Base(a.alices.livelock))}))
	run("take another job's marker", "success: [{\"exit_status\": 0}]: 0",
		shell(`env | grep -c '^LOCKSTEP_JOB=forged' || true`).with("env", map[string]string{"LOCKSTEP_JOB": "forged"}))
	run("have another user by its reason", "success: [{\"exit_status\": 0}]: alice",
		command("id", "-un").with("reason", []any{[]any{"lockstep:user", "uid=0(root)", 1}}))
	run("have another user by its environment", "41000",
		command("id", "-u").with("env", map[string]string{"USER": "root", "LOGNAME": "root", "HOME": "/root", "LD_PRELOAD": "/nonexistent.so"}))
	return all
}

// routes are attempts over HTTP.
func (a *attacked) routes() (all []attempt) {
	web := &http.Client{Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	a.t.Cleanup(web.CloseIdleConnections)
	send := func(r *http.Request) error {
		response, err := web.Do(r)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		return fmt.Errorf("%s: %s", response.Status, html.UnescapeString(string(body)))
	}
	roots := itoa(a.roots.id)
	rapi := func(by account, password, want, method, path, body string) {
		all = append(all, attempt{method + " " + path, by, func(by account) error {
			r, err := http.NewRequest(method, "http://"+a.host+":5080"+path, strings.NewReader(body))
			if err != nil {
				return err
			}
			r.Header.Set("Content-Type", "application/json")
			if password != "" {
				r.SetBasicAuth(by.Name, password)
			}
			return send(r)
		}, want})
	}
	rapi(asAlice, "secret", "job "+roots+" is root's; to kill it needs the role operate", "DELETE", "/3/jobs/"+roots+"?kill=1", "")
	rapi(asAlice, "secret", "needs the role operate, alice (remote API) has submit", "GET", "/3/audit", "")
	rapi(asAlice, "secret", "needs the role operate, alice (remote API) has submit", "PUT", "/3/drain", "true")
	rapi(asAlice, "secret", "needs the role operate, alice (remote API) has submit", "POST", "/2/filters", `{"predicates": [], "action": "REJECT"}`)
	rapi(asAlice, "secret", "priority below 0", "POST", "/3/jobs", `{"ops": [{"OP_ID": "OP_RUN_COMMAND", "argv": ["true"], "priority": -10}]}`)
	rapi(asBob, "secret", "needs the role admin, bob (remote API) has operate", "PUT", "/3/settings", `{"max_running_jobs": 1}`)
	rapi(asBob, "secret", "needs the role admin, bob (remote API) has operate", "PUT", "/3/nodes/n1/master", "")
	rapi(asBob, "secret", "needs the role admin, bob (remote API) has operate", "PUT", "/2/modify", "{}")
	rapi(asCarol, "secret", "needs the role submit, carol (remote API) has read", "POST", "/3/jobs", `{"ops": [{"OP_ID": "OP_RUN_COMMAND", "argv": ["true"]}]}`)
	rapi(asCarol, "secret", "needs the role submit, carol (remote API) has read", "PUT", "/3/jobs/"+roots+"/hold", "")
	rapi(asCarol, "secret", "404", "GET", "/3/jobs/..%2f..%2faccess.json/log", "")
	rapi(asCarol, "secret", "40", "GET", "/3/jobs/"+roots+"%00/log", "")
	rapi(asCarol, "guess", "401", "GET", "/3/jobs", "")
	rapi(account{Submitter: access.Submitter{Name: "root"}}, "secret", "401", "GET", "/3/jobs", "")
	rapi(account{Submitter: access.Submitter{Name: "nobody"}}, "", "401", "GET", "/3/jobs/"+itoa(a.bobs.id)+"/log", "")
	rapi(account{Submitter: access.Submitter{Name: "nobody"}}, "", "401", "GET", "/3/jobs", "")
	form := func(by account, want, path string, values url.Values) {
		all = append(all, attempt{"sends the form " + path, by, func(by account) error {
			cookies := a.logIn(web, by)
			r, err := http.NewRequest(http.MethodPost, "http://"+a.host+":5080"+path, strings.NewReader(values.Encode()))
			if err != nil {
				return err
			}
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			for _, c := range cookies {
				r.AddCookie(c)
			}
			return send(r)
		}, want})
	}
	form(asAlice, "To drain the queue needs the role operate, alice (remote API) has submit.", "/ui/drain", url.Values{"drained": {"true"}})
	form(asBob, "To change settings needs the role admin, bob (remote API) has operate.", "/ui/settings", url.Values{"max_running_jobs": {"1"}})
	form(asCarol, "To change jobs needs the role submit, carol (remote API) has read.", "/ui/jobs/"+roots+"/cancel", nil)
	form(asAlice, "Job "+roots+" is root's; to kill it needs the role operate, alice has submit.", "/ui/jobs/"+roots+"/kill", nil)
	form(account{Submitter: access.Submitter{Name: "nobody"}}, "303 See Other", "/ui/settings", url.Values{"max_running_jobs": {"1"}})
	return all
}

// logIn returns the cookies of a new session of the console; none for a user without a password.
func (a *attacked) logIn(web *http.Client, by account) []*http.Cookie {
	a.t.Helper()
	response, err := web.PostForm("http://"+a.host+":5080/ui/login", url.Values{"name": {by.Name}, "password": {"secret"}})
	require.NoError(a.t, err)
	require.NoError(a.t, response.Body.Close())
	return response.Cookies()
}

// otherPorts are attempts at MonD, ConfD and the port of the nodes.
func (a *attacked) otherPorts() []attempt {
	nodes := func(protocol, request string) func(account) error {
		return func(account) error {
			c, err := tls.Dial("tcp", a.host+":7400", &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}}) //nolint:gosec // an attacker
			if err != nil {
				return err
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(patience))
			if _, err := io.WriteString(c, request); err != nil {
				return err
			}
			answer, err := io.ReadAll(c)
			return fmt.Errorf("%s: %w", answer, errors.Join(err, io.EOF))
		}
	}
	return []attempt{
		{"joins the cluster without a token", asAlice, nodes("lockstep-join", "POST /v1/join HTTP/1.1\r\nHost: n1\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"), "40"},
		{"writes to the consensus log", asAlice, nodes("lockstep-raft", "\x00garbage"), "certificate"},
		{"sends a request as a node", asAlice, nodes("lockstep-luxi", `{"method": "LockstepWhoAmI", "args": [], "from": {"uid": 0, "daemon": true}}`+"\x03"), "certificate"},
		{"reads the processes of jobs at MonD", asCarol, func(account) error {
			return fmt.Errorf("it names %v", reportOf(a.host+":1815", "daemon/processes", "")["jobs"])
		}, "it names []"},
		{"asks ConfD without the key", asAlice, func(account) error { return a.askForged() }, "only the query with the key is answered"},
	}
}

// askForged sends ConfD a query with another key, and one with the key after it.
func (a *attacked) askForged() error {
	key, err := os.ReadFile(a.path("lib", "hmac.key"))
	if err != nil {
		return err
	}
	c, err := net.Dial("udp", a.host+":1814")
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	q := confd.Query{Type: confd.ConfigPath, Argument: []byte(`"/serial_no"`)}
	for _, packet := range [][]byte{q.Request([]byte(strings.Repeat("x", confd.KeySize)), time.Now(), "forged"), q.Request(key, time.Now(), "true")} {
		if _, err := c.Write(packet); err != nil {
			return err
		}
	}
	reply := make([]byte, 64<<10)
	n, err := c.Read(reply)
	if err != nil {
		return err
	}
	if _, salt, err := confd.ParseReply(key, reply[:n]); err != nil || salt != "true" {
		return fmt.Errorf("the forged query is answered: %q", reply[:n])
	}
	return errors.New("only the query with the key is answered")
}

// Names of accounts that look like something else change nothing: each is a member with the role submit, its commands run as its own user or
// not at all, and what is printed about it has no control characters.
func TestOddUserNames(t *testing.T) {
	t.Parallel()
	d := newUsersDaemon(t)
	const first = 42000
	names := []string{"uid=0(root)", strings.Repeat("n", 200), "x\x1b[2Jy", "lockstep", "dba", "root", "0", "+0", "-u", "a, node=n2", "%s%n", "\xff\xfe", ""}
	var lines strings.Builder
	for i, name := range names {
		if name != "" { // the last one has no account
			fmt.Fprintf(&lines, "%s:x:%[2]d:%[2]d::/:/bin/sh\n", name, first+i)
		}
	}
	d.setAccounts(lines.String())
	root := d.startAgain("--socket-group", "lockstep")
	root.call("LockstepGrant", nil, "admin", "group:dba")
	victim := root.submit(command("sleep", "1000"))
	root.awaitStatus(victim, "running")
	var ids []int64
	for i := range names {
		c := d.dialAs(account{access.Submitter{UID: first + i}, []uint32{uint32(first + i), socketGroup}})
		var who struct{ User, Role string }
		c.call("LockstepWhoAmI", &who)
		require.Equal(t, "submit", who.Role)
		require.ErrorContains(t, c.Call(context.Background(), "SetDrainFlag", []any{true}, nil), "to drain the queue needs the role operate, ")
		require.ErrorContains(t, c.Call(context.Background(), "CancelJob", []any{victim, true}, nil), "is root's; to kill it needs the role operate, ")
		ids = append(ids, c.submit(command("id", "-u")))
	}
	for i, name := range names {
		j := root.await(ids[i])
		if j.Status == "success" {
			require.Equal(t, []string{fmt.Sprint(first + i)}, j.lines(), "%q", name)
		} else {
			require.Regexp(t, "there is no user |root had the uid 42005 when the job was submitted", string(j.Results[0]), "%q", name)
		}
	}
	for _, args := range [][]string{{"list", "--all"}, {"audit"}, {"info", "2"}, {"info", "4"}} {
		out, code := d.client(args...)
		require.Zero(t, code, out)
		control := func(r rune) bool { return unicode.IsControl(r) && r != '\n' }
		require.Equal(t, -1, strings.IndexFunc(out, control), "%v: %q", args, out)
	}
}

package persistence

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"lockstep/core/ownership"
)

// Files and directories of makeOwned, below its root, with their classes.
var (
	replacedFiles = map[string]ownership.Class{
		"config.data": ownership.Configuration, "locks.data": ownership.Private, "tempres.data": ownership.Private,
		"config.history": ownership.Private, "settings.json": ownership.Queue, "queue/job-1": ownership.Queue,
		"queue/serial": ownership.Queue, "queue/drain": ownership.Queue, "ssconf_node_list": ownership.Ssconf,
	}
	appendedFiles = map[string]ownership.Class{
		"locks.journal": ownership.Private, "config.journal": ownership.Private, "queue/job-2": ownership.Queue,
	}
	otherFiles = map[string]ownership.Class{
		"data/queue/archive/3/job-30000": ownership.Queue, "data/queue/lock": ownership.Queue, "run/livelocks/held": ownership.RunFile,
		"run/luxidmessages/1.prio": ownership.RunFile, "log/jobs.log": ownership.Log,
	}
	madeDirs = map[string]ownership.Class{
		"data": ownership.DataDir, "data/queue": ownership.QueueDir, "data/queue/archive": ownership.QueueDir,
		"data/queue/archive/3": ownership.QueueDir, "data/queue/quarantine": ownership.QueueDir, "run": ownership.RunDir,
		"run/socket": ownership.SocketDir, "run/livelocks": ownership.LivelockDir, "run/luxidmessages": ownership.LivelockDir,
		"log": ownership.LogDir,
	}
)

// makeOwned makes the directories and files. It is a role: the umask is that of a process.
func makeOwned(root string, rules ownership.Rules) error {
	data, run := filepath.Join(root, "data"), filepath.Join(root, "run")
	if err := MakeDirs(data, run, filepath.Join(root, "log"), rules); err != nil {
		return err
	}
	if err := MakeSocketDir(run, SocketDir(run), rules); err != nil {
		return err
	}
	files, err := OpenFiles(data, rules)
	if err != nil {
		return err
	}
	var errs []error
	for name := range replacedFiles {
		errs = append(errs, files.Replace("make", name, []byte("x")))
	}
	for name := range appendedFiles {
		errs = append(errs, files.Append("make", name, []byte("x")))
	}
	errs = append(errs, files.Replace("make", "queue/job-30000", nil), files.Rename("archive", "queue/job-30000", "queue/archive/3/job-30000"))
	_, err = LockQueue(data, rules)
	livelock, livelockErr := CreateLivelock(LivelockDir(run), "job_000001", rules)
	_, logErr := OpenLog(filepath.Join(root, "log/jobs.log"), rules)
	errs = append(errs, err, livelockErr, logErr, ReplaceMessage(PriorityPath(run, 1), []byte("-5\n"), rules))
	if livelockErr == nil {
		errs = append(errs, os.Rename(livelock.Path(), filepath.Join(run, "livelocks/held")))
	}
	return errors.Join(errs...)
}

// testTable has other modes than lockstep's own, and an account that is not the process's.
func testTable(user, group string) ownership.Table {
	return ownership.Ganeti(ownership.Accounts{Daemon: user, ConfdGroup: group, DaemonsGroup: group})
}

// playOwned makes files with the umask args[1], and with the user and group args[2:], if there are any.
func playOwned(args []string) error {
	umask, err := strconv.ParseUint(args[1], 8, 9)
	if err != nil {
		return err
	}
	unix.Umask(int(umask))
	table := ownership.Own()
	if len(args) == 4 {
		table = testTable(args[2], args[3])
	}
	rules, err := table.Resolve(strconv.Atoi, strconv.Atoi)
	if err != nil {
		return err
	}
	return makeOwned(args[0], rules)
}

// wantOwned checks all files and directories of makeOwned.
func wantOwned(t *testing.T, root string, rules ownership.Rules, uid, gid int) {
	t.Helper()
	want := func(name string, class ownership.Class) {
		t.Helper()
		var stat unix.Stat_t
		noError(t, unix.Stat(filepath.Join(root, name), &stat))
		a := rules.Of(class)
		if a.UID < 0 {
			a.UID = uid
		}
		if a.GID < 0 {
			a.GID = gid
		}
		if stat.Mode&0o7777 != a.Mode || int(stat.Uid) != a.UID || int(stat.Gid) != a.GID {
			t.Errorf("%s: %o %d:%d, want %o %d:%d", name, stat.Mode&0o7777, stat.Uid, stat.Gid, a.Mode, a.UID, a.GID)
		}
	}
	for name, class := range replacedFiles {
		want("data/"+name, class)
	}
	for name, class := range appendedFiles {
		want("data/"+name, class)
	}
	for name, class := range otherFiles {
		want(name, class)
	}
	for name, class := range madeDirs {
		want(name, class)
	}
}

// Every file and directory has the mode of the table under any umask.
func TestModesUnderAnyUmask(t *testing.T) {
	for _, umask := range []string{"0", "77", "777"} {
		t.Run(umask, func(t *testing.T) {
			root := t.TempDir()
			// A process without privileges cannot create a directory below one without permissions: 777 needs root.
			if umask == "777" && os.Geteuid() != 0 {
				t.Skip("NOT RUN: umask 777 needs root")
			}
			if got := startRole(t, "owned-files", root, umask).line(); got != "<nil>" {
				t.Fatal(got)
			}
			wantOwned(t, root, own, os.Geteuid(), os.Getegid())
		})
	}
}

// User and group are those of the table. A second run changes nothing.
func TestOwnersOfTheTable(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT RUN: files of another user need root")
	}
	rules, err := testTable("4711", "4712").Resolve(strconv.Atoi, strconv.Atoi)
	noError(t, err)
	for _, umask := range []string{"0", "77"} {
		t.Run(umask, func(t *testing.T) {
			root := t.TempDir()
			for range 2 {
				if got := startRole(t, "owned-files", root, umask, "4711", "4712").line(); got != "<nil>" {
					t.Fatal(got)
				}
				noError(t, os.Remove(filepath.Join(root, "data/queue/lock")))
				if got := startRole(t, "owned-files", root, umask, "4711", "4712").line(); got != "<nil>" {
					t.Fatal(got)
				}
			}
			wantOwned(t, root, rules, 0, 0)
		})
	}
}

// A file that cannot be given to its group does not replace the old one, and no temporary file is left.
func TestFailedChown(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT RUN: a process of another user needs root")
	}
	root := t.TempDir()
	noError(t, os.WriteFile(filepath.Join(root, "config.data"), []byte("old"), 0o640))
	noError(t, errors.Join(os.Chown(root, 4711, 4711), os.Chown(filepath.Join(root, "config.data"), 4711, 4711)))
	member := startRole(t, "foreign-group", root)
	for _, want := range []string{"save: chown config.data: operation not permitted", "journal: chown locks.journal: operation not permitted"} {
		if got := member.line(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	content, err := os.ReadFile(filepath.Join(root, "config.data"))
	noError(t, err)
	if string(content) != "old" {
		t.Errorf("content is %q", content)
	}
	names, err := listNames(root)
	noError(t, err)
	if got := strings.Join(names, " "); got != "config.data locks.journal" {
		t.Errorf("files are %s", got)
	}
}

// playForeignGroup writes as a user that is not a member of the group of the files.
func playForeignGroup(root string) error {
	dir, err := os.Open(root) // the directories above root may admit their owner only
	if err != nil {
		return err
	}
	defer dir.Close()
	rules, err := testTable("4711", "4712").Resolve(strconv.Atoi, strconv.Atoi)
	err = errors.Join(err, syscall.Setgroups(nil), syscall.Setgid(4711), syscall.Setuid(4711))
	if err != nil {
		return err
	}
	files, err := OpenFiles(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()), rules)
	if err != nil {
		return err
	}
	fmt.Println(files.Replace("save", "config.data", []byte("new")))
	fmt.Println(files.Append("journal", "locks.journal", []byte("new")))
	return nil
}

// Files of an earlier daemon get the owners of this one. Other files stay as they are.
func TestCorrectOwners(t *testing.T) {
	files, root := newOSFiles(t)
	for _, name := range []string{"config.data", "locks.data", "settings.json"} {
		noError(t, os.WriteFile(filepath.Join(root, name), []byte("x"), 0o600))
		noError(t, os.Chmod(filepath.Join(root, name), 0o666))
	}
	noError(t, os.Mkdir(filepath.Join(root, "config.d"), 0o755))
	noError(t, files.CorrectOwners("start", "config.data", "locks.data", "absent", "config.d"))
	for name, mode := range map[string]os.FileMode{"config.data": 0o640, "locks.data": 0o600, "settings.json": 0o666, "config.d": 0o755} {
		info, err := os.Stat(filepath.Join(root, name))
		noError(t, err)
		if info.Mode().Perm() != mode {
			t.Errorf("%s has mode %o, want %o", name, info.Mode().Perm(), mode)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("NOT RUN: files of another user need root")
	}
	rules, err := testTable("4711", "4712").Resolve(strconv.Atoi, strconv.Atoi)
	noError(t, err)
	foreign, err := OpenFiles(root, rules)
	noError(t, err)
	defer foreign.Close()
	noError(t, foreign.CorrectOwners("start", "config.data"))
	var stat unix.Stat_t
	noError(t, unix.Stat(filepath.Join(root, "config.data"), &stat))
	if !hasAttributes(stat, rules.Of(ownership.Configuration)) {
		t.Errorf("config.data is %o %d:%d", stat.Mode, stat.Uid, stat.Gid)
	}
}

// The user of a directory can replace every file in it, so the daemon's directories belong to its own user, to root, or to an account of the rules.
func TestADirectoryOfAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT RUN: directories of another user need root")
	}
	ganeti, err := testTable("4711", "4712").Resolve(strconv.Atoi, strconv.Atoi)
	noError(t, err)
	for _, setting := range []string{"data-dir", "run-dir", "log-dir"} {
		root := t.TempDir()
		path := func(name string) string { return filepath.Join(root, name) }
		makeDirs := func(rules ownership.Rules) error {
			return MakeDirs(path("data-dir"), path("run-dir"), path("log-dir"), rules)
		}
		noError(t, makeDirs(ownership.Rules{}))
		for _, c := range []struct {
			owner   int
			rules   ownership.Rules
			refused bool
		}{{4711, ownership.Rules{}, true}, {4711, ganeti, false}, {4999, ganeti, true}, {0, ganeti, false}} {
			noError(t, os.Chown(path(setting), c.owner, -1))
			err := makeDirs(c.rules)
			foreign, refused := errors.AsType[*ForeignDirError](err)
			if refused != c.refused || !refused && err != nil {
				t.Fatalf("%s of user %d: %v", setting, c.owner, err)
			}
			if want := (ForeignDirError{setting, path(setting), c.owner, 0}); refused && *foreign != want {
				t.Fatalf("%+v, not %+v", *foreign, want)
			}
		}
	}
}

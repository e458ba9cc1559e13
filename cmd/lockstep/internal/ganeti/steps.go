package ganeti

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"lockstep/core/ownership"
	"lockstep/core/paths"
	"lockstep/persistence"
)

// Directories and files of a node, below the root.
const (
	dataDir  = "/var/lib/ganeti"
	runDir   = "/run/ganeti"
	sbinDir  = "/usr/sbin"
	modules  = "/usr/share/ganeti/3.0/ganeti/jqueue/exec.py"
	util     = "/usr/lib/ganeti/daemon-util"
	divert   = "/usr/bin/dpkg-divert"
	cluster  = "/usr/sbin/gnt-cluster"
	stateKey = "lockstep-swap.json" // in the data directory
	stock    = ".ganeti"            // ends the name of a diverted program

	watcherLock = "/var/lock/ganeti-watcher.lock"
)

const (
	// pauseFor is how long the watcher is paused, if the way back to its work never ends the pause.
	pauseFor = time.Hour
	// watcherPatience bounds the wait for a watcher that runs.
	watcherPatience = 5 * time.Minute
	answerPatience  = time.Minute
)

// state is what a run has recorded. A step is recorded before it is done, so a run after a crash repeats it.
type state struct {
	Action string `json:"action"`       // swap or back
	Step   string `json:"step"`         // the step that is being done; "" after the last one
	Pause  string `json:"pause_before"` // content of watcher.pause; "": none
	Serial int64  `json:"serial"`       // of the queue when it was read for the last time
	Begun  int64  `json:"begun"`        // seconds since 1970; names the copy
	Plain  bool   `json:"plain"`        // the node is no master candidate: ganeti-wconfd and ganeti-luxid stay Ganeti's
	extras
}

// node is the Ganeti node that the commands of `lockstep ganeti` inspect and change.
type node struct {
	root     string // "" but in tests
	system   System
	owners   ownership.Rules
	program  string // lockstepd
	isMaster bool
	say      func(format string, args ...any)
	state    state

	// startHeld: the operator accepts that Ganeti's daemons start jobs that are held or not due.
	startHeld bool
}

// step is one step of a swap or a return. do may be repeated after a crash at any point of it.
type step struct {
	name  string
	where where
	do    func(*node) error
}

// where says on which nodes a step is done.
type where uint8

const (
	everywhere where = iota
	// whereStopped: on the master, and on other nodes if a daemon is replaced that runs there.
	whereStopped
	onMaster // the queue is there
)

// does reports whether a step is done on this node: some are done on the master only, or where lockstep has a daemon of the node.
func (n *node) does(s step) bool {
	switch {
	case s.where == everywhere, n.isMaster:
		return true
	case s.where == whereStopped:
		return slices.ContainsFunc(n.daemons(), isOnEveryNode)
	}
	return false
}

var swapSteps = []step{
	// Before anything stops: the watcher would start the daemons again.
	{"pause the watcher", whereStopped, (*node).pauseWatcher},
	// Clients are refused, instead of submitting to a daemon that is about to end.
	{"drain the queue", onMaster, (*node).drain},
	{"stop Ganeti's daemons", whereStopped, (*node).stopDaemons},
	// The daemons of the old kind have stopped, so that none changes the files meanwhile.
	{"save a copy", onMaster, (*node).save},
	{"put lockstep in their place", everywhere, (*node).link},
	{"start lockstep", whereStopped, (*node).startDaemons},
	// Not before the daemons of the new kind serve the queue.
	{"open the queue", onMaster, (*node).undrain},
	{"end the pause of the watcher", whereStopped, (*node).resumeWatcher},
}

var backSteps = []step{
	{"pause the watcher", whereStopped, (*node).pauseWatcher},
	{"drain the queue", onMaster, (*node).drain},
	// The command has looked for the jobs before the first step, too. After the drain no further job can come.
	{"look for lockstep's jobs", onMaster, (*node).refuseJobs},
	{"stop lockstep", whereStopped, (*node).stopDaemons},
	// Between the stop and the start: Ganeti's daemons do not know lockstep's journals.
	{"complete the files", onMaster, (*node).fold},
	{"save a copy", onMaster, (*node).save},
	{"put Ganeti's daemons in their place", everywhere, (*node).unlink},
	{"start Ganeti's daemons", whereStopped, (*node).startDaemons},
	{"open the queue", onMaster, (*node).undrain},
	{"end the pause of the watcher", whereStopped, (*node).resumeWatcher},
}

func (n *node) path(names ...string) string {
	return filepath.Join(append([]string{"/", n.root}, names...)...)
}

// perform does the steps of an action, from the recorded one on, and records each before it begins. A former action that was interrupted
// is turned round. The state is loaded.
func (n *node) perform(action string, steps []step) error {
	from := 0
	switch {
	case n.state.Step == "":
		n.state = state{Action: action, Serial: n.state.Serial, Begun: n.system.Now().Unix(), Plain: n.state.Plain, extras: n.state.extras}
	case n.state.Action == action:
		from = max(0, slices.IndexFunc(steps, func(s step) bool { return s.name == n.state.Step }))
		n.say("going on with: %s", n.state.Step)
	default:
		n.say("the %s was interrupted at: %s; turning round", n.state.Action, n.state.Step)
		n.state.Action = action // what it has remembered of pause and drain stays true
	}
	for i, s := range steps[from:] {
		if !n.does(s) {
			continue
		}
		n.state.Step = s.name
		if err := n.record(); err != nil {
			return err
		}
		n.say("%d/%d %s", from+i+1, len(steps), s.name)
		if err := s.do(n); err != nil {
			return fmt.Errorf("%s: %w; the same command goes on here", s.name, err)
		}
	}
	n.state.Step = ""
	return n.record()
}

func (n *node) load() error {
	content, err := os.ReadFile(n.path(dataDir, stateKey))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, &n.state); err != nil {
		return fmt.Errorf("%s: %w", n.path(dataDir, stateKey), err)
	}
	return nil
}

func (n *node) record() error {
	content, err := json.Marshal(n.state)
	if err != nil {
		return err
	}
	return n.replace(filepath.Join(dataDir, stateKey), append(content, '\n'), 0o600)
}

// replace replaces a file durably, or makes it. Its content is never incomplete.
func (n *node) replace(name string, content []byte, mode fs.FileMode) (err error) {
	path := n.path(name)
	file, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Chmod(mode), file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// pauseWatcher pauses the watcher, which would start daemons, and waits for those that run and may have read the file before. One
// that starts later reads the pause, and ends. A watcher and the processes that it forks for the node groups share a lock.
func (n *node) pauseWatcher() error {
	file := n.path(dataDir, "watcher.pause")
	if n.state.Pause == "" {
		content, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		until, _ := strconv.ParseFloat(strings.TrimSpace(string(content)), 64)
		n.state.Pause = "none"
		if until > float64(n.system.Now().Unix()) {
			n.state.Pause = strings.TrimSpace(string(content))
		}
		if err := n.record(); err != nil {
			return err
		}
	}
	until := strconv.FormatInt(n.system.Now().Add(pauseFor).Unix(), 10)
	if err := n.replace(filepath.Join(dataDir, "watcher.pause"), []byte(until+"\n"), 0o644); err != nil {
		return err
	}
	before := n.system.Watchers()
	return n.await(watcherPatience, func() error {
		for _, pid := range n.system.Watchers() {
			if slices.Contains(before, pid) {
				return fmt.Errorf("ganeti-watcher runs as process %d", pid)
			}
		}
		return n.watcherLockIsFree()
	})
}

// watcherLockIsFree returns an error while a watcher holds its lock; nil if there is no lock file.
func (n *node) watcherLockIsFree() error {
	file, err := os.Open(n.path(watcherLock))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		err = fmt.Errorf("ganeti-watcher runs: %s: %w", watcherLock, err)
	}
	return errors.Join(err, file.Close()) // the lock ends with it
}

// await repeats a check until it succeeds, or returns its last error when patience is over.
func (n *node) await(patience time.Duration, check func() error) error {
	for end := n.system.Now().Add(patience); ; n.system.Pause() {
		err := check()
		if err == nil || n.system.Now().After(end) {
			return err
		}
	}
}

func (n *node) resumeWatcher() error {
	if n.state.Pause != "" && n.state.Pause != "none" {
		return n.replace(filepath.Join(dataDir, "watcher.pause"), []byte(n.state.Pause+"\n"), 0o644)
	}
	if n.runs(luxid) { // the other master candidates may have got a copy of the pause
		if err := n.run(cluster, "watcher", "continue"); err != nil {
			return err
		}
	}
	err := os.Remove(n.path(dataDir, "watcher.pause"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// drain closes the queue for submissions. Without ganeti-luxid there are none. After a crash between the drain and its mark the
// queue stays drained: the flag may be the operator's, who then has to open it.
func (n *node) drain() error {
	_, err := os.Stat(n.path(dataDir, paths.DrainPath))
	switch {
	case err == nil && n.hasDrained():
		return nil
	case err == nil:
		n.say("the queue is drained already, and stays so: gnt-cluster queue undrain opens it")
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case !n.runs(luxid):
		return nil
	}
	if err := n.run(cluster, "queue", "drain"); err != nil {
		return err
	}
	flag, err := n.drainFlag()
	if err != nil {
		return err
	}
	return n.replace(filepath.Join(dataDir, drainMark), []byte(flag), 0o600)
}

// drainMark says which drain flag a command of this program has set. Each other one is the operator's.
const drainMark = "lockstep-swap.drained"

// drainFlag identifies the flag of this drain: each drain writes a new file, or the file again.
func (n *node) drainFlag() (string, error) {
	var stat unix.Stat_t
	if err := unix.Stat(n.path(dataDir, paths.DrainPath), &stat); err != nil {
		return "", fmt.Errorf("%s: %w", n.path(dataDir, paths.DrainPath), err)
	}
	return fmt.Sprintf("inode %d, modified %d.%09d\n", stat.Ino, stat.Mtim.Sec, stat.Mtim.Nsec), nil
}

// hasDrained reports whether the queue is drained by a command of this program.
func (n *node) hasDrained() bool {
	mark, err := os.ReadFile(n.path(dataDir, drainMark))
	flag, flagErr := n.drainFlag()
	return err == nil && flagErr == nil && string(mark) == flag
}

func (n *node) undrain() error {
	if n.hasDrained() {
		if err := n.run(cluster, "queue", "undrain"); err != nil {
			return err
		}
	}
	err := os.Remove(n.path(dataDir, drainMark))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// runs reports whether a daemon runs. It holds its pid file; Ganeti's ganeti-rapi does so with a lock of another kind.
func (n *node) runs(daemon string) bool {
	if _, locked := persistence.IsPIDFileLocked(persistence.PIDFilePath(n.path(runDir), daemon)); locked || daemon != rapi {
		return locked
	}
	_, err := n.system.Run(util, "check", daemon)
	return err == nil
}

// stopDaemons stops the daemons, Ganeti's or lockstep's, in the reverse order of their start. Job processes go on.
func (n *node) stopDaemons() error {
	for _, daemon := range slices.Backward(n.daemons()) {
		if err := n.stop(daemon); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) stop(daemon string) error {
	if !n.runs(daemon) {
		return nil
	}
	if err := n.run(util, "stop", daemon); err != nil {
		return err
	}
	if n.runs(daemon) {
		return fmt.Errorf("%s still runs", daemon)
	}
	return nil
}

func (n *node) startDaemons() error {
	for _, daemon := range n.daemons() {
		if n.runs(daemon) || !n.isMaster && !isOnEveryNode(daemon) {
			continue
		}
		persistence.RemoveStalePIDFile(persistence.PIDFilePath(n.path(runDir), daemon))
		if err := n.run(util, "start", daemon); err != nil {
			return err
		}
	}
	if !n.isMaster {
		return nil
	}
	return n.await(answerPatience, n.system.Answers)
}

// run runs a program on the node. An error has the command and what the program has printed.
func (n *node) run(name string, args ...string) error {
	output, err := n.system.Run(name, args...)
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(output))
	}
	return nil
}

// link diverts the programs of Ganeti's daemons, so that an upgrade of the package does not replace lockstep's, and puts links to
// lockstepd in their places.
func (n *node) link() error {
	for _, daemon := range n.daemons() {
		path := filepath.Join(sbinDir, daemon)
		if n.runs(daemon) {
			return fmt.Errorf("%s runs", daemon)
		}
		if err := n.run(divert, "--local", "--rename", "--divert", path+stock, "--add", path); err != nil {
			return err
		}
		target, err := os.Readlink(n.path(path))
		if err == nil && target == n.program {
			continue
		}
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is there although the program of Ganeti is diverted", path)
		}
		if err := os.Symlink(n.program, n.path(path)); err != nil {
			return err
		}
	}
	return syncDir(n.path(sbinDir))
}

// unlink gives each daemon's name in sbin back to Ganeti's program. It refuses while a daemon runs from the link.
func (n *node) unlink() error {
	for _, daemon := range n.daemons() {
		path := filepath.Join(sbinDir, daemon)
		if n.runs(daemon) {
			return fmt.Errorf("%s runs", daemon)
		}
		if n.isLinked(daemon) {
			if err := os.Remove(n.path(path)); err != nil {
				return err
			}
		}
		if err := n.run(divert, "--local", "--rename", "--divert", path+stock, "--remove", path); err != nil {
			return err
		}
		if _, err := os.Lstat(n.path(path)); err != nil {
			return fmt.Errorf("the program of Ganeti is missing: %w", err)
		}
	}
	return syncDir(n.path(sbinDir))
}

// isLinked reports whether lockstep is in the place of a daemon.
func (n *node) isLinked(daemon string) bool {
	target, err := os.Readlink(n.path(sbinDir, daemon))
	return err == nil && filepath.Base(target) == "lockstepd"
}

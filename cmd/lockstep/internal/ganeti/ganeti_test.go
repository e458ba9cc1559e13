package ganeti

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"lockstep/core/config"
	"lockstep/core/job"
	"lockstep/core/ownership"
	"lockstep/core/paths"
	"lockstep/core/record"
	"lockstep/persistence"
	"lockstep/sim/longtest"
)

func swap(n *node) error         { return n.swap(extras{}) }
func swapWithRapi(n *node) error { return n.swap(extras{Rapi: true}) }
func swapWithAll(n *node) error  { return n.swap(extras{Rapi: true, Confd: true, Mond: true}) }
func swapOfNode(n *node) error   { return n.swap(extras{Confd: true, Mond: true}) }
func back(n *node) error         { return n.back(false) }
func backWithHeld(n *node) error { return n.back(true) }

// allDaemons are those of the master.
var allDaemons = []string{confd, wconfd, rapi, luxid, mond}

// crash is the panic of a test in the place of a kill -9 of the command.
type crash struct{}

// world is a node below a directory: its files are real, its programs are played. Before each event a watcher comes by, as cron
// starts it, and starts daemons that do not run, unless it is paused.
type world struct {
	t       *testing.T
	root    string
	running map[string]*persistence.PIDFile
	kinds   map[string]string // of the running daemons: ganeti or lockstep
	clock   time.Time
	events  int
	crashAt int // number of the event at which the command is killed; 0: never
	after   bool
	said    []string
	watcher int // rounds for which a watcher still runs that has read no pause
	later   int // number of watchers that were seen once; each look sees another one, which has read the pause; negative: none
	broken  string
	watched []string // the daemons that a watcher starts
	// unknown: the command was killed after it has drained the queue and before it has noted that.
	unknown bool
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, root: t.TempDir(), running: map[string]*persistence.PIDFile{}, kinds: map[string]string{}, clock: time.Unix(1_800_000_000, 0), later: -1, watched: []string{confd, mond, wconfd, rapi}}
	first, err := config.New(config.Identity{ClusterName: "demo", ClusterUUID: "c", NodeName: "node1", NodeUUID: "n", NodeIP: "127.0.0.1", GroupUUID: "g", Now: 1})
	require.NoError(t, err)
	for name, content := range map[string]string{
		dataDir + "/" + paths.ConfigPath: string(first.JSON()), dataDir + "/queue/serial": "7\n", dataDir + "/queue/version": "1\n",
		dataDir + "/ssconf_release_version": config.SoftwareVersion + "\n", dataDir + "/ssconf_master_node": "node1.example\n",
		dataDir + "/locks.data": "[[],[]]", util: "", modules: "", "/opt/lockstep/lockstepd": "", "/opt/lockstep/lockstep-job": "",
		sbinDir + "/ganeti-luxid": "ganeti", sbinDir + "/ganeti-wconfd": "ganeti", sbinDir + "/ganeti-rapi": "ganeti", sbinDir + "/ganeti-confd": "ganeti", sbinDir + "/ganeti-mond": "ganeti", runDir + "/x": "",
	} {
		w.write(name, content)
	}
	for dir := w.root; dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode()&0o001 == 0 {
			require.NoError(t, os.Chmod(dir, 0o755))
		}
	}
	w.writeJob(3, job.Success, "OP_TEST_DELAY")
	for _, daemon := range allDaemons {
		w.startDaemon(daemon)
	}
	return w
}

func (w *world) path(name string) string { return filepath.Join(w.root, name) }

func (w *world) write(name, content string) {
	w.t.Helper()
	require.NoError(w.t, os.MkdirAll(filepath.Dir(w.path(name)), 0o755))
	require.NoError(w.t, os.WriteFile(w.path(name), []byte(content), 0o755))
}

func (w *world) writeJob(id int64, status job.Status, op string) {
	j := job.New(job.ID(id), []json.RawMessage{json.RawMessage(`{"OP_ID": "` + op + `"}`)}, []int{0}, job.Timestamp{Sec: 1}, "")
	j.Ops[0].Status = status
	w.write(dataDir+"/"+paths.JobPath(id), string(job.Encode(j)))
}

func (w *world) hold(id int64) {
	w.write(dataDir+"/"+paths.RecordPath(id), string(record.Record{}.WithHold(record.Hold{By: "uid=0(root)", SinceUs: 5}).Encode()))
}

// command is a run of the program. It returns the error, or crash{}.
func (w *world) command(do func(*node) error) (err error) {
	n := &node{root: w.root, system: w, owners: ownership.Rules{}, program: w.path("/opt/lockstep/lockstepd"),
		say: func(format string, args ...any) {
			w.said = append(w.said, fmt.Sprintf(format, args...))
			w.event(nil)
		}}
	n.isMaster = n.isMasterName("node1")
	defer func() {
		if _, crashed := recover().(crash); crashed {
			err = errors.New("killed")
			_, unmarked := os.Stat(w.path(dataDir + "/" + drainMark))
			_, open := os.Stat(w.path(dataDir + "/" + paths.DrainPath))
			w.unknown = open == nil && unmarked != nil
		}
	}()
	return do(n)
}

// event is a point at which the command may be killed: before or after what happens.
func (w *world) event(happens func()) {
	w.events++
	w.watch()
	if w.events == w.crashAt && !w.after {
		panic(crash{})
	}
	if happens != nil {
		happens()
	}
	w.checkKinds()
	if w.events == w.crashAt {
		panic(crash{})
	}
}

// watch is a run of the watcher.
func (w *world) watch() {
	content, err := os.ReadFile(w.path(dataDir + "/watcher.pause"))
	until, _ := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
	if err == nil && until > w.clock.Unix() && w.watcher == 0 {
		return
	}
	for _, daemon := range w.watched {
		if w.running[daemon] == nil {
			w.startDaemon(daemon)
		}
	}
}

// checkKinds: the daemons are of one kind, and are what /usr/sbin says.
func (w *world) checkKinds() {
	if w.kinds[wconfd] != "" && w.kinds[luxid] != "" && w.kinds[wconfd] != w.kinds[luxid] {
		w.broken = fmt.Sprintf("daemons of two kinds run: %v", w.kinds)
	}
	for daemon, kind := range w.kinds {
		if kind != w.kindOf(daemon) {
			w.broken = fmt.Sprintf("%s of %s runs while its program is %s", daemon, kind, w.kindOf(daemon))
		}
	}
}

// kindOf is whose program /usr/sbin has; "": none.
func (w *world) kindOf(daemon string) string {
	path := w.path(filepath.Join(sbinDir, daemon))
	if target, err := os.Readlink(path); err == nil {
		if strings.HasSuffix(target, "/lockstepd") {
			return "lockstep"
		}
		return target
	}
	content, _ := os.ReadFile(path)
	return string(content)
}

func (w *world) startDaemon(daemon string) {
	if w.kindOf(daemon) == "" {
		return // start-stop-daemon finds no program
	}
	file, err := persistence.CreatePIDFile(persistence.PIDFilePath(w.path(runDir), daemon), ownership.Rules{})
	require.NoError(w.t, err)
	w.running[daemon], w.kinds[daemon] = file, w.kindOf(daemon)
	if daemon == "ganeti-wconfd" && w.kindOf(daemon) == "lockstep" {
		w.write(dataDir+"/"+paths.LocksJournalPath, "{\"boot\":\"b\"}\n") // records of a crash are folded
	}
}

func (w *world) stopDaemon(daemon string) {
	if file := w.running[daemon]; file != nil {
		require.NoError(w.t, file.Release())
		delete(w.running, daemon)
		delete(w.kinds, daemon)
	}
}

// Run is part of System.
func (w *world) Run(name string, args ...string) (output string, err error) {
	w.event(func() { output, err = w.perform(name, args) })
	return output, err
}

func (w *world) perform(name string, args []string) (string, error) {
	switch name {
	case util:
		switch args[0] {
		case "start":
			w.startDaemon(args[1])
		case "stop":
			w.stopDaemon(args[1])
		case "check":
			if w.running[args[1]] == nil {
				return "", errors.New("exit status 3")
			}
		}
	case cluster:
		if w.running["ganeti-luxid"] == nil {
			return "cannot connect", errors.New("exit status 1")
		}
		if args[0] == "watcher" {
			return "", nil
		}
		if args[1] == "drain" {
			w.write(dataDir+"/"+paths.DrainPath, "")
			return "", nil
		}
		if err := os.Remove(w.path(dataDir + "/" + paths.DrainPath)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	case divert:
		return "", w.divert(args)
	case "/bin/cp":
		output, err := exec.Command(name, args...).CombinedOutput()
		return string(output), err
	default:
		w.broken = "unknown program " + name
	}
	return "", nil
}

// divert is dpkg-divert with --rename.
func (w *world) divert(args []string) error {
	from, to, mark := w.path(args[5]), w.path(args[3]), w.path(args[3]+".diverted")
	_, err := os.Stat(mark)
	diverted := err == nil
	switch {
	case args[4] == "--add" && !diverted:
		w.write(args[3]+".diverted", "")
		return os.Rename(from, to)
	case args[4] == "--remove" && diverted:
		if _, err := os.Lstat(from); err == nil {
			return errors.New("rename involves overwriting")
		}
		return errors.Join(os.Rename(to, from), os.Remove(mark))
	}
	return nil
}

func (w *world) Watchers() (pids []int) {
	if w.watcher > 0 {
		pids = append(pids, 4711)
	}
	if w.later >= 0 {
		w.later++
		pids = append(pids, 5000+w.later)
	}
	return pids
}

func (w *world) Answers() error {
	if w.running["ganeti-luxid"] == nil || w.running["ganeti-wconfd"] == nil {
		return errors.New("no answer")
	}
	return nil
}

func (w *world) Now() time.Time { return w.clock }

func (w *world) Pause() {
	w.clock = w.clock.Add(time.Second)
	w.watcher = max(0, w.watcher-1)
}

// requireIn: this kind is in place and runs, and of the extras those of lockstep; nothing is left of the way there.
func (w *world) requireIn(kind string, text string, lockstep ...string) {
	w.t.Helper()
	require.Empty(w.t, w.broken, text)
	kinds := map[string]string{wconfd: kind, luxid: kind, rapi: "ganeti", confd: "ganeti", mond: "ganeti"}
	for _, daemon := range lockstep {
		kinds[daemon] = "lockstep"
	}
	require.Equal(w.t, kinds, w.kinds, text)
	require.NoFileExists(w.t, w.path(dataDir+"/watcher.pause"), text)
	require.NoFileExists(w.t, w.path(dataDir+"/"+drainMark), text)
	if w.unknown {
		require.FileExists(w.t, w.path(dataDir+"/"+paths.DrainPath), text)
		require.Contains(w.t, w.said, "the queue is drained already, and stays so: gnt-cluster queue undrain opens it", text)
		return
	}
	require.NoFileExists(w.t, w.path(dataDir+"/"+paths.DrainPath), text)
}

func TestSwapAndBack(t *testing.T) {
	w := newWorld(t)
	w.watcher = 3
	require.NoError(t, w.command(swap))
	w.requireIn("lockstep", "")
	saved, err := filepath.Glob(w.path(dataDir + "/lockstep-before-swap-*/queue/job-3"))
	require.NoError(t, err)
	require.Len(t, saved, 1)
	require.NoError(t, w.command(swap))
	require.Contains(t, w.said, "lockstep is in the place of Ganeti's daemons already")

	// A job of lockstep's own and a serial that somebody has set back.
	w.writeJob(9, job.Running, "OP_RUN_COMMAND")
	require.ErrorContains(t, w.command(back), "jobs 9 have opcodes of lockstep and are not final")
	w.requireIn("lockstep", "nothing was begun")
	w.writeJob(9, job.Success, "OP_RUN_COMMAND")
	w.write(dataDir+"/queue/serial", "2\n")
	w.write(dataDir+"/"+paths.LocksJournalPath, "{\"boot\":\"b\"}\n{}\n")
	require.NoError(t, w.command(back))
	w.requireIn("ganeti", "")
	serial, err := os.ReadFile(w.path(dataDir + "/queue/serial"))
	require.NoError(t, err)
	require.Equal(t, "9\n", string(serial), "no id is given out twice")
	require.NoError(t, w.command(back))
	require.Contains(t, w.said, "Ganeti's daemons are in their place already")
}

// A kill at any point, before or after what the command does there: the same command goes on to its end, and the other one turns
// round. At no moment daemons of two kinds run, whatever the watcher does.
func TestACrashAtEachPoint(t *testing.T) {
	actions := map[string]func(*node) error{"swap": swap, "swap --rapi": swapWithRapi, "swap --rapi --confd --mond": swapWithAll, "back": back}
	for i, row := range []struct{ before, first, then string }{
		{"", "swap", "swap"}, {"", "swap", "back"}, {"swap", "back", "swap"}, {"swap", "back", "back"},
		{"", "swap --rapi", "swap --rapi"}, {"", "swap --rapi", "back"}, {"swap", "swap --rapi", "swap --rapi"}, {"swap", "swap --rapi", "back"},
		{"swap --rapi", "back", "swap --rapi"}, {"swap --rapi", "back", "back"},
		{"swap", "swap --rapi --confd --mond", "swap --rapi --confd --mond"}, {"swap --rapi --confd --mond", "back", "back"},
	} {
		first, then := row.first, row.then
		stride := 1 // of the points
		if strings.Contains(row.before+first, "--rapi") {
			stride = 3 // the points are those of the rows without it, and a few more
		}
		if strings.Contains(row.before+first, "--confd") {
			stride = 7
		}
		for _, after := range []bool{false, true} {
			for at := 1 + i%longtest.Stride(stride); ; at += longtest.Stride(stride) {
				w := newWorld(t)
				if row.before != "" {
					require.NoError(t, w.command(actions[row.before]))
				}
				w.events, w.crashAt, w.after = 0, at, after
				err := w.command(actions[first])
				w.crashAt = 0
				text := fmt.Sprintf("%s, killed at event %d, after it: %v, then %s: %v", first, at, after, then, w.said)
				if err == nil {
					break // it has fewer events
				}
				require.EqualError(t, err, "killed", text)
				require.NoError(t, w.command(actions[then]), text)
				switch then {
				case "swap":
					w.requireIn("lockstep", text)
				case "swap --rapi":
					w.requireIn("lockstep", text, rapi)
				case "swap --rapi --confd --mond":
					w.requireIn("lockstep", text, rapi, confd, mond)
				default:
					w.requireIn("ganeti", text)
				}
			}
		}
	}
}

// ganeti-rapi is replaced on demand, also later, and back returns all daemons.
func TestSwapOfRapi(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.command(swap))
	require.NoError(t, w.command(swapWithRapi))
	w.requireIn("lockstep", "", rapi)
	require.NoError(t, w.command(swap))
	w.requireIn("lockstep", "a swap takes nothing back", rapi)
	require.NoError(t, w.command(func(n *node) error {
		f := n.check(extras{})
		require.True(t, f.Swapped && f.Rapi)
		return nil
	}))
	require.NoError(t, w.command(back))
	w.requireIn("ganeti", "")
	require.NoError(t, w.command(swap))
	w.requireIn("lockstep", "the former --rapi is forgotten")

	w = newWorld(t)
	w.crashAt = 9
	require.EqualError(t, w.command(swap), "killed")
	w.crashAt = 0
	require.ErrorContains(t, w.command(swapWithRapi), "a swap without --rapi was interrupted")
	require.NoError(t, w.command(swap))
	w.requireIn("lockstep", "")
}

// Ganeti's daemons start held jobs, so a return with such jobs wants the word of the operator.
func TestBackWithHeldJobs(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.command(swap))
	w.hold(3) // has ended
	w.writeJob(8, job.Running, "OP_TEST_DELAY")
	w.hold(8)
	w.writeJob(9, job.Queued, "OP_TEST_DELAY")
	w.hold(9)
	require.NoError(t, w.command(func(n *node) error {
		require.Contains(t, n.check(extras{}).Notes, "jobs 9 are held, and Ganeti has no holds: after lockstep ganeti back they start at once, so it refuses without --start-held")
		return nil
	}))
	require.ErrorContains(t, w.command(back), "jobs 9 are held, and Ganeti's daemons would start them at once")
	w.requireIn("lockstep", "nothing was begun")

	// A hold that comes after the first look, in a command that is killed there.
	require.NoError(t, os.Remove(w.path(dataDir+"/"+paths.RecordPath(9))))
	w.events, w.crashAt = 0, 4
	require.EqualError(t, w.command(back), "killed")
	w.crashAt = 0
	w.hold(9)
	require.ErrorContains(t, w.command(back), "jobs 9 are held")
	require.Equal(t, "lockstep", w.kinds[luxid])
	require.NoError(t, w.command(backWithHeld))
	w.requireIn("ganeti", "")
}

// Ganeti's daemons start jobs at once that are not due.
func TestBackWithJobsThatAreNotDue(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.command(swap))
	for id, after := range map[int64]time.Duration{8: -time.Hour, 9: time.Hour} {
		w.writeJob(id, job.Queued, "OP_TEST_DELAY")
		w.write(dataDir+"/"+paths.RecordPath(id), string(record.Record{}.WithDue(w.clock.Add(after).UnixMicro()).Encode()))
	}
	require.NoError(t, w.command(func(n *node) error {
		require.Contains(t, strings.Join(n.check(extras{}).Notes, "\n"), "jobs 9 are not due, and Ganeti has no start times")
		return nil
	}))
	require.ErrorContains(t, w.command(back), "jobs 9 are not due, and Ganeti's daemons would start them at once")
	w.requireIn("lockstep", "nothing was begun")
	require.NoError(t, w.command(backWithHeld))
	w.requireIn("ganeti", "")
}

// A return names the filter rules that Ganeti's daemons do not know. They stay.
func TestBackWithRulesOfLockstep(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.command(swap))
	w.write(dataDir+"/"+paths.ConfigExtraPath, `{"v":1,"number":3,"digests":[],"concurrent":[],"rules":{"r-1":{"uuid":"r-1","watermark":0,
		"priority":0,"predicates":[["lock",["=~","name","^node/n3$"]]],"action":"PAUSE","reason_trail":[]},"r-2":{"uuid":"r-2","watermark":0,"priority":1,
		"predicates":[],"action":["RATE_LIMIT",2],"reason_trail":[],"until":5}}}`)
	const named = "Ganeti's daemons do not know these filter rules: r-1 (PAUSE), r-2 (RATE_LIMIT:2)"
	require.NoError(t, w.command(func(n *node) error {
		require.Contains(t, strings.Join(n.check(extras{}).Notes, "\n"), named)
		return nil
	}))
	require.NoError(t, w.command(back))
	require.Contains(t, strings.Join(w.said, "\n"), named)
	require.NoError(t, w.command(func(n *node) error {
		rules, err := n.ownRules()
		require.Len(t, rules, 2)
		return err
	}))
}

// A former master has the records of jobs that it has held; they mean nothing there, and no daemon starts.
func TestBackOfACandidateWithRecordsOfHolds(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.command(swap))
	for _, daemon := range allDaemons {
		w.stopDaemon(daemon)
	}
	w.write(dataDir+"/ssconf_master_node", "node2.example\n")
	w.write(dataDir+"/watcher.pause", strconv.FormatInt(w.clock.Add(time.Hour).Unix(), 10)) // it does not run on such a node
	w.writeJob(9, job.Queued, "OP_TEST_DELAY")
	w.hold(9)
	require.NoError(t, w.command(back))
	require.Equal(t, "ganeti", w.kindOf("ganeti-luxid"))
}

// A kill at any point, and the operator drains the queue then: it is drained after the next command, too.
func TestADrainAfterACrashStays(t *testing.T) {
	actions := map[string]func(*node) error{"swap": swap, "back": back}
	begin := 1 + 2%longtest.Stride(1) // the third point, the drain, is among those of a part
	for _, row := range []struct{ first, then string }{{"swap", "swap"}, {"swap", "back"}, {"back", "back"}, {"back", "swap"}} {
		for _, after := range []bool{false, true} {
			for at := begin; ; at += longtest.Stride(1) {
				w := newWorld(t)
				if row.first == "back" {
					require.NoError(t, w.command(swap))
				}
				w.events, w.crashAt, w.after = 0, at, after
				err := w.command(actions[row.first])
				w.crashAt = 0
				if err == nil {
					break
				}
				w.clock = w.clock.Add(time.Minute)
				drained := w.path(dataDir + "/" + paths.DrainPath)
				w.write(dataDir+"/"+paths.DrainPath, "")
				require.NoError(t, os.Chtimes(drained, w.clock, w.clock))
				require.NoError(t, w.command(actions[row.then]))
				require.FileExists(t, drained, "%s killed at event %d, after it: %v, then %s: %v", row.first, at, after, row.then, w.said)
			}
		}
	}
}

// What an operator has paused and drained stays so.
func TestPauseAndDrainOfTheOperatorStay(t *testing.T) {
	w := newWorld(t)
	pause := strconv.FormatInt(w.clock.Add(9*time.Hour).Unix(), 10)
	w.write(dataDir+"/watcher.pause", pause+"\n")
	w.write(dataDir+"/"+paths.DrainPath, "")
	w.crashAt = 9
	require.EqualError(t, w.command(swap), "killed")
	w.crashAt = 0
	require.NoError(t, w.command(swap))
	content, err := os.ReadFile(w.path(dataDir + "/watcher.pause"))
	require.NoError(t, err)
	require.Equal(t, pause+"\n", string(content))
	require.FileExists(t, w.path(dataDir+"/"+paths.DrainPath))
}

// Another candidate gets the links only.
func TestSwapOfACandidate(t *testing.T) {
	w := newWorld(t)
	for _, daemon := range allDaemons {
		w.stopDaemon(daemon)
	}
	w.write(dataDir+"/ssconf_master_node", "node2.example\n")
	w.write(dataDir+"/watcher.pause", strconv.FormatInt(w.clock.Add(time.Hour).Unix(), 10)) // it does not run on such a node
	require.NoError(t, w.command(swap))
	require.Equal(t, "lockstep", w.kindOf("ganeti-luxid"))
	require.Empty(t, w.kinds)
	require.NoError(t, w.command(back))
	require.Equal(t, "ganeti", w.kindOf("ganeti-wconfd"))
}

// Another candidate's ganeti-confd and ganeti-mond run: they are stopped and started, and nothing else is.
func TestSwapOfConfdAndMondOfACandidate(t *testing.T) {
	w := newWorld(t)
	for _, daemon := range []string{wconfd, rapi, luxid} {
		w.stopDaemon(daemon)
	}
	w.watched = []string{confd, mond}
	w.write(dataDir+"/ssconf_master_node", "node2.example\n")
	require.NoError(t, w.command(swap))
	require.Equal(t, map[string]string{confd: "ganeti", mond: "ganeti"}, w.kinds)
	require.NoError(t, w.command(swapOfNode))
	require.Equal(t, map[string]string{confd: "lockstep", mond: "lockstep"}, w.kinds)
	require.Equal(t, "lockstep", w.kindOf(luxid))
	require.NoFileExists(t, w.path(dataDir+"/watcher.pause"))
	require.NoFileExists(t, w.path(dataDir+"/"+paths.DrainPath))
	require.NoError(t, w.command(back))
	require.Equal(t, map[string]string{confd: "ganeti", mond: "ganeti"}, w.kinds)
	require.Equal(t, "ganeti", w.kindOf(luxid))
	require.Empty(t, w.broken)
}

// A node that is no candidate has ganeti-confd and ganeti-mond only, also after a crash at each point.
func TestSwapOfConfdAndMondOfARegularNode(t *testing.T) {
	begin := func() *world {
		w := newWorld(t)
		for _, daemon := range []string{wconfd, rapi, luxid} {
			w.stopDaemon(daemon)
		}
		w.watched = []string{confd, mond}
		w.write(dataDir+"/ssconf_master_node", "node2.example\n")
		require.NoError(t, os.Remove(w.path(dataDir+"/"+paths.ConfigPath)))
		return w
	}
	requireIn := func(w *world, kind, text string) {
		t.Helper()
		require.Empty(t, w.broken, text)
		require.Equal(t, map[string]string{confd: kind, mond: kind}, w.kinds, text)
		require.Equal(t, "ganeti", w.kindOf(wconfd), text)
		require.NoFileExists(t, w.path(dataDir+"/watcher.pause"), text)
	}
	w := begin()
	require.ErrorContains(t, w.command(swap), "no master candidate, where only --confd and --mond are possible")
	require.ErrorContains(t, w.command(swapWithAll), "no master candidate")
	require.NoError(t, w.command(swapOfNode))
	requireIn(w, "lockstep", "")
	require.NoError(t, w.command(swapOfNode))
	require.Contains(t, w.said, "lockstep is in the place of Ganeti's daemons already")
	require.NoError(t, w.command(func(n *node) error {
		require.Equal(t, extras{Confd: true, Mond: true}, n.check(extras{}).extras)
		return nil
	}))
	require.NoError(t, w.command(back))
	requireIn(w, "ganeti", "")
	for at := 1; ; at++ {
		w := begin()
		w.events, w.crashAt = 0, at
		if w.command(swapOfNode) == nil {
			break // it has fewer events
		}
		w.crashAt = 0
		text := fmt.Sprintf("killed at event %d: %v", at, w.said)
		require.NoError(t, w.command(swapOfNode), text)
		requireIn(w, "lockstep", text)
		w.events, w.crashAt = 0, at
		if err := w.command(back); err != nil {
			w.crashAt = 0
			require.NoError(t, w.command(back), text)
		}
		w.crashAt = 0
		requireIn(w, "ganeti", text)
	}
}

// A watcher that starts during the pause reads it and ends, so a swap does not wait for a moment without watchers.
func TestSwapWithAWatcherAtEachMoment(t *testing.T) {
	w := newWorld(t)
	w.watcher, w.later = 3, 0
	began := w.clock
	require.NoError(t, w.command(swap))
	require.Less(t, w.clock.Sub(began), 10*time.Second)
	require.Zero(t, w.watcher, "the watcher that ran before the pause has ended")
	w.requireIn("lockstep", "")
}

// A watcher starts one process for each node group and ends before them. A swap waits for these processes too.
func TestSwapWaitsForWatchersOfGroups(t *testing.T) {
	w := newWorld(t)
	w.write(watcherLock, "")
	held, err := os.Open(w.path(watcherLock))
	require.NoError(t, err)
	require.NoError(t, unix.Flock(int(held.Fd()), unix.LOCK_SH))
	require.ErrorContains(t, w.command(swap), "ganeti-watcher runs")
	require.Equal(t, "ganeti", w.kinds[luxid])
	require.NoError(t, held.Close())
	require.NoError(t, w.command(swap))
	w.requireIn("lockstep", "")
}

// check says why a swap is refused, and a refused swap changes nothing.
func TestCheck(t *testing.T) {
	w := newWorld(t)
	w.writeJob(4, job.Running, "OP_TEST_DELAY")
	require.NoError(t, w.command(func(n *node) error {
		f := n.check(extras{})
		require.Empty(t, f.Reasons)
		require.Equal(t, []string{"jobs 4 run: their processes go on, and lockstep watches them"}, f.Notes)
		return nil
	}))
	for name, c := range map[string]struct{ file, content, reason string }{
		"release":       {dataDir + "/ssconf_release_version", "2.16.2\n", "the cluster runs Ganeti 2.16.2"},
		"configuration": {dataDir + "/config.data", "{", "config.data: "},
		"programs":      {"/opt/lockstep/lockstep-job", "", "is not executable for all users"},
		"mode":          {dataDir + "/member-of-cluster", "", "belongs to a cluster of lockstep"},
		"packages":      {modules, "", "Ganeti's packages are not complete"},
		"space":         {dataDir + "/queue/large", "", "are needed for a copy"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.write(c.file, c.content)
			if name == "programs" {
				require.NoError(t, os.Chmod(w.path(c.file), 0o750))
			}
			if name == "packages" {
				require.NoError(t, os.Remove(w.path(c.file)))
			}
			if name == "space" { // a sparse file
				require.NoError(t, os.Truncate(w.path(c.file), 8<<40))
			}
			require.ErrorContains(t, w.command(swap), c.reason)
			w.requireIn("ganeti", "")
		})
	}
}

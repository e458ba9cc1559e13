package ganeti

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstep/actors/config/configstore"
	"lockstep/core/job"
	"lockstep/core/opcode"
	"lockstep/core/paths"
	"lockstep/core/record"
	"lockstep/persistence"
)

// savedPrefix begins the names of saved copies, in the data directory.
const savedPrefix = "lockstep-before-"

// save copies what the daemons own, unless this action has a copy. The copy has its name when it is complete.
func (n *node) save() error {
	name := savedPrefix + n.state.Action + "-" + time.Unix(n.state.Begun, 0).UTC().Format("20060102-150405")
	target := n.path(dataDir, name)
	if _, err := os.Stat(target); err == nil {
		return nil
	}
	if err := os.RemoveAll(target + ".new"); err != nil {
		return err
	}
	if err := os.Mkdir(target+".new", 0o700); err != nil {
		return err
	}
	args := []string{"-a", "--"}
	for _, file := range []string{paths.QueueDir, paths.ConfigPath, paths.LocksPath, paths.TempResPath} {
		if _, err := os.Lstat(n.path(dataDir, file)); err == nil {
			args = append(args, n.path(dataDir, file))
		}
	}
	if err := n.run("/bin/cp", append(args, target+".new")...); err != nil {
		return err
	}
	if err := os.Rename(target+".new", target); err != nil {
		return err
	}
	if err := n.noteSerial(); err != nil {
		return err
	}
	n.say("a copy of queue and configuration is in %s", target)
	return syncDir(n.path(dataDir))
}

// jobIDs returns the ids of the jobs in the queue's directory, without the archive.
func (n *node) jobIDs() (ids []int64, err error) {
	entries, err := os.ReadDir(n.path(dataDir, paths.QueueDir))
	for _, e := range entries {
		digits, isJob := strings.CutPrefix(e.Name(), "job-")
		if id, err := strconv.ParseInt(digits, 10, 64); isJob && err == nil {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// unfinished are the jobs that are not final and matter to a swap or a return. Damaged jobs are in none.
type unfinished struct {
	running []int64
	own     []int64 // those with opcodes of lockstep
	// held and notDue begin when Ganeti's daemons start, because these read neither holds nor start times; only on the master.
	held, notDue []int64
}

func (n *node) unfinishedJobs() (u unfinished, err error) {
	ids, err := n.jobIDs()
	if err != nil {
		return unfinished{}, err
	}
	for _, id := range ids {
		content, err := os.ReadFile(n.path(dataDir, paths.JobPath(id)))
		if errors.Is(err, fs.ErrNotExist) {
			continue // archived meanwhile
		}
		if err != nil {
			return unfinished{}, err
		}
		j, err := job.Decode(content)
		if err != nil || j.Status().Final() {
			continue
		}
		if j.Status() != job.Queued || paths.IsJobLivelock(j.Livelock) {
			u.running = append(u.running, id)
		} else if held, notDue, err := n.isHeldBack(id); err != nil {
			return unfinished{}, err
		} else if held {
			u.held = append(u.held, id)
		} else if notDue {
			u.notDue = append(u.notDue, id)
		}
		if hasOwnOpcode(j) {
			u.own = append(u.own, id)
		}
	}
	return u, nil
}

func hasOwnOpcode(j *job.Job) bool {
	return slices.ContainsFunc(j.Ops, func(op job.Op) bool {
		_, isGanetis := opcode.Builtin().Lookup(job.OpID(op.Input))
		return !isGanetis || job.OpID(op.Input) == "OP_RUN_COMMAND"
	})
}

// isHeldBack reports whether the record beside a job's file holds it, or has a time for its start that has not come. Only the records of
// the master mean something.
func (n *node) isHeldBack(id int64) (held, notDue bool, err error) {
	if !n.isMaster {
		return false, false, nil
	}
	content, err := os.ReadFile(n.path(dataDir, paths.RecordPath(id)))
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	if r, err := record.Decode(content); err == nil { // the daemon sets a damaged record aside, and the job is not held back
		_, held = r.Hold()
		notDue = time.UnixMicro(r.DueUs()).After(n.system.Now())
	}
	return held, notDue, nil
}

// refuseJobs returns an error while a job with opcodes of lockstep is not final, which Ganeti's daemons cannot run, or a job is held or not
// due, which they would start, unless the operator accepts that.
func (n *node) refuseJobs() error {
	u, err := n.unfinishedJobs()
	switch {
	case err != nil:
		return err
	case len(u.own) > 0:
		err = fmt.Errorf("jobs %s have opcodes of lockstep and are not final; wait for their ends, or cancel them", list(u.own))
	case len(u.held) > 0 && !n.startHeld:
		err = fmt.Errorf("jobs %s are held, and Ganeti's daemons would start them at once; release or cancel them, or say --start-held",
			list(u.held))
	case len(u.notDue) > 0 && !n.startHeld:
		err = fmt.Errorf("jobs %s are not due, and Ganeti's daemons would start them at once; wait, or cancel them, or say --start-held",
			list(u.notDue))
	}
	if err != nil && n.hasDrained() {
		err = fmt.Errorf("%w (the queue is drained: gnt-cluster queue undrain opens it)", err)
	}
	return err
}

func list(ids []int64) string {
	const most = 10
	var texts []string
	for i, id := range ids {
		if i == most {
			return strings.Join(texts, ", ") + fmt.Sprintf(" and %d more", len(ids)-most)
		}
		texts = append(texts, strconv.FormatInt(id, 10))
	}
	return strings.Join(texts, ", ")
}

// fold completes config.data and locks.data from the journals of lockstep, and the serial of the queue. A daemon that has ended in
// order has done it; after a crash config.data is completed here, and locks.data by a daemon.
func (n *node) fold() error {
	files, err := persistence.OpenFiles(n.path(dataDir), n.owners)
	if err != nil {
		return err
	}
	_, err = configstore.Offline{Files: files, Secrets: opcode.Builtin().SecretNames}.Fold(false)
	if err = errors.Join(err, files.Close()); err != nil {
		return errors.New(configstore.Explain(err, n.path(dataDir)))
	}
	if n.hasJournal() {
		n.say("the locks are completed by a start and stop of ganeti-wconfd")
		persistence.RemoveStalePIDFile(persistence.PIDFilePath(n.path(runDir), wconfd))
		if err := n.run(util, "start", wconfd); err != nil {
			return err
		}
		if err := n.stop(wconfd); err != nil {
			return err
		}
	}
	if n.hasJournal() {
		return fmt.Errorf("%s still has records", n.path(dataDir, paths.LocksJournalPath))
	}
	if err := n.nameOwnRules(); err != nil {
		return err
	}
	return n.raiseSerial()
}

// hasJournal reports whether a journal has records that the files of Ganeti's daemons lack.
func (n *node) hasJournal() bool {
	if info, err := os.Stat(n.path(dataDir, paths.ConfigJournalPath)); err == nil && info.Size() > 0 {
		return true
	}
	locks, _ := os.ReadFile(n.path(dataDir, paths.LocksJournalPath))
	_, records, _ := bytes.Cut(locks, []byte("\n")) // the first line is the boot of the machine
	return len(records) > 0
}

// serial reads the highest id that the queue has given out.
func (n *node) serial() (int64, error) {
	content, err := os.ReadFile(n.path(dataDir, paths.SerialPath))
	if err != nil {
		return 0, err
	}
	serial, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", n.path(dataDir, paths.SerialPath), err)
	}
	return serial, nil
}

// noteSerial records the serial of the queue, below which no later one may be.
func (n *node) noteSerial() error {
	serial, err := n.serial()
	if err != nil {
		return err
	}
	n.state.Serial = max(n.state.Serial, serial)
	return n.record()
}

// raiseSerial makes sure that Ganeti's daemons give out no id twice: it raises the serial to the highest id that is known, if it is
// lower.
func (n *node) raiseSerial() error {
	serial, err := n.serial()
	if err != nil {
		return err
	}
	ids, err := n.jobIDs()
	if err != nil {
		return err
	}
	least := n.state.Serial
	for _, id := range ids {
		least = max(least, id)
	}
	if serial >= least {
		return nil
	}
	n.say("queue/serial was %d and is now %d", serial, least)
	files, err := persistence.OpenFiles(n.path(dataDir), n.owners)
	if err != nil {
		return err
	}
	err = files.Replace("serial", paths.SerialPath, fmt.Appendf(nil, "%d\n", least))
	if err == nil {
		err = files.SyncDir("serial", paths.QueueDir)
	}
	return errors.Join(err, files.Close())
}

// isExecutableByAll reports why other users cannot execute a program; nil if they can.
func isExecutableByAll(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	const othersExecute = 0o001
	if !info.Mode().IsRegular() || info.Mode()&othersExecute == 0 {
		return fmt.Errorf("%s is not executable for all users", path)
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if info, err = os.Stat(dir); err != nil {
			return err
		}
		if info.Mode()&othersExecute == 0 {
			return fmt.Errorf("%s, with %s, is closed to other users", dir, filepath.Base(path))
		}
		if dir == "/" || dir == "." {
			return nil
		}
	}
}

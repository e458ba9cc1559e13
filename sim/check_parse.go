package sim

import (
	"fmt"
	"path"
	"strings"

	"lockstep/core/access"
	coreaudit "lockstep/core/audit"
	"lockstep/core/config"
	"lockstep/core/config/journal"
	"lockstep/core/config/model"
	"lockstep/core/config/reserve"
	"lockstep/core/durations"
	"lockstep/core/paths"
	"lockstep/core/record"
	"lockstep/core/replication"
	"lockstep/core/schedule"
	"lockstep/core/session"
	"lockstep/sim/simdisk"
)

// checkParse: every file that lockstep has written is readable, at all times and after a power
// loss: jobs and their records, archived or not, the serial, the configuration, the settings.
// Only files in quarantine and temporary files may be different. The files of the locks are
// checked by checkReplay.
type checkParse struct {
	garbled map[int64]bool
	parsed  map[string]*simdisk.File // readable files, by path
}

func (*checkParse) Name() string { return "every file parses" }

func (c *checkParse) See(w *World, event any) error {
	if c.garbled == nil {
		c.garbled, c.parsed = map[int64]bool{}, map[string]*simdisk.File{}
	}
	switch e := event.(type) {
	case fileChanged:
		if e.job == nil {
			delete(c.garbled, e.id)
		}
		if e.content != nil && e.err != nil {
			return fmt.Errorf("job %d: %w", e.id, e.err)
		}
	case garbled:
		c.garbled[e.id] = true
	case settingsEdited:
		c.parsed[paths.SettingsPath] = w.disk.Find(paths.SettingsPath) // an operator has written it
	case otherFileChanged:
		if f := e.disk.Find(e.path); f != nil {
			return c.checkFile(e.path, f)
		}
	case powerLost, daemonStarted, finished:
		return c.checkAll(w)
	}
	return nil
}

func (c *checkParse) checkAll(w *World) error {
	for _, dir := range w.disk.Directories() {
		for name, f := range w.disk.Files(dir) { // the order matters only after a violation
			if err := c.checkFile(path.Join(dir, name), f); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkFile checks that a file can be read, unless this version was read before.
func (c *checkParse) checkFile(name string, f *simdisk.File) error {
	id, isJob := paths.ParseJobName(path.Base(name))
	switch {
	case strings.HasSuffix(name, simdisk.TempSuffix), strings.HasPrefix(name, paths.QuarantineDir+"/"):
	case isJob && (name == paths.JobPath(id) || name == paths.ArchivePath(id)):
		if err := jobIn(f).err; err != nil && !c.garbled[id] {
			return fmt.Errorf("%s: %w", name, err)
		}
	case c.parsed[name] == f:
	default:
		if err := parse(name, f.Data); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		c.parsed[name] = f
	}
	return nil
}

func parse(name string, data []byte) (err error) {
	id, isRecord := paths.ParseRecordName(path.Base(name))
	if isRecord && (name == paths.RecordPath(id) || name == paths.ArchivedRecordPath(id)) {
		_, err = record.Decode(data)
		return err
	}
	if first, is := paths.ParseAuditPath(name); is {
		_, err = coreaudit.Decode(first, data)
		return err
	}
	if _, is := paths.ParseSchedulePath(name); is {
		_, err = schedule.Decode(data)
		return err
	}
	switch name {
	case paths.SerialPath:
		_, err = paths.ParseSerial(data)
	case paths.ConfigPath:
		_, err = model.Decode(data)
	case paths.SettingsPath:
		_, err = config.DecodeSettings(data)
	case paths.SessionsPath:
		_, err = session.Decode(data)
	case paths.AccessPath:
		_, err = access.DecodeGrants(data)
	case paths.FeaturesPath:
		_, err = replication.DecodeFeaturesKnown(data)
	case paths.DurationsPath:
		_, err = durations.Decode(data)
	case paths.TempResPath:
		_, err = reserve.Decode(data)
	case paths.ConfigJournalPath:
		err = journal.Read(data).Damage
	case paths.RunDirPath:
		if !path.IsAbs(strings.TrimSuffix(string(data), "\n")) {
			err = fmt.Errorf("%q is no directory", data)
		}
	case paths.ConfigExtraPath,
		paths.ConfigHistoryPath,
		paths.ConfigHistoryOlderPath,
		paths.VersionPath,
		paths.LocksPath,
		paths.LocksJournalPath,
		paths.FreeLocksPath,
		paths.FreeLocksJournalPath,
		paths.DrainPath:
	default:
		if strings.HasPrefix(name, paths.SsconfPrefix) {
			return nil
		}
		err = fmt.Errorf("nobody knows this file")
	}
	return err
}

package configstore

import (
	"errors"
	"fmt"
	"io/fs"

	"lockstep/actors/store"
	"lockstep/core/config/history"
	"lockstep/core/config/journal"
	"lockstep/core/paths"
)

// Offline reads and folds the configuration's files without the actor, while the caller holds the locks of a stopped daemon. Its calls
// block.
type Offline struct {
	Files   store.Files
	Secrets func() []string // as in Config
}

// Result says what Offline.Fold has done.
type Result struct {
	Serial  int64  // of config.data now
	Records int    // of the journal that config.data did not have
	Aside   string // new path of a journal that has unused records; "": there is none
}

// Prepare reads the files before the actor starts. Its error is why a daemon cannot start with them: for an operator, see Explain.
func (o Offline) Prepare() (*Prepared, error) {
	contents, err := o.readAll()
	if err != nil {
		return nil, err
	}
	s, err := contents.recover(false)
	if err != nil {
		return nil, err
	}
	return newPrepared(contents, s), nil
}

// recover returns the state of the files. isFilled: config.data lacks values that the state has.
func (o Offline) recover(discardRest bool) (r journal.Recovered, isFilled bool, err error) {
	contents, err := o.readAll()
	if err != nil {
		return r, false, err
	}
	s, err := contents.recover(discardRest)
	return s.result, s.isFilled, err
}

func (o Offline) readAll() (c contents, err error) {
	for i, path := range contentPaths() {
		if c[i], err = o.read(path); err != nil {
			return c, err
		}
	}
	return c, nil
}

// Fold writes the state to config.data, tempres.data and config.extra, and leaves no journal. discardRest goes on without the
// records after damage; the damaged journal is set aside. A fold that is interrupted can be repeated.
func (o Offline) Fold(discardRest bool) (Result, error) {
	_, _, damage := o.recover(false)
	r, isFilled, err := o.recover(discardRest)
	if err != nil || r.Config == nil {
		return Result{}, err
	}
	result := Result{Serial: r.Config.Serial, Records: len(r.Remaining)}
	if len(r.Remaining) > 0 || isFilled {
		if err := o.write(r); err != nil {
			return Result{}, err
		}
	}
	if r.Unused || damage != nil {
		names, err := o.Files.List("config-fold", ".")
		if err != nil {
			return Result{}, err
		}
		result.Aside = store.FreeName(fmt.Sprintf("%s.unused-%d", paths.ConfigJournalPath, r.Number), names)
		if err := o.Files.Rename("config-fold", paths.ConfigJournalPath, result.Aside); err != nil {
			return Result{}, err
		}
	} else if err := o.Files.Remove("config-fold", paths.ConfigJournalPath); err != nil {
		return Result{}, err
	}
	return result, o.Files.SyncDir("config-fold", ".")
}

func (o Offline) write(r journal.Recovered) error {
	if err := o.writeHistory(r); err != nil {
		return err
	}
	for _, f := range besides(r.Position) {
		if err := o.Files.Replace(f.Op, f.Path, f.Content); err != nil {
			return err
		}
	}
	if err := o.Files.SyncDir("config-fold", "."); err != nil {
		return err
	}
	if err := o.Files.Replace("config", paths.ConfigPath, r.Config.JSON()); err != nil {
		return err
	}
	return o.Files.SyncDir("config-fold", ".")
}

// writeHistory writes the entries about the records that config.data does not have, and rotates the history where that is due.
func (o Offline) writeHistory(r journal.Recovered) error {
	var records []entry
	before := r.File.Config
	for i, record := range r.Remaining {
		records = append(records, entry{record: record, before: before, after: r.Configs[i]})
		before = r.Configs[i]
	}
	older, err := o.read(paths.ConfigHistoryOlderPath)
	if err != nil {
		return err
	}
	current, err := o.read(paths.ConfigHistoryPath)
	if err != nil {
		return err
	}
	for _, w := range plan(history.Open(older, current), entriesOf(records, o.Secrets, nil)) {
		if w.rotate {
			if err := o.Files.Rename("config-fold", paths.ConfigHistoryPath, paths.ConfigHistoryOlderPath); err != nil {
				return err
			}
		}
		if err := o.Files.AppendDurable("config-fold", paths.ConfigHistoryPath, w.content); err != nil {
			return err
		}
	}
	return nil
}

// read returns the content of a file; nil if it does not exist.
func (o Offline) read(path string) ([]byte, error) {
	content, err := o.Files.Read("config-fold", path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if content == nil && err == nil {
		content = []byte{}
	}
	return content, err
}

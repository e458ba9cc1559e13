package sim

import (
	"encoding/json"

	"lockstep/core/config"
	"lockstep/core/config/journal"
	"lockstep/core/config/model"
	"lockstep/core/config/ownrules"
	"lockstep/core/paths"
	"lockstep/sim/simdisk"
)

// storedConfig reads the configuration of a disk: what config.data and the journal say together. It keeps the last result.
type storedConfig struct {
	file, journal, extra *simdisk.File
	length               int // of the journal
	config               *model.Config
	own                  ownrules.Rules
}

// read returns the configuration, nil if the files cannot be read.
func (s *storedConfig) read(d *simdisk.Disk) *model.Config {
	file, lines, extra := d.Find(paths.ConfigPath), d.Find(paths.ConfigJournalPath), d.Find(paths.ConfigExtraPath)
	if file == nil {
		return nil
	}
	length := 0
	if lines != nil {
		length = len(lines.Data)
	}
	if s.config != nil && file == s.file && lines == s.journal && extra == s.extra && length == s.length {
		return s.config
	}
	c, _, err := journal.DecodeConfig(file.Data)
	if err != nil {
		return nil
	}
	r, err := journal.Recover(journal.Files{
		Config:  c,
		Extra:   dataOf(d, paths.ConfigExtraPath),
		TempRes: dataOf(d, paths.TempResPath),
		Journal: dataOf(d, paths.ConfigJournalPath),
	}, false)
	if err != nil {
		return nil
	}
	*s = storedConfig{file, lines, extra, length, r.Config, r.Rules}
	return s.config
}

// filterRules are all filter rules of the configuration that was read last.
func (s *storedConfig) filterRules() map[string]json.RawMessage {
	return config.FilterRules(s.config, s.own)
}

// dataOf is the content of a file, nil if there is none.
func dataOf(d *simdisk.Disk, path string) []byte {
	if f := d.Find(path); f != nil {
		return f.Data
	}
	return nil
}

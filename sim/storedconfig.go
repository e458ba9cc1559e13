package sim

import (
	"lockstep/core/config/journal"
	"lockstep/core/config/model"
	"lockstep/core/paths"
	"lockstep/sim/simdisk"
)

// storedConfig reads the configuration of a disk: what config.data and the journal say together. It keeps the last result.
type storedConfig struct {
	file, journal *simdisk.File
	length        int // of the journal
	config        *model.Config
}

// read returns the configuration, nil if the files cannot be read.
func (s *storedConfig) read(d *simdisk.Disk) *model.Config {
	file, lines := d.Find(paths.ConfigPath), d.Find(paths.ConfigJournalPath)
	if file == nil {
		return nil
	}
	length := 0
	if lines != nil {
		length = len(lines.Data)
	}
	if s.config != nil && file == s.file && lines == s.journal && length == s.length {
		return s.config
	}
	c, _, err := journal.DecodeConfig(file.Data)
	if err != nil {
		return nil
	}
	if length > 0 {
		files := journal.Files{Config: c, Extra: dataOf(d, paths.ConfigExtraPath), TempRes: dataOf(d, paths.TempResPath), Journal: lines.Data}
		r, err := journal.Recover(files, false)
		if err != nil {
			return nil
		}
		c = r.Config
	}
	*s = storedConfig{file, lines, length, c}
	return c
}

// dataOf is the content of a file, nil if there is none.
func dataOf(d *simdisk.Disk, path string) []byte {
	if f := d.Find(path); f != nil {
		return f.Data
	}
	return nil
}

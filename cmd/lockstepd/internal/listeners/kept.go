package listeners

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"lockstep/core/config"
	"lockstep/core/job"
	"lockstep/core/opcode"
	"lockstep/core/outflow"
	"lockstep/core/paths"
	"lockstep/persistence"
)

// keptFiles is a data directory with jobs and their kept output (outputs.Keeper).
type keptFiles string

// Find is part of outputs.Keeper. A job moves from the queue to the archive.
func (dir keptFiles) Find(id int64, tries int) (opcode.Kept, error) {
	content, err := dir.read(paths.JobPath(id))
	if errors.Is(err, fs.ErrNotExist) {
		content, err = dir.read(paths.ArchivePath(id))
	}
	if err != nil {
		return opcode.Kept{}, err
	}
	j, err := job.Decode(content)
	if err != nil {
		return opcode.Kept{}, err
	}
	kept, known := opcode.KeptOf(j, dir.byDefault(), tries)
	if !known { // this node's copy of the job may be behind
		return kept, fs.ErrNotExist
	}
	return kept, nil
}

func (dir keptFiles) read(path string) ([]byte, error) {
	return os.ReadFile(filepath.Join(string(dir), path))
}

// byDefault is the setting keep_output; false if it cannot be read, which the daemon says elsewhere.
func (dir keptFiles) byDefault() bool {
	content, err := dir.read(paths.SettingsPath)
	if err != nil {
		return false
	}
	settings, err := config.DecodeSettings(content)
	return err == nil && settings.KeepOutput
}

// Open is part of outputs.Keeper.
func (dir keptFiles) Open(id int64, kept opcode.Kept, stream outflow.Stream, from int64) (io.ReadCloser, error) {
	name := job.LogStdout
	if stream == outflow.Stderr {
		name = job.LogStderr
	}
	sizes := make([]int64, len(kept.Parts))
	for i, p := range kept.Parts {
		sizes[i] = p.Of(name)
		if !p.Vouched {
			sizes[i] = persistence.Growing
		}
	}
	offset := from - kept.BeginOf(name)
	if offset < 0 { // of another process
		return nil, fs.ErrNotExist
	}
	files := persistence.KeptFiles{Stream: name, Op: kept.Op, Try: kept.Try, Sizes: sizes}
	return persistence.OpenKept(string(dir), id, kept.Mark, files, offset)
}

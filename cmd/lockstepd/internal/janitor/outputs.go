package janitor

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"lockstep/core/config"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/core/retention"
	"lockstep/persistence"
)

const (
	// outputInterval is the pause between sweeps of kept output. In it, jobs may exceed the bound of all output.
	outputInterval = 10 * time.Second
	// outputBatch is how many jobs are examined at once, outputPause the pause after them.
	outputBatch = 100
	outputPause = 50 * time.Millisecond
	// readBatch is the same for jobs whose file is read.
	readBatch = 10
	// outputPart is the part of the disk that the kept output may have without the setting output_total.
	outputPart = 10
)

// outputs keeps the output of jobs in files (--keep-output) within the bound of the node, and removes that of jobs which are gone. It has
// no state that must survive: a sweep finds all in the directories.
//
// It removes no output of a job that runs, or of which it does not know that it has ended.
type outputs struct {
	log      *logrus.Logger
	files    *persistence.OSFiles
	dataDir  string
	complete func() bool // the queue and the archive have what they had before a power loss

	ends    map[int64]int64 // when jobs ended, in microseconds since 1970, as far as their files were read
	missing map[int64]bool  // jobs that were neither in the queue nor in the archive, at the last sweep
	full    bool            // jobs keep no more output, as it was logged
}

func newOutputs(log *logrus.Logger, files *persistence.OSFiles, dataDir string, complete func() bool) *outputs {
	return &outputs{log: log, files: files, dataDir: dataDir, complete: complete}
}

// run sweeps until ctx ends.
func (o *outputs) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(outputInterval):
		}
		if err := o.sweep(ctx); err != nil && ctx.Err() == nil {
			o.log.WithField("err", err).Warn("the kept output of jobs could not be examined, or not be removed")
		}
	}
}

// sweep removes what has to go.
func (o *outputs) sweep(ctx context.Context) error {
	if !o.complete() {
		return nil
	}
	all, gone, err := o.list(ctx)
	if err != nil {
		return err
	}
	for _, id := range gone {
		if err := o.remove(id, "its job is in the archive no more"); err != nil {
			return err
		}
	}
	if len(all) == 0 { // most daemons have no such directory, and need no bound
		return o.forbid(false)
	}
	bound, err := o.bound()
	if err != nil {
		return err
	}
	return o.trim(ctx, all, bound)
}

// list returns the output of the jobs that are in the queue or in the archive, and the jobs that were in neither at two sweeps. Two,
// because a job may be on its way.
func (o *outputs) list(ctx context.Context) (all []retention.KeptOutput, gone []int64, err error) {
	missing, examined := map[int64]bool{}, 0
	err = persistence.ListKept(o.dataDir, func(id, bytes int64) error {
		if examined++; examined%outputBatch == 0 {
			if err := pause(ctx); err != nil {
				return err
			}
		}
		known, err := o.isKnown(id)
		switch {
		case err != nil:
			return err
		case known:
			all = append(all, retention.KeptOutput{Job: id, Bytes: bytes})
		case o.missing[id]:
			gone = append(gone, id)
		default:
			missing[id] = true
		}
		return nil
	})
	o.missing = missing
	return all, gone, err
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(outputPause):
		return nil
	}
}

// isKnown reports whether a job is in the queue, in the archive, or in the quarantine, where its file was not readable. The queue comes
// first: a job moves from it to the archive.
func (o *outputs) isKnown(id int64) (bool, error) {
	for _, path := range []string{paths.JobPath(id), paths.ArchivePath(id)} {
		if _, err := o.files.Identify("sweep", path); !errors.Is(err, fs.ErrNotExist) {
			return err == nil, err
		}
	}
	set, err := o.files.List("sweep", paths.QuarantineDir)
	name := strings.TrimPrefix(paths.JobPath(id), paths.QueueDir+"/")
	for _, aside := range set {
		if rest, ok := strings.CutPrefix(aside, name); ok && (rest == "" || rest[0] < '0' || rest[0] > '9') {
			return true, err
		}
	}
	return false, err
}

// trim brings the output within the bound.
func (o *outputs) trim(ctx context.Context, all []retention.KeptOutput, bound int64) error {
	var sum int64
	for _, k := range all {
		sum += k.Bytes
	}
	if retention.MayExceed(sum, bound) {
		if err := o.addEnds(ctx, all); err != nil {
			return err
		}
	}
	remove, full := retention.TrimKept(all, bound)
	for _, id := range remove {
		if err := o.remove(id, "all kept output has reached the setting output_total"); err != nil {
			return err
		}
	}
	return o.forbid(full)
}

// addEnds adds when the jobs ended. A job's file is read until the job has ended, and not after that.
func (o *outputs) addEnds(ctx context.Context, all []retention.KeptOutput) error {
	ends, read := map[int64]int64{}, 0
	for i := range all {
		end := o.ends[all[i].Job]
		if end == 0 {
			end = o.endOf(all[i].Job)
			if read++; read%readBatch == 0 {
				if err := pause(ctx); err != nil {
					return err
				}
			}
		}
		if all[i].EndUs = end; end != 0 {
			ends[all[i].Job] = end
		}
	}
	o.ends = ends
	return nil
}

// forbid forbids jobs to keep more output, or permits it.
func (o *outputs) forbid(full bool) error {
	switch {
	case full && !o.full:
		o.log.Warn("running jobs keep no more output: it has reached the setting output_total")
	case o.full && !full:
		o.log.Info("jobs keep output again")
	}
	o.full = full
	return persistence.ForbidKept(o.dataDir, full)
}

// endOf is when a job ended, in microseconds since 1970; 0: it has not, or its file cannot be read.
func (o *outputs) endOf(id int64) int64 {
	content, err := o.files.Read("sweep", paths.JobPath(id))
	if errors.Is(err, fs.ErrNotExist) {
		content, err = o.files.Read("sweep", paths.ArchivePath(id))
	}
	if err != nil {
		return 0
	}
	j, err := job.Decode(content)
	if err != nil || !j.Status().Final() {
		return 0
	}
	return max(1, j.End.Nanos()/1000) // 0 says that it has not ended
}

// bound is the setting output_total.
func (o *outputs) bound() (int64, error) {
	content, err := o.files.Read("sweep", paths.SettingsPath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if content == nil {
		if err := checkNoLostSettings(o.files); err != nil {
			return 0, err
		}
	}
	settings, err := config.DecodeSettings(content)
	if err != nil || settings.OutputTotal > 0 {
		return settings.OutputTotal, err
	}
	size, err := persistence.KeptDiskSize(o.dataDir)
	return size / outputPart, err
}

func (o *outputs) remove(id int64, why string) error {
	if err := persistence.RemoveKept(o.dataDir, id); err != nil {
		return err
	}
	o.log.WithFields(logrus.Fields{"job": id, "reason": why}).Info("kept output removed")
	return nil
}

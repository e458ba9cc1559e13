package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/outflow"
	"lockstep/core/paths"
	"lockstep/persistence"
)

const (
	// checkedMin and checkedMax bound how much output is kept between two questions whether more may be kept, in bytes.
	checkedMin, checkedMax = 64 << 10, 1 << 20
	// reservePart is the part of the disk that is not for kept output; it has reserveMin to reserveMax bytes. Without it a job with much
	// output would prevent the end of all jobs, whose files need room. A job's file has up to 30 MB, and is there twice while it is replaced.
	reservePart, reserveMin, reserveMax = 20, 64 << 20, 1 << 30
)

// keeper keeps the output of the job in files of the data directory (--keep-output), plain bytes, a file for each stream of each
// try of an opcode. A nil keeper keeps nothing, at no cost.
//
// Invariant: what one process keeps of a stream, over all opcodes, is its beginning. After the first byte that is not kept, the keeper
// keeps no byte of either stream, and the command goes on.
//
// The files are durable before the result of their opcode, which has their sizes and checksums, is written. If the process ends before
// that, the files have a beginning of the output; after a power loss in that time they may also have bytes that were never output, and no
// result vouches for them.
type keeper struct {
	disk      keptDisk
	directory string // of the job's files, for people

	mu      sync.Mutex
	limit   int64
	kept    int64
	checked int64  // bytes that may be kept before the next question whether more may be
	stopped string // why nothing more is kept; "": it is
	told    bool   // the caller knows stopped
	op, try int
	streams [2]keptStream // of the current opcode
}

// keptStream is one stream of the current opcode.
type keptStream struct {
	file    keptFile // nil: no byte was kept
	sum     hash.Hash
	bytes   int64
	missing int64
}

// keptDisk is where a keeper keeps output.
type keptDisk interface {
	create(name string) (keptFile, error)
	room() (bytes int64, err error) // that may be kept before the next call; the error says why none
	sync() error                    // makes the names of the files, and the mark, durable
}

type keptFile interface {
	Write(p []byte) (int, error)
	Sync() error
	Close() error
}

// newKeeper is the keeper of a job. limit bounds what the tries of the job keep on this node, in bytes; 0: nil. It removes what a former
// job with the same id has left, as after an older copy of the data directory was put back, also if this job keeps nothing. What earlier
// processes of the job have kept stays. The error says that it could not: nothing is kept then, because it would be mixed with the former
// output.
func newKeeper(dataDir string, j *job.Job, limit int64) (*keeper, error) {
	kept, err := removeForeign(dataDir, j)
	if err != nil {
		err = fmt.Errorf("remove the kept output of a former job: %w", err)
	}
	if limit == 0 {
		return nil, err
	}
	disk := &keptDirectory{dataDir: dataDir, path: filepath.Join(dataDir, paths.KeptDirOf(int64(j.ID))), mark: j.KeptMark()}
	k := &keeper{disk: disk, directory: disk.path, limit: limit, kept: kept}
	if err != nil {
		k.stopped = err.Error()
	}
	return k, err
}

// removeForeign removes the kept output that no earlier process of the job has written, and returns the size of the rest. That of an
// earlier try is in the log, and the first process of a job has nothing before it.
func removeForeign(dataDir string, j *job.Job) (kept int64, err error) {
	if !slices.ContainsFunc(j.Ops, func(op job.Op) bool { return op.LoggedTries() > 0 }) {
		return 0, persistence.RemoveKept(dataDir, int64(j.ID))
	}
	first := j.FirstUnfinished()
	try := j.Ops[first].LoggedTries() + 1
	return persistence.KeepOnly(dataDir, int64(j.ID), j.KeptMark(), func(op, of int) bool { return op < first || op == first && of < try })
}

// begin is called before the first output of a try, numbered from 1, of an opcode. Like add and end it returns, once for a job, why no
// output is kept from here on; "": it is.
func (k *keeper) begin(op, try int) (complaint string) {
	if k == nil {
		return ""
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.op, k.try = op, try
	for i := range k.streams {
		k.streams[i] = keptStream{sum: sha256.New()}
	}
	return k.complaint()
}

// add keeps a piece of output of a stream, job.LogStdout or job.LogStderr.
func (k *keeper) add(stream string, piece []byte) (complaint string) {
	if k == nil || len(piece) == 0 {
		return ""
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	s := &k.streams[streamNames[stream]]
	n, err := 0, error(nil)
	if k.stopped == "" {
		n, err = k.write(s, paths.KeptName(k.op, k.try, stream), piece)
	}
	s.missing += int64(len(piece) - n)
	if err != nil {
		k.stopped = err.Error()
	}
	return k.complaint()
}

// write keeps the beginning of a piece, n bytes; the error says why not all of it.
func (k *keeper) write(s *keptStream, name string, piece []byte) (n int, err error) {
	if k.checked <= 0 {
		if k.checked, err = k.disk.room(); err != nil {
			return 0, err
		}
	}
	if s.file == nil {
		if s.file, err = k.disk.create(name); err != nil {
			return 0, err
		}
	}
	room := min(int64(len(piece)), k.limit-k.kept)
	n, err = s.file.Write(piece[:room])
	_, _ = s.sum.Write(piece[:n]) // a hash returns no error
	s.bytes += int64(n)
	k.kept += int64(n)
	k.checked -= int64(n)
	if err == nil && n < len(piece) {
		err = fmt.Errorf("the job has reached the setting output_limit, %d bytes", k.limit)
	}
	return n, err
}

// complaint is, once, why output is not kept.
func (k *keeper) complaint() string {
	if k.stopped == "" || k.told {
		return ""
	}
	k.told = true
	return "output is not kept from here on: " + k.stopped
}

// end is called after the last output of an opcode. It makes the files durable. What was kept is added to the outcome.
func (k *keeper) end(o jobproc.Outcome) (with jobproc.Outcome, complaint string) {
	if k == nil {
		return o, ""
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	var err error
	created := false
	kept := keptOutput{Directory: k.directory}
	for i := range k.streams {
		s := &k.streams[i]
		if s.file != nil {
			created = true
			err = errors.Join(err, s.file.Sync(), s.file.Close())
			s.file = nil
		}
		*kept.of(outflow.Stream(i)) = keptBytes{s.bytes, hex.EncodeToString(s.sum.Sum(nil)), s.missing}
	}
	if created {
		err = errors.Join(err, k.disk.sync())
	}
	if err != nil { // the checksums tell whether the bytes have reached the disk
		complaint = "the kept output may not be on the disk, and no more is kept: " + err.Error()
		k.stopped, k.told = cmp.Or(k.stopped, err.Error()), true
	}
	kept.Reason = k.stopped
	o.Result = job.WithDetail(o.Result, "kept", kept)
	return o, complaint
}

// keptOutput is the key "kept" of the result of an opcode whose output was kept.
type keptOutput struct {
	Stdout    keptBytes `json:"stdout"`
	Stderr    keptBytes `json:"stderr"`
	Directory string    `json:"directory"`
	// Reason is why output is missing. The log has it, too, unless it has dropped that entry.
	Reason string `json:"reason,omitempty"`
}

// keptBytes is what was kept of one stream of an opcode.
type keptBytes struct {
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256"` // of these bytes, in hexadecimal digits
	Missing int64  `json:"missing"`
}

func (k *keptOutput) of(s outflow.Stream) *keptBytes {
	if s == outflow.Stderr {
		return &k.Stderr
	}
	return &k.Stdout
}

// keptDirectory is the directory of the job's files. It is made with the first of them.
type keptDirectory struct {
	dataDir, path string
	mark          string // the content of paths.KeptMark
	made          bool
	durable       bool // its name and its mark, and the names above it
}

func (d *keptDirectory) create(name string) (keptFile, error) {
	if !d.made {
		if err := os.MkdirAll(d.path, 0o700); err != nil {
			return nil, err
		}
		if err := d.writeMark(); err != nil {
			return nil, err
		}
		d.made = true
	}
	f, err := os.OpenFile(filepath.Join(d.path, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err // not a nil *os.File in an interface
	}
	return f, nil
}

// writeMark writes the mark, unless an earlier process of the job has: a write that breaks off would take the files of its tries away.
func (d *keptDirectory) writeMark() error {
	path := filepath.Join(d.path, paths.KeptMark)
	if content, err := os.ReadFile(path); err == nil && string(content) == d.mark {
		return nil
	}
	return os.WriteFile(path, []byte(d.mark), 0o600)
}

func (d *keptDirectory) room() (bytes int64, err error) {
	if unix.Access(filepath.Join(d.dataDir, paths.KeptFullPath), unix.F_OK) == nil {
		return 0, errors.New("the kept output of all jobs has reached the setting output_total")
	}
	var stat unix.Statfs_t
	err = unix.Statfs(filepath.Join(d.dataDir, paths.KeptDir), &stat) // it may be on another disk
	if errors.Is(err, unix.ENOENT) {
		err = unix.Statfs(d.dataDir, &stat)
	}
	if err != nil {
		return 0, fmt.Errorf("examine the disk: %w", err)
	}
	return roomOn(int64(stat.Blocks)*stat.Bsize, int64(stat.Bavail)*stat.Bsize)
}

// roomOn is room on a disk with so many bytes, of which some are free.
func roomOn(size, free int64) (int64, error) {
	reserve := min(max(size/reservePart, reserveMin), reserveMax)
	if free -= reserve; free <= 0 {
		return 0, fmt.Errorf("the disk is almost full, and its last %d bytes are for the queue", reserve)
	}
	return min(max(checkedMin, free/2), checkedMax), nil
}

func (d *keptDirectory) sync() error {
	names := []string{d.path}
	if !d.durable {
		names = append(names, filepath.Join(d.path, paths.KeptMark), filepath.Dir(d.path), d.dataDir)
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	d.durable = true
	return nil
}

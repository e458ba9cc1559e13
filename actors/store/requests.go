package store

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/paths"
	"lockstep/messages"
)

// write replaces files in parallel. If the request is durable, the directories of files are synced
// before the answer, but for those of unsynced files.
func (s *store) write(ctx actor.Context, request uint64, m *messages.WriteFiles) {
	b := s.newBatch(ctx, request, len(m.Files), m.Durable)
	// The commit record is written by answer, after the directories of all files are synced: on the disk without them, it would make jobs of
	// files that a power loss has taken.
	b.kind, b.then = replaces, m.CommitRecord
	for _, f := range m.Files {
		b.changed = append(b.changed, f.Path)
		task := &messages.RunDiskTask{What: &messages.RunDiskTask_Replace{Replace: f}}
		s.do(ctx, f.Path, task, func(ctx actor.Context, d *messages.RunDiskTaskResult) {
			if f.Unsynced {
				b.skipSync(f.Path)
			}
			b.stepDone(ctx, f.Path, d)
		})
	}
	b.finishIfEmpty(ctx)
}

func (s *store) append(ctx actor.Context, request uint64, m *messages.AppendFile) {
	b := s.newBatch(ctx, request, 1, false)
	b.kind = appends
	task := &messages.RunDiskTask{What: &messages.RunDiskTask_Append{Append: m}}
	s.do(ctx, m.Path, task, func(ctx actor.Context, d *messages.RunDiskTaskResult) { b.stepDone(ctx, m.Path, d) })
}

func (s *store) identify(ctx actor.Context, request uint64, m *messages.IdentifyFile) {
	sender := ctx.Sender()
	task := &messages.RunDiskTask{What: &messages.RunDiskTask_Identify{Identify: m}}
	s.do(ctx, m.Path, task, func(ctx actor.Context, d *messages.RunDiskTaskResult) {
		ctx.Send(sender, &messages.AccessStoreResult{Request: request, What: &messages.AccessStoreResult_Identify{
			Identify: &messages.IdentifyFileResult{Identity: d.Identity, Missing: d.Missing, Failure: d.Failure}}})
	})
}

func (s *store) remove(ctx actor.Context, request uint64, m *messages.RemoveFiles) {
	b := s.newBatch(ctx, request, len(m.Paths), !m.Unsynced)
	b.changed = m.Paths
	for _, p := range m.Paths {
		task := &messages.RunDiskTask{What: &messages.RunDiskTask_Remove{Remove: &messages.RemoveFile{Op: m.Op, Path: p}}}
		s.do(ctx, p, task, func(ctx actor.Context, d *messages.RunDiskTaskResult) { b.stepDone(ctx, p, d) })
	}
	b.finishIfEmpty(ctx)
}

// move renames files and syncs both directories before the answer, unless the request is unsynced. The steps for both names
// are in the queue of the old path; the new path has no other writer.
func (s *store) move(ctx actor.Context, request uint64, m *messages.MoveFiles) {
	b := s.newBatch(ctx, request, len(m.Files), !m.Unsynced)
	for _, f := range m.Files {
		b.changed = append(b.changed, f.To)
		task := &messages.RunDiskTask{What: &messages.RunDiskTask_Move{Move: f}}
		s.do(ctx, f.From, task, func(ctx actor.Context, d *messages.RunDiskTaskResult) {
			if d.Failure == nil {
				// The directory of the new name is synced, too. With the old one alone synced, a power loss could leave the file under neither name.
				b.syncWith(f.From, f.To)
			}
			b.stepDone(ctx, f.From, d)
		})
	}
	b.finishIfEmpty(ctx)
}

func (s *store) list(ctx actor.Context, request uint64, m *messages.ListDir) {
	sender := ctx.Sender()
	task := &messages.RunDiskTask{What: &messages.RunDiskTask_List{List: m}}
	s.do(ctx, m.Dir+"/list", task, func(ctx actor.Context, d *messages.RunDiskTaskResult) {
		ctx.Send(sender, &messages.AccessStoreResult{Request: request, What: &messages.AccessStoreResult_List{
			List: &messages.ListDirResult{Names: d.Names, Failure: d.Failure}}})
	})
}

// batch collects the steps of one request.
type batch struct {
	store     *store
	sender    *actor.PID
	request   uint64
	remaining int
	durable   bool
	then      *messages.FileWrite // written after all others; nil: none
	done      []string            // paths whose directory must be synced
	extraDirs map[string][]string // by path: further directories to sync with it
	unsynced  map[string]bool     // paths whose directory is not synced; nil: none
	failures  []*messages.FileFailure
	changed   []string // for the observer
	kind      writeKind
}

// syncWith adds the directory of to to the syncs for from.
func (b *batch) syncWith(from, to string) {
	if b.extraDirs == nil {
		b.extraDirs = map[string][]string{}
	}
	b.extraDirs[from] = append(b.extraDirs[from], path.Dir(to))
}

// skipSync leaves the directory of a path without a sync for this path.
func (b *batch) skipSync(path string) {
	if b.unsynced == nil {
		b.unsynced = map[string]bool{}
	}
	b.unsynced[path] = true
}

func (s *store) newBatch(ctx actor.Context, request uint64, steps int, durable bool) *batch {
	b := &batch{store: s, sender: ctx.Sender(), request: request, remaining: steps, durable: durable}
	s.batches[b] = struct{}{}
	return b
}

func (b *batch) stepDone(ctx actor.Context, path string, d *messages.RunDiskTaskResult) {
	if d.Failure != nil {
		b.failures = append(b.failures, &messages.FileFailure{Path: path, Failure: d.Failure, Missing: d.Missing, Unchanged: d.Unchanged})
	} else {
		b.done = append(b.done, path)
	}
	b.remaining--
	// Every file has its name before the first directory is synced, so that one sync of a directory covers all of them.
	if b.remaining == 0 {
		b.sync(ctx)
	}
}

func (b *batch) finishIfEmpty(ctx actor.Context) {
	if b.remaining == 0 && b.done == nil && b.failures == nil {
		b.answer(ctx)
	}
}

func (b *batch) sync(ctx actor.Context) {
	dirs := map[string][]string{}
	for _, p := range b.done {
		if b.unsynced[p] {
			continue
		}
		for _, dir := range append(b.extraDirs[p], path.Dir(p)) {
			dirs[dir] = append(dirs[dir], p)
		}
	}
	if !b.durable || len(dirs) == 0 {
		b.answer(ctx)
		return
	}
	left := len(dirs)
	for _, dir := range sortedKeys(dirs) {
		b.store.syncDir(ctx, dir, func(ctx actor.Context, f *messages.Failure) {
			for _, p := range dirs[dir] {
				if f != nil {
					b.failures = append(b.failures, &messages.FileFailure{Path: p, Failure: f})
				}
			}
			left--
			if left == 0 {
				b.answer(ctx)
			}
		})
	}
}

func (b *batch) answer(ctx actor.Context) {
	// All files are durable now. A crash before the commit record leaves files that count for nothing; after it none of them can be missing.
	if then := b.then; then != nil && len(b.failures) == 0 {
		b.then, b.remaining, b.done, b.unsynced, b.changed = nil, 1, nil, nil, append(b.changed, then.Path)
		task := &messages.RunDiskTask{What: &messages.RunDiskTask_Replace{Replace: then}}
		b.store.do(ctx, then.Path, task, func(ctx actor.Context, d *messages.RunDiskTaskResult) { b.stepDone(ctx, then.Path, d) })
		return
	}
	if b.then == nil { // files without their commit record have no meaning
		b.store.observe(ctx, b.changed)
	}
	slices.SortFunc(b.failures, func(x, y *messages.FileFailure) int { return strings.Compare(x.Path, y.Path) })
	b.store.failing.answered(b.store.config.Env, b.kind, b.done, b.failures)
	// After observe: a client that has its answer may ask the copier at once whether other nodes have the change, and the copier must know
	// of it by then.
	ctx.Send(b.sender, &messages.AccessStoreResult{Request: b.request,
		What: &messages.AccessStoreResult_Files{Files: &messages.ChangeFilesResult{Failures: b.failures}}})
	delete(b.store.batches, b)
	// A scan by the same sender begins only now. Beside these writes it could read the serial without its jobs.
	b.store.beginReadyScans(ctx, b)
}

func sortedKeys(m map[string][]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (s *store) read(ctx actor.Context, request uint64, m *messages.ReadFile) {
	sender := ctx.Sender()
	task := &messages.RunDiskTask{What: &messages.RunDiskTask_Read{Read: m}}
	s.do(ctx, m.Path, task, func(ctx actor.Context, d *messages.RunDiskTaskResult) {
		ctx.Send(sender, &messages.AccessStoreResult{Request: request, What: &messages.AccessStoreResult_Read{
			Read: &messages.ReadFileResult{Content: d.Content, Missing: d.Missing, Failure: d.Failure}}})
	})
}

// quarantine moves a file to the quarantine under a free name. The move is one step in the
// queue of the path, so that a file that is written there later is not moved.
func (s *store) quarantine(ctx actor.Context, request uint64, m *messages.QuarantineFile) {
	sender := ctx.Sender()
	answer := func(ctx actor.Context, to string, f *messages.Failure) {
		s.observe(ctx, []string{m.Path})
		ctx.Send(sender, &messages.AccessStoreResult{Request: request, What: &messages.AccessStoreResult_Quarantine{
			Quarantine: &messages.QuarantineFileResult{Path: to, Failure: f}}})
	}
	list := &messages.RunDiskTask{What: &messages.RunDiskTask_List{
		List: &messages.ListDir{Op: "quarantine", Dir: paths.QuarantineDir}}}
	s.do(ctx, m.Path, list, func(ctx actor.Context, d *messages.RunDiskTaskResult) {
		if d.Failure != nil {
			answer(ctx, "", d.Failure)
			return
		}
		// Two files of one name may be moved at once: both have listed the directory before either has its new name there. So the
		// names that were chosen after this listing are taken, too.
		name := FreeName(path.Base(m.Path), slices.Concat(d.Names, s.reservedNames))
		s.reservedNames = append(s.reservedNames, name)
		to := paths.QuarantineDir + "/" + name
		move := &messages.RunDiskTask{What: &messages.RunDiskTask_Move{
			Move: &messages.MoveFile{Op: "quarantine", From: m.Path, To: to}}}
		// The move takes the place of the listing, ahead of later steps of this path. Behind them it would move a file that was written since.
		s.queues.replaceHead(m.Path, move, func(ctx actor.Context, d *messages.RunDiskTaskResult) {
			if d.Failure != nil {
				answer(ctx, "", d.Failure)
				return
			}
			// The new directory is synced before the old one: in the other order a power loss could leave the file under neither name.
			s.syncDir(ctx, paths.QuarantineDir, func(ctx actor.Context, f *messages.Failure) {
				if f != nil {
					answer(ctx, "", f)
					return
				}
				s.syncDir(ctx, path.Dir(m.Path), func(ctx actor.Context, f *messages.Failure) { answer(ctx, to, f) })
			})
		})
	})
}

// FreeName returns base, or base with a number, so that the name is not in taken.
func FreeName(base string, taken []string) string {
	name := base
	for n := 1; slices.Contains(taken, name); n++ {
		name = fmt.Sprintf("%s.%d", base, n)
	}
	return name
}

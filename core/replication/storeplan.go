package replication

import "lockstep/messages"

// storePlan collects changes of one kind and of different files into a step. The changes of a step go to the disk in
// parallel.
type storePlan struct {
	steps        []*messages.AccessStore
	touchedPaths map[string]int // the files of the current step, with their indices
	writes       []*messages.FileWrite
	moves        []*messages.MoveFile
	removes      []string

	unsyncedMoves   bool
	unsyncedRemoves bool // of the current step
}

func (p *storePlan) write(u *messages.FileUpdate, synced bool) {
	w := &messages.FileWrite{Op: "apply", Path: u.Path, Content: u.Content, Unsynced: !synced}
	if at, again := p.touchedPaths[u.Path]; again && p.writes != nil {
		p.writes[at] = w
		return
	}
	if p.moves != nil || p.removes != nil {
		p.flush()
	}
	p.touchedPaths[u.Path] = len(p.writes)
	p.writes = append(p.writes, w)
}

func (p *storePlan) rename(m *messages.MoveFile) {
	if p.writes != nil || p.removes != nil || p.touches(m.From) || p.touches(m.To) {
		p.flush()
	}
	p.touchedPaths[m.From], p.touchedPaths[m.To] = 0, 0
	p.moves = append(p.moves, m)
}

func (p *storePlan) remove(r *messages.RemoveFile, unsynced bool) {
	if p.writes != nil || p.moves != nil || p.unsyncedRemoves != unsynced {
		p.flush()
	}
	p.unsyncedRemoves = unsynced
	p.touchedPaths[r.Path] = 0
	p.removes = append(p.removes, r.Path)
}

func (p *storePlan) touches(file string) bool {
	_, there := p.touchedPaths[file]
	return there
}

// flush ends the present step, because the changes of a step go to the disk in parallel: the next change is of another kind, or of a file
// that the step has changed.
func (p *storePlan) flush() {
	switch {
	case p.writes != nil:
		write := &messages.WriteFiles{Files: p.writes, Durable: true}
		p.steps = append(p.steps, &messages.AccessStore{What: &messages.AccessStore_Write{Write: write}})
	case p.moves != nil:
		move := &messages.MoveFiles{Files: p.moves, Unsynced: p.unsyncedMoves}
		p.steps = append(p.steps, &messages.AccessStore{What: &messages.AccessStore_Move{Move: move}})
	case p.removes != nil:
		remove := &messages.RemoveFiles{Op: "apply", Paths: p.removes, Unsynced: p.unsyncedRemoves}
		p.steps = append(p.steps, &messages.AccessStore{What: &messages.AccessStore_Remove{Remove: remove}})
	}
	p.writes, p.moves, p.removes = nil, nil, nil
	clear(p.touchedPaths)
}

// Remaining is the part of a step to repeat after the disk has refused these files. A file that was moved cannot be
// moved again.
func Remaining(step *messages.AccessStore, refused map[string]bool) *messages.AccessStore {
	move := step.GetMove()
	if move == nil {
		return step
	}
	var remaining []*messages.MoveFile
	for _, f := range move.Files {
		if refused[f.From] {
			remaining = append(remaining, f)
		}
	}
	return &messages.AccessStore{What: &messages.AccessStore_Move{Move: &messages.MoveFiles{Files: remaining, Unsynced: move.Unsynced}}}
}

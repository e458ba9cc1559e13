package replication

import "lockstep/messages"

// plan gathers changes of one kind, of different files, which go to the disk side by
// side.
type plan struct {
	steps   []*messages.StoreRequest
	touched map[string]int // files of the step that is being gathered, with their places
	writes  []*messages.FileWrite
	moves   []*messages.MoveFile
	removes []string
}

func (p *plan) write(u *messages.FileUpdate) {
	w := &messages.FileWrite{Op: "apply", Path: u.Path, Content: u.Content}
	if at, again := p.touched[u.Path]; again && p.writes != nil {
		p.writes[at] = w
		return
	}
	if p.moves != nil || p.removes != nil {
		p.flush()
	}
	p.touched[u.Path] = len(p.writes)
	p.writes = append(p.writes, w)
}

func (p *plan) rename(m *messages.MoveFile) {
	if p.writes != nil || p.removes != nil || p.touches(m.From) || p.touches(m.To) {
		p.flush()
	}
	p.touched[m.From], p.touched[m.To] = 0, 0
	p.moves = append(p.moves, m)
}

func (p *plan) remove(r *messages.RemoveFile) {
	if p.writes != nil || p.moves != nil {
		p.flush()
	}
	p.touched[r.Path] = 0
	p.removes = append(p.removes, r.Path)
}

func (p *plan) touches(file string) bool {
	_, there := p.touched[file]
	return there
}

// flush ends a step.
func (p *plan) flush() {
	switch {
	case p.writes != nil:
		p.steps = append(p.steps, &messages.StoreRequest{What: &messages.StoreRequest_Write{Write: &messages.WriteFiles{Files: p.writes, Durable: true}}})
	case p.moves != nil:
		p.steps = append(p.steps, &messages.StoreRequest{What: &messages.StoreRequest_Move{Move: &messages.MoveFiles{Files: p.moves}}})
	case p.removes != nil:
		p.steps = append(p.steps, &messages.StoreRequest{What: &messages.StoreRequest_Remove{Remove: &messages.RemoveFiles{Op: "apply", Paths: p.removes}}})
	}
	p.writes, p.moves, p.removes = nil, nil, nil
	clear(p.touched)
}

// Left is what of a step is still to be done, when these files were refused by the
// disk: a file that was moved is not there to be moved again.
func Left(step *messages.StoreRequest, refused map[string]bool) *messages.StoreRequest {
	move := step.GetMove()
	if move == nil {
		return step
	}
	var left []*messages.MoveFile
	for _, f := range move.Files {
		if refused[f.From] {
			left = append(left, f)
		}
	}
	return &messages.StoreRequest{What: &messages.StoreRequest_Move{Move: &messages.MoveFiles{Files: left}}}
}

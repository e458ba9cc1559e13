package journal

import "bytes"

// Contents are the files of a state after a fold, when no record is only in the journal. An absent file is nil.
type Contents struct{ Config, TempRes, Extra []byte }

// Contents returns the files of a position. It encodes the whole configuration.
func (p Position) Contents() Contents {
	if p.Config == nil {
		return Contents{}
	}
	return Contents{Config: p.Config.JSON(), TempRes: p.TempRes(), Extra: p.Extra()}
}

// Position returns the position that the files have. Without config.extra the position has number 0. It then lacks what only that file
// has: reservations of minors, concurrent changes and own filter rules. The error is about a file that cannot be decoded.
func (c Contents) Position() (Position, error) {
	config, _, err := DecodeConfig(c.Config)
	if err != nil {
		return Position{}, err
	}
	p, _, err := Files{Config: config, TempRes: c.TempRes, Extra: c.Extra}.base()
	return p, err
}

// Change is one entry's part in the configuration, as the log of a cluster has it: records, of which all are applied or none, or a whole
// state, which replaces everything before.
type Change struct {
	Records []*Record
	Whole   *Contents // nil: Records
}

// Step is a record that was applied. Before and After are the positions around it.
type Step struct {
	Record        *Record
	Line          Line
	Before, After Position
}

// Committed is the result of changes.
type Committed struct {
	Position
	// Refused says of each change whether it was refused: it did not fit, or could not be used, and has changed nothing.
	Refused []bool
	// Whole: a whole state was among the changes. It must be written to the files; Steps are those after it.
	Whole bool
	Steps []Step
}

// Commit applies changes in the order of the log. The result depends on the position and the changes only. Changes that were
// applied before, and the refused ones between them, change nothing when they are applied again, unless a whole state is
// among them: after it everything is applied again.
func (p Position) Commit(changes []Change) Committed {
	c := Committed{Position: p, Refused: make([]bool, len(changes))}
	for i, change := range changes {
		if change.Whole != nil {
			at, err := change.Whole.Position()
			if c.Refused[i] = err != nil; err == nil {
				c.Position, c.Whole, c.Steps = at, true, nil
			}
			continue
		}
		next, steps, err := c.ApplyAll(change.Records, len(c.Steps) == 0)
		if c.Refused[i] = err != nil; err == nil {
			c.Position, c.Steps = next, append(c.Steps, steps...)
		}
	}
	return c
}

// ApplyAll applies records, all or none of them. It skips records that were applied before. isFirst: the first of them begins an
// append. The error is an *UnfitError, or says why a record cannot be used.
func (p Position) ApplyAll(records []*Record, isFirst bool) (Position, []Step, error) {
	at := p
	var steps []Step
	for _, r := range records {
		line, err := Encode(r, isFirst && len(steps) == 0)
		if err != nil {
			return p, nil, err
		}
		was, err := at.Applied(r, line.Digest)
		if was {
			continue
		}
		next := at
		if err == nil {
			next, err = at.Apply(r, line.Digest)
		}
		if err != nil {
			return p, nil, err
		}
		steps = append(steps, Step{r, line, at, next})
		at = next
	}
	return at, steps, nil
}

// Decode decodes the line of one record, see Encode.
func Decode(line []byte) (*Record, error) {
	content, found := bytes.CutSuffix(line, []byte("\n"))
	if !found {
		return nil, errLine
	}
	return decode(content)
}

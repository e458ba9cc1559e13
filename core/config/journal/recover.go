package journal

import (
	"fmt"

	"lockstep/core/config/model"
	"lockstep/core/config/reserve"
	"lockstep/core/paths"
)

// Files are the contents of the configuration's files as a start finds them. An absent file is nil; an empty one is not.
type Files struct {
	Config  *model.Config // of config.data; nil if there is none
	TempRes []byte
	Extra   []byte
	Journal []byte
}

// Recovered is the state that Files lead to, with what the next fold must know.
type Recovered struct {
	Position
	// File is the position of config.data: Remaining lead from it to Position.
	File      Position
	Remaining []*Record
	Lines     []Line          // of Remaining
	Configs   []*model.Config // after each of Remaining
	// Folded is the number of records in the journal that config.data has already.
	Folded int
	Torn   int // bytes of an incomplete append at the end of the journal
	// Unused: the journal belongs to another config.data. It is set aside; Remaining is empty.
	Unused bool
}

// DamageError is about a journal that cannot be read, although complete appends follow the damage.
type DamageError struct {
	Good   Point  // after the last usable record
	Number uint64 // of that record; 0: there is none
	Err    error
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s is damaged after serial number %d: %v", paths.ConfigJournalPath, e.Good.Serial, e.Err)
}

func (e *DamageError) Unwrap() error { return e.Err }

// Recover returns the state after all records of the journal. If no record continues config.data, the journal is Unused: of its records
// only the changes of own rules count. discardRest ignores what follows damage; else the error is a *DamageError. Other errors name the
// file that cannot be used.
func Recover(f Files, discardRest bool) (Recovered, error) {
	base, extra, err := f.base()
	if err != nil {
		return Recovered{}, err
	}
	reading := Read(f.Journal)
	if discardRest {
		reading.Damage = nil
	}
	r := Recovered{Position: base, Torn: reading.Torn}
	first := firstRemaining(base, reading.Records)
	switch {
	case first < 0 && reading.Damage != nil:
		return Recovered{}, &DamageError{base.concerns, base.Number, reading.Damage}
	case first < 0:
		r.Unused = true
		r.Number = max(r.Number, reading.Records[len(reading.Records)-1].Number)
		r.digests = digests{}
		for _, record := range reading.Records { // own rules do not depend on config.data
			if r.Rules, err = r.Rules.Apply(record.Rules); err != nil {
				return Recovered{}, err
			}
		}
		r.File = r.Position
		return r, nil
	case len(reading.Records) > 0:
		r.Concurrent = extra.Concurrent
		var before []Digest
		r.Number, before = reading.before(first, extra)
		r.digests = digestsOf(before)
	}
	if err := r.replay(reading, first); err != nil && !discardRest {
		return Recovered{}, err
	}
	return r, nil
}

// before returns number and digests of the records before the one with an index. extra can be older or newer.
func (r Reading) before(index int, extra extraJSON) (number uint64, digests []Digest) {
	number = r.Records[0].Number - 1
	if newer := extra.Number - number; extra.Number >= number && newer < uint64(len(extra.Digests)) {
		digests = append(digests, extra.Digests[:len(extra.Digests)-int(newer)]...)
	}
	for _, line := range r.Lines[:index] {
		digests = append(digests, line.Digest)
	}
	return number + uint64(index), digests[max(0, len(digests)-digestsMax):]
}

// replay applies the records from first. The error is a *DamageError; the records before the damage are applied.
func (r *Recovered) replay(reading Reading, first int) error {
	r.Folded = first
	r.File = r.Position
	for i, record := range reading.Records[first:] {
		next, err := r.Apply(record, reading.Lines[first+i].Digest)
		if err != nil {
			return &DamageError{r.concerns, r.Number, err}
		}
		r.Position = next
		r.Remaining = append(r.Remaining, record)
		r.Lines = append(r.Lines, reading.Lines[first+i])
		r.Configs = append(r.Configs, next.Config)
	}
	if reading.Damage != nil {
		return &DamageError{r.concerns, r.Number, reading.Damage}
	}
	return nil
}

// firstRemaining returns the index of the first record that config.data does not have, or -1 if the journal belongs to another
// one. If config.data had the content at several points, the first one counts: a repeated record changes nothing.
func firstRemaining(base Position, records []*Record) int {
	if len(records) == 0 {
		return 0
	}
	if base.Config != nil {
		if records[0].From == base.concerns {
			return 0
		}
		for i, r := range records {
			if r.To == base.concerns {
				return i + 1
			}
		}
	}
	return -1
}

// base returns the position of the files without the journal, and the content of config.extra. Its concurrent changes are part of the
// position only if config.extra was written with this configuration.
func (f Files) base() (Position, extraJSON, error) {
	extra, err := decodeExtra(f.Extra)
	if err != nil {
		return Position{}, extra, fmt.Errorf("%s: %w", paths.ConfigExtraPath, err)
	}
	p := Position{State: State{Config: f.Config}, Number: extra.Number, digests: digestsOf(extra.Digests)}
	if f.Config != nil {
		p.concerns = At(f.Config)
	}
	if extra.Config == p.concerns {
		p.Concurrent = extra.Concurrent
	}
	p.encoded = Reservations{File: f.TempRes, Extra: extra.Reservations}
	if f.TempRes == nil {
		p.encoded = Reservations{File: reserve.State{}.Encode()}
	}
	if p.Reserved, err = p.encoded.decode(); err != nil {
		return Position{}, extra, fmt.Errorf("%s: %w", paths.TempResPath, err)
	}
	if p.Rules, err = p.Rules.Apply(extra.Rules); err != nil {
		return Position{}, extra, fmt.Errorf("%s: %w", paths.ConfigExtraPath, err)
	}
	return p, extra, nil
}

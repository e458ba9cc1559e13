package journal

import (
	"encoding/json"
	"fmt"

	"lockstep/core/config/model"
	"lockstep/core/config/ownrules"
	"lockstep/core/config/reserve"
)

// Position is a state of the configuration and the number of the last record in it. It is immutable.
type Position struct {
	State
	Number   uint64       // of the last record; 0: there was none
	encoded  Reservations // of State.Reserved
	digests  digests      // of the last records
	concerns Point        // of State.Config
}

// Point returns the point of the configuration.
func (p Position) Point() Point { return p.concerns }

// TempRes returns the content of tempres.data.
func (p Position) TempRes() []byte { return p.encoded.File }

// UnfitError says why a record does not follow on the present state, which stays as it is.
type UnfitError struct{ reason string }

func (e *UnfitError) Error() string { return e.reason }

func unfit(format string, args ...any) error { return &UnfitError{fmt.Sprintf(format, args...)} }

// Applied reports whether a record was applied before. The error is an *UnfitError: another record has its number, or the record
// is too old to be recognised.
func (p Position) Applied(r *Record, d Digest) (bool, error) {
	if r.Number > p.Number {
		return false, nil
	}
	age := p.Number - r.Number
	if age >= uint64(p.digests.len()) || p.digests.last(int(age)) != d {
		return false, unfit("record %d is another one than the applied record %d", r.Number, r.Number)
	}
	return true, nil
}

// Apply applies the next record, with the digest of its line. After an error nothing is applied. The error is an *UnfitError, or
// says why the content of the record is unusable.
func (p Position) Apply(r *Record, d Digest) (Position, error) {
	switch {
	case p.Config == nil:
		return p, unfit("there is no configuration")
	case r.Number != p.Number+1:
		return p, unfit("record %d does not follow record %d", r.Number, p.Number)
	case r.From != p.concerns:
		return p, unfit("record %d applies to serial number %d with hash %.8s, the configuration has %d with %.8s",
			r.Number, r.From.Serial, r.From.Hash, p.concerns.Serial, p.concerns.Hash)
	}
	next, err := p.configured(r)
	if err == nil && r.Reserved != nil {
		next.encoded = *r.Reserved
		next.Reserved, err = r.Reserved.decode()
	}
	if err == nil {
		next.Rules, err = p.Rules.Apply(r.Rules)
	}
	if err != nil {
		return p, fmt.Errorf("record %d: %w", r.Number, err)
	}
	if r.ConcurrentChanged {
		next.Concurrent = r.Concurrent
	}
	next.Number = r.Number
	next.digests = p.digests.with(d)
	return next, nil
}

// configured returns the position after the record's change of the configuration. An error means that the record does not fit.
func (p Position) configured(r *Record) (Position, error) {
	if r.Delta == nil {
		if r.To != r.From {
			return p, fmt.Errorf("no change leads to another configuration")
		}
		return p, nil
	}
	config := r.After
	if config == nil {
		var err error
		if config, _, err = p.Config.ApplyDelta(r.Delta); err != nil {
			return p, err
		}
	}
	if p.concerns = At(config); p.concerns != r.To {
		return p, fmt.Errorf("the result has another content than recorded")
	}
	p.Config = config
	return p, nil
}

func (r *Reservations) decode() (reserve.State, error) {
	s, err := reserve.Decode(r.File)
	if err == nil && len(r.Extra) > 0 {
		s, err = s.WithExtra(r.Extra)
	}
	return s, err
}

// extraJSON is the content of config.extra.
type extraJSON struct {
	Version      int             `json:"v"`
	Number       uint64          `json:"number"`
	Config       Point           `json:"config"` // that config.extra was written with
	Digests      []Digest        `json:"digests"`
	Reservations json.RawMessage `json:"reservations,omitempty"`
	Concurrent   []reserve.IP    `json:"concurrent"`
	Rules        ownrules.Patch  `json:"rules,omitempty"`
}

// Extra returns the content of config.extra: the part of the position that config.data and tempres.data have no fields for.
func (p Position) Extra() []byte {
	raw, err := compact(extraJSON{version, p.Number, p.concerns, p.digests.all(), p.encoded.Extra,
		append([]reserve.IP{}, p.Concurrent...), p.Rules.All()})
	if err != nil {
		panic(fmt.Errorf("config.extra cannot be encoded: %w", err))
	}
	return append(raw, '\n')
}

func decodeExtra(raw []byte) (extraJSON, error) {
	var o extraJSON
	if raw == nil {
		return o, nil
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return o, err
	}
	if o.Version != version {
		return o, &newerError{o.Version}
	}
	return o, nil
}

// Adopt returns the position with a configuration from another program, and no changes that wait for the holder of the
// configuration lock. lockstep's own filter rules stay.
func (p Position) Adopt(c *model.Config) Position {
	p.Config, p.concerns, p.Concurrent = c, At(c), nil
	return p
}

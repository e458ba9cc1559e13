package term

import (
	"time"

	"lockstep/core/words"
)

// DurationFlag is a flag whose value words.ParseDuration reads.
type DurationFlag struct{ Value *time.Duration }

func (f DurationFlag) String() string {
	if f.Value == nil || *f.Value == 0 {
		return ""
	}
	return f.Value.String()
}

func (f DurationFlag) Set(text string) (err error) {
	*f.Value, err = words.ParseDuration(text)
	return err
}

func (f DurationFlag) Type() string { return "duration" }

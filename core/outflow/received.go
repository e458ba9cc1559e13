package outflow

import (
	"errors"
	"fmt"
)

// Received is what a reader has of the output of a job. The zero value has nothing yet.
type Received struct {
	At      Position // the place after the latest output
	Missing Position // how many bytes of each stream before that place did not arrive
	Ended   bool     // all output that is not missing has arrived
}

// Take takes the next frame. gap is the output that is missing before it. After an error the sender is not to be believed: it has
// sent something again, or after the end.
func (r *Received) Take(f Frame) (gap Position, err error) {
	gap = Position{f.At.Stdout - r.At.Stdout, f.At.Stderr - r.At.Stderr}
	switch {
	case r.Ended:
		return Position{}, errors.New("output came after its end")
	case gap.Stdout < 0 || gap.Stderr < 0:
		return Position{}, fmt.Errorf("output came again: %d and %d bytes of the streams had arrived, and it begins after %d and %d",
			r.At.Stdout, r.At.Stderr, f.At.Stdout, f.At.Stderr)
	}
	r.Missing.Stdout += gap.Stdout
	r.Missing.Stderr += gap.Stderr
	r.At = f.At.plus(f.Stream, int64(len(f.Output)))
	r.Ended = f.Ends()
	return gap, nil
}

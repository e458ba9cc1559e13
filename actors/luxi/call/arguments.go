package call

import (
	"encoding/json"
	"errors"
)

// Text is a string on the wire; null is an error.
type Text string

func (t *Text) UnmarshalJSON(data []byte) error {
	var s *string
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	if s == nil {
		return errNull
	}
	*t = Text(*s)
	return nil
}

// Texts is a list of strings on the wire; null is an error.
type Texts []string

func (t *Texts) UnmarshalJSON(data []byte) error {
	var list []Text
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	if list == nil {
		return errNull
	}
	*t = make(Texts, len(list))
	for i, s := range list {
		(*t)[i] = string(s)
	}
	return nil
}

var errNull = errors.New("a null is not what belongs here")

// Flag is a boolean on the wire; null is an error.
type Flag bool

func (f *Flag) UnmarshalJSON(data []byte) error {
	var b *bool
	if err := json.Unmarshal(data, &b); err != nil {
		return err
	}
	if b == nil {
		return errNull
	}
	*f = Flag(*b)
	return nil
}

// Quote is a text as JSON.
func Quote(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		return "?"
	}
	return string(data)
}

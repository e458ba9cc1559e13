package messages

import "errors"

// Error makes a Failure an error, so that it travels as one on both sides of
// a conversation.
func (f *Failure) Error() string { return f.GetText() }

// Generic is a Failure of Ganeti's class GenericError. A nil error gives nil.
func Generic(err error) *Failure {
	if err == nil {
		return nil
	}
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	return &Failure{Class: "GenericError", Text: err.Error()}
}

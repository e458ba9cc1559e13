package messages

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Clients compare classes and codes, so the test spells them out.
func TestFailures(t *testing.T) {
	for _, c := range []struct {
		f           *Failure
		class, code string
	}{
		{GenericFailure("x"), "GenericError", ""},
		{PrereqFailure(WrongInput, "x"), "OpPrereqError", "wrong_input"},
		{PrereqFailure(WrongState, "x"), "OpPrereqError", "wrong_state"},
		{PrereqFailure(UnknownEntity, "x"), "OpPrereqError", "unknown_entity"},
		{LockFailure("x"), "LockError", ""},
		{JobLostFailure("x"), "JobLost", ""},
		{ConfigurationFailure("x"), "ConfigurationError", ""},
		{ParameterFailure("x"), "ParameterError", ""},
		{ProgrammerFailure("x"), "ProgrammerError", ""},
		{DrainedFailure("x"), "JobQueueDrainError", ""},
		{QueueFullFailure("x"), "JobQueueFull", ""},
	} {
		require.Equal(t, c.class, c.f.Class)
		require.Equal(t, c.code, c.f.Code)
		require.EqualError(t, c.f, "x")
	}
}

func TestGeneric(t *testing.T) {
	require.Nil(t, Generic(nil))
	require.Equal(t, "GenericError", Generic(errors.New("x")).Class)
	lost := JobLostFailure("x")
	require.Same(t, lost, Generic(fmt.Errorf("y: %w", lost)))
}

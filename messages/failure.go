package messages

import "errors"

// Classes of Ganeti's errors (queue.md 1.3). Clients compare them.
const (
	ClassGeneric       = "GenericError"
	ClassPrereq        = "OpPrereqError"
	ClassLock          = "LockError"
	ClassJobLost       = "JobLost"
	ClassConfiguration = "ConfigurationError"
	ClassParameter     = "ParameterError"
	ClassProgrammer    = "ProgrammerError"
	ClassQueueDrained  = "JobQueueDrainError"
	ClassQueueFull     = "JobQueueFull"
)

// ClassNotMaster is lockstep's own: another node is the master.
const ClassNotMaster = "NotMaster"

// Codes of an OpPrereqError.
const (
	WrongInput    = "wrong_input"
	WrongState    = "wrong_state"
	UnknownEntity = "unknown_entity"
	NotPermitted  = "not_permitted" // lockstep's own: the role of the user does not suffice (access.Refusal)
)

// Error is the text of the failure.
func (f *Failure) Error() string { return f.GetText() }

// Generic converts an error: a Failure in its chain is returned as it is, any other
// error becomes a GenericError, and nil stays nil.
func Generic(err error) *Failure {
	if err == nil {
		return nil
	}
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	return GenericFailure(err.Error())
}

// GenericFailure is for an error without a narrower class.
func GenericFailure(text string) *Failure { return &Failure{Class: ClassGeneric, Text: text} }

// PrereqFailure refuses a request because of its content or of the state of the cluster.
// code is WrongInput, WrongState, UnknownEntity or NotPermitted.
func PrereqFailure(code, text string) *Failure {
	return &Failure{Class: ClassPrereq, Text: text, Code: code}
}

// LockFailure is for a state of the locks that cannot be read or written.
func LockFailure(text string) *Failure { return &Failure{Class: ClassLock, Text: text} }

// JobLostFailure is for a job, or a process of a job, that the daemon does not have.
func JobLostFailure(text string) *Failure { return &Failure{Class: ClassJobLost, Text: text} }

// ConfigurationFailure is for a configuration that is unusable.
func ConfigurationFailure(text string) *Failure {
	return &Failure{Class: ClassConfiguration, Text: text}
}

// ParameterFailure is for an argument that has no meaning.
func ParameterFailure(text string) *Failure { return &Failure{Class: ClassParameter, Text: text} }

// ProgrammerFailure is the failure of a request for which a bug in lockstep is to blame.
func ProgrammerFailure(text string) *Failure { return &Failure{Class: ClassProgrammer, Text: text} }

// DrainedFailure refuses a submission to a drained queue.
func DrainedFailure(text string) *Failure { return &Failure{Class: ClassQueueDrained, Text: text} }

// QueueFullFailure refuses a submission to a queue that has its maximum of jobs.
func QueueFullFailure(text string) *Failure { return &Failure{Class: ClassQueueFull, Text: text} }

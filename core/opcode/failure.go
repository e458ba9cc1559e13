package opcode

// Failure says why an opcode cannot be executed, in the form of its error result (queue.md 3.4 and 1.3).
type Failure struct {
	Class string // the class of the error, as OpPrereqError
	Text  string
	Code  string // a code for programs, as unknown_entity
}

func (f *Failure) Error() string { return f.Text }

const (
	prereqError = "OpPrereqError"
	wrongInput  = "wrong_input"
)

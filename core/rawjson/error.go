package rawjson

import "strconv"

// Error says what is wrong in a JSON text, and where.
type Error struct {
	Path   string // the place within the document, as "ops[0].log[2]"; "" for the document itself
	Offset int    // in bytes from the start of the data
	Reason string
}

func (e *Error) Error() string {
	return e.Path + ": " + e.Reason + " (byte " + strconv.Itoa(e.Offset) + ")"
}

// Under puts Path below the member with the key parent. It returns nil for nil.
func (e *Error) Under(parent string) *Error {
	switch {
	case e == nil:
	case e.Path == "":
		e.Path = parent
	case e.Path[0] == '[':
		e.Path = parent + e.Path
	default:
		e.Path = parent + "." + e.Path
	}
	return e
}

// UnderElement puts Path below the element i of a list. It returns nil for nil.
func (e *Error) UnderElement(i int) *Error {
	if e == nil {
		return nil
	}
	return e.Under("[" + strconv.Itoa(i) + "]")
}

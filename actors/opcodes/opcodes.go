// Package opcodes has the message that carries the catalogue to the queue, the scheduler and the LUXI gateway. It is plain
// Go, because core/opcode has the type. The package has no actor and no state.
package opcodes

import "lockstep/core/opcode"

// Changed tells an actor to use another catalogue of opcodes, after operators have declared other ones. Catalogue has all opcodes, and
// never changes.
type Changed struct{ Catalogue *opcode.Catalogue }

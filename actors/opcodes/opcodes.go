// Package opcodes has the message that carries the catalogue to the queue, the scheduler and the LUXI gateway. It is plain
// Go, because core/opcode has the type. The package has no actor and no state.
package opcodes

import "lockstep/core/opcode"

// Changed replaces the catalogue after operators have declared other opcodes. Catalogue has all opcodes, and never changes.
type Changed struct{ Catalogue *opcode.Catalogue }

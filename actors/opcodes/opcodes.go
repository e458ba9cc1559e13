// Package opcodes has the message by which the queue, the scheduler and the LUXI gateway learn which opcodes there are.
// It is plain Go, for core has the type.
package opcodes

import "lockstep/core/opcode"

// Changed: operators have declared other opcodes. The catalogue has all opcodes, and nothing changes it.
type Changed struct{ Catalogue *opcode.Catalogue }

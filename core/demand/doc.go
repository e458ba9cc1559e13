// Package demand tells the locks of opcodes (queue.md 8). Declare predicts the locks that an opcode will ask for, so that the
// scheduler can compare jobs before they start. Required is the locks that an opcode must hold while lockstep executes it.
// Ganeti's opcodes have rows in the lock table (table.go). Other opcodes name their locks in parameters (requested.go), and
// core/opcode refuses an opcode whose names are invalid when it is submitted.
//
// It is pure, and knows opcodes by name and parameters only: core/opcode, which has the catalogue, imports it.
package demand

// Package conformance runs Ganeti's client programs, unmodified, against a lockstepd, and compares
// their output and exit codes with text files: `make conformance`. It has only tests.
package conformance

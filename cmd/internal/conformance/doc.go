// Package conformance runs Ganeti's own client programs, unmodified, against a
// lockstepd, and compares what they print and how they exit with text files: `make
// conformance`. It holds tests only.
package conformance

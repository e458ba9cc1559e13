// Package kittest lets tests drive actors by messages alone.
//
// [Run] gives a test an [Env]: an actor system in a bubble of testing/synctest, with a
// clock that stands still, a captured log, and a [PanicInjector]. A [Probe] stands in for a
// neighbour of the actor under test: it collects messages for [Expect], or answers them. A
// [Disk] is a disk in memory that fails or blocks where the test wants it.
package kittest

// Package kittest lets tests drive actors by messages alone.
//
// [Run] gives a test an [Env]: an actor system in a bubble of testing/synctest,
// with a clock that stands still, a captured log, and mailboxes that can make an
// actor panic. [Probe] takes the place of an actor's neighbours. [Disk] is a
// disk in memory that fails, or takes its time, where a test says so.
package kittest

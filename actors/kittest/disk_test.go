package kittest_test

import (
	"testing"

	"lockstep/actors/kittest"
	"lockstep/persistence/persistencetest"
)

// The disk in memory fulfils the contract of the real one.
func TestDisk(t *testing.T) {
	persistencetest.TestFiles(t, func(*testing.T) persistencetest.Files { return kittest.NewDisk(nil) })
}

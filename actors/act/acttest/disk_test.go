package acttest_test

import (
	"testing"

	"lockstep/actors/act/acttest"
	"lockstep/persistence/persistencetest"
)

// The disk in memory keeps the contract of the real one.
func TestDisk(t *testing.T) {
	persistencetest.TestFiles(t, func(*testing.T) persistencetest.Files { return acttest.NewDisk(nil) })
}

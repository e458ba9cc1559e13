package throughput

import (
	"os"
	"testing"

	"lockstep/sim"
)

func TestMain(m *testing.M) {
	sim.CollectRarely()
	os.Exit(m.Run())
}

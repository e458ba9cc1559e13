package sim

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	CollectRarely()
	os.Exit(m.Run())
}

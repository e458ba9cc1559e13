package client

import (
	"testing"
)

func TestRequestNamesDiffer(t *testing.T) {
	one, other := NewRequestName(), NewRequestName()
	if len(one) != 32 || len(other) != 32 || one == other {
		t.Errorf("%s, %s", one, other)
	}
}

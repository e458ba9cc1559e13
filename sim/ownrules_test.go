package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A rule with an end that another client deletes while its change is on its way may be on the disk or not.
func TestTwoClientsChangeARule(t *testing.T) {
	deleted := 0
	for seed := range uint64(40) {
		w := New(Options{Seed: seed, Checkers: []Checker{&checkOwnRules{}}})
		require.NoError(t, w.Start())
		o, other := w.newClient(), w.newClient()
		r := rule{uuid: "00000001-0000-4000-8000-000000000001", predicates: []byte(`[]`), action: "PAUSE"}
		o.whenReady(func() {
			o.replaceFilter(r, func(string, error) {
				r.lasts = time.Minute
				other.deleteFilter(r.uuid, func(error) {})
				o.replaceFilter(r, func(string, error) { o.set(map[string]any{"predictive_ticks": 3}, nil) })
			})
		})
		w.RunFor(10 * time.Second)
		require.NoError(t, w.Err(), "seed %d", seed)
		var stored storedConfig
		require.NotNil(t, stored.read(w.disk))
		if stored.filterRules()[r.uuid] == nil {
			deleted++
		}
	}
	require.Positive(t, deleted)
	require.Less(t, deleted, 40)
}

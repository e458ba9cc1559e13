package sim

import "fmt"

// checkConnections: nobody loses a connection, or is refused one, while another client has more of them and one on which no request is at
// work. Who makes room has no fewer than the newcomer's client has then.
type checkConnections struct{}

func (checkConnections) Name() string { return "connections" }

func (checkConnections) See(_ *World, event any) error {
	e, is := event.(connectionLost)
	if !is {
		return nil
	}
	counts := e.entrance.counts(e.client.Class)
	had := counts[e.client] + 1 // with the one that is lost, or was asked for
	for _, other := range sortedClients(counts) {
		if other != e.client && counts[other] > had && e.entrance.hasIdle(other) {
			return fmt.Errorf("%s lost one of %d connections (refused: %v), and %s has %d", e.client.Name, had, e.refused, other.Name, counts[other])
		}
	}
	if newcomer := counts[e.newcomer] + 1; !e.refused && e.client != e.newcomer && had < newcomer {
		return fmt.Errorf("%s lost one of %d connections to %s, which has %d", e.client.Name, had, e.newcomer.Name, newcomer)
	}
	return nil
}

package replicator

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/core/replication"
	"lockstep/messages"
)

// base is the number before the first proposal of incarnation 1.
const base = uint64(1) << 32

// offers are proposals with the numbers that were offered to the log.
type offers struct {
	*proposals
	offered []uint64
	done    map[string]*messages.ChangeFilesResult // by name of a request
}

func newOffers() *offers {
	o := &offers{done: map[string]*messages.ChangeFilesResult{}}
	o.proposals = newProposals(replication.Applier{Node: "u1", Incarnation: "run"},
		func(number uint64, _ []byte) { o.offered = append(o.offered, number) }, &sequence{last: base})
	return o
}

// request proposes one entry per path, as one request. The contents are as large as an entry may be.
func (o *offers) request(name string, whenLogged bool, files ...string) {
	var changes []*messages.FileChange
	for _, file := range files {
		changes = append(changes, replication.ObservedChange(file, make([]byte, entryMax)))
	}
	o.add(changes, &changeRequest{answerWhenLogged: whenLogged,
		done: func(_ actor.Context, m *messages.ChangeFilesResult) { o.done[name] = m }})
}

// news returns the numbers offered since the last call, counted from 1.
func (o *offers) news() []uint64 {
	var numbers []uint64
	for _, n := range o.offered {
		numbers = append(numbers, n-base)
	}
	o.offered = nil
	return numbers
}

func (o *offers) isLogged(number uint64) { o.logged(nil, base+number) }

func (o *offers) isOnDisk(number uint64) { o.finish(nil, base+number, nil) }

func TestTheLastPartIsOfferedAfterTheOthers(t *testing.T) {
	o := newOffers()
	o.request("a", false, "queue/job-1", "queue/job-2", "queue/serial")
	require.Equal(t, []uint64{1, 2}, o.news())
	o.isLogged(2)
	require.Empty(t, o.news())
	o.isLogged(1)
	require.Equal(t, []uint64{3}, o.news())
	for n := range uint64(3) {
		require.Nil(t, o.done["a"])
		o.isOnDisk(n + 1)
	}
	require.NotNil(t, o.done["a"])
	require.Empty(t, o.byNumber)
	require.Empty(t, o.touched)
}

func TestChangesOfOneFileKeepTheirOrder(t *testing.T) {
	o := newOffers()
	o.request("a", false, "queue/job-1")
	o.request("b", false, "queue/job-1")
	o.request("c", false, "queue/job-2")
	require.Equal(t, []uint64{1, 3}, o.news())
	require.True(t, o.touches("queue/job-1"))
	o.isLogged(1)
	require.Equal(t, []uint64{2}, o.news())
	o.isOnDisk(1)
	require.True(t, o.touches("queue/job-1"), "the second change is on its way")
	o.isOnDisk(2)
	require.False(t, o.touches("queue/job-1"))
	require.Empty(t, o.done["b"].Failures)
}

func TestARequestMayBeAnsweredBeforeTheDisk(t *testing.T) {
	o := newOffers()
	o.request("a", true, "queue/job-1", "queue/serial")
	o.isLogged(1)
	require.Nil(t, o.done["a"])
	o.isLogged(2)
	require.NotNil(t, o.done["a"])
	delete(o.done, "a")
	o.isOnDisk(1)
	o.isOnDisk(2)
	require.Nil(t, o.done["a"], "it is answered once")
}

func TestAProposalIsOpenUntilItAndAllBeforeAreOnTheDisk(t *testing.T) {
	o := newOffers()
	require.False(t, o.isOpen(o.numbers.last))
	o.request("a", false, "queue/job-1")
	o.numbers.next() // of something else
	o.request("b", false, "queue/job-2")
	require.False(t, o.isOpen(base), "it is before the first")
	o.isOnDisk(3)
	require.True(t, o.isOpen(base+3))
	o.isOnDisk(1)
	require.False(t, o.isOpen(o.numbers.last))
}

// A failed part takes the last part with it, but not the others.
func TestAFailureOfAPartFailsTheLastPart(t *testing.T) {
	o := newOffers()
	o.request("a", false, "queue/job-1", "queue/job-2", "queue/serial")
	o.request("b", false, "queue/serial")
	p := o.refused(base + 1)
	require.Equal(t, 1, p.tries)
	require.Nil(t, o.refused(base+9))
	o.news()
	o.fail(nil, p, &messages.Failure{Text: "busy"})
	require.Equal(t, []uint64{4}, o.news(), "the next change of the serial need not wait any longer")
	require.False(t, o.has(p))
	o.isOnDisk(2)
	require.Len(t, o.done["a"].Failures, 2)
}

func TestDroppedProposalsAreNotAnswered(t *testing.T) {
	o := newOffers()
	o.request("a", false, "queue/job-1")
	o.clear()
	o.isLogged(1)
	o.isOnDisk(1)
	require.Empty(t, o.done)
	require.False(t, o.isOpen(o.numbers.last))
}

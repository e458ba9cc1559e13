package replicator

import (
	"time"

	"github.com/sirupsen/logrus"

	"lockstep/core/replication"
	"lockstep/messages"
)

// electionTimes knows which times of elections members know, and declares the times of this node's terms. It is in memory only: after a
// restart of the node, the next declaration of any leader or the members' statements fill it again.
type electionTimes struct {
	shortest replication.Times // that this node knows
	known    replication.TimesKnown
	declared uint64 // the last term for which this node has proposed a declaration; 0: none
}

func newElectionTimes(shortest replication.Times) *electionTimes {
	if shortest == (replication.Times{}) {
		shortest = replication.InitialTimes()
	}
	return &electionTimes{shortest: shortest, known: replication.TimesKnown{}}
}

// timesStated notes which times a member knows. The member repeats that until it uses them, so it may lack a declaration that the log
// has no longer: that is made again.
func (r *replicator) timesStated(m *messages.AdmitNode) {
	if m.HeartbeatMs <= 0 || r.membership.find(m.Name) == nil {
		return
	}
	r.times.known.State(m.Name, time.Duration(m.HeartbeatMs)*time.Millisecond)
	r.times.declared = 0
	r.declareTimes()
}

// declareTimes declares the shortest times of this node for the term in which it leads, if all members know them. The lease is shorter
// before the declaration is proposed.
func (r *replicator) declareTimes() {
	s := &r.mastership
	if !s.leads || r.times.declared == s.term {
		return
	}
	names := r.times.known.Agreed(r.times.shortest, r.config.Name, r.membership.members)
	if names == nil {
		return
	}
	r.times.declared = s.term
	r.config.Log.SetTimes(s.term, r.times.shortest)
	number := r.numbers.next()
	r.config.Log.Propose(number, (&messages.LogEntry{Origin: r.config.Self.Node, Incarnation: r.config.Self.Incarnation, Number: number,
		Times: replication.Declaration(s.term, r.times.shortest, names)}).Marshal())
}

// takeTimes takes the declarations in committed entries, and passes their times on to the log.
func (r *replicator) takeTimes(entries []*messages.LogEntry) {
	for _, e := range entries {
		t, ok := replication.DeclaredTimes(e.Times)
		if !ok {
			continue
		}
		r.times.known.Take(e.Times)
		r.config.Log.SetTimes(e.Times.Term, t)
		r.config.Env.Log().WithFields(logrus.Fields{"term": e.Times.Term, "heartbeat": t.Heartbeat, "lease": t.Lease}).
			Debug("times of elections declared")
	}
}

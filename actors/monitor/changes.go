package monitor

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/config/configstore"
	"lockstep/actors/config/distributor"
	"lockstep/actors/locks"
	"lockstep/actors/replicator"
	"lockstep/core/config/model"
	coremonitor "lockstep/core/monitor"
	"lockstep/messages"
)

// queueStarted subscribes to all jobs, and then asks for them: changes that come before the list are in it.
func (w *monitor) queueStarted(ctx actor.Context) {
	w.queue.Forget()
	ctx.Request(w.config.Queue, &messages.SubscribeAllJobs{})
	ctx.Request(w.config.Queue, &messages.ListJobs{Request: w.next(), All: true})
	w.askQueue(ctx)
	w.changed(ctx)
}

// askQueue asks for what the queue does not send at a change: whether it is drained.
func (w *monitor) askQueue(ctx actor.Context) {
	if w.cluster.Role().RunsQueue() && w.config.Queue != nil {
		ctx.Request(w.config.Queue, &messages.GetQueueStatus{Request: w.next()})
	}
}

func (w *monitor) jobsListed(ctx actor.Context, m *messages.ListJobsResult) {
	infos := make([]*messages.JobInfo, 0, len(m.Rows))
	for _, row := range m.Rows {
		if row.Info != nil {
			infos = append(infos, row.Info)
		}
	}
	w.queue.Listed(infos)
	w.changed(ctx)
}

func (w *monitor) jobsChanged(ctx actor.Context, m *messages.JobStatesChanged) {
	w.queue.Changed(w.now(), m.Jobs, len(m.Archived))
	w.soon(coremonitor.Processes)
	w.changed(ctx)
}

func (w *monitor) queueAnswered(ctx actor.Context, m *messages.GetQueueStatusResult) {
	if w.values.drained != m.Drained {
		w.values.drained = m.Drained
		w.changed(ctx)
	}
}

// locksStarted forgets the locks and asks for all owners: subscribers get changes only.
func (w *monitor) locksStarted(ctx actor.Context) {
	w.locks.Forget()
	ctx.Request(w.config.Locks, &locks.PublishOwners{})
	w.changed(ctx)
}

func (w *monitor) locksChanged(ctx actor.Context, m *locks.OwnersPublished) {
	w.locks.Died(w.now(), m.Dead)
	if m.Complete || len(m.Records) > 0 {
		w.locks.Changed(w.now(), m.Records, m.Complete)
	}
	w.changed(ctx)
}

// configChanged takes the configuration of this node; nil with the failure if it cannot be read. The last known facts stay.
func (w *monitor) configChanged(ctx actor.Context, c *model.Config, failure string) {
	k := &w.configuring
	if c == k.current && failure == k.failure {
		return
	}
	k.current, k.failure = c, failure
	if c != nil && !coremonitor.SameFacts(c, k.factsOf) {
		k.factsOf = c
		w.setFacts(coremonitor.FactsOf(c, w.config.Node))
	}
	w.soon(coremonitor.ConfigName)
	w.changed(ctx)
}

// setFacts takes new facts. A collector whose setting has changed gathers at the next tick.
func (w *monitor) setFacts(f *coremonitor.Facts) {
	before := w.configuring.facts
	w.configuring.facts = f
	for _, g := range w.gatherers {
		if before.SettingOf(g.Collector) != f.SettingOf(g.Collector) {
			g.due = w.now()
		}
	}
}

// askConfigStore asks for the configuration of this node. Loaded says why there is none; ConfigPublished comes at each change.
func (w *monitor) askConfigStore(ctx actor.Context) {
	if w.config.ConfigStore != nil {
		ctx.Request(w.config.ConfigStore, &configstore.Load{Request: w.next()})
	}
}

func (w *monitor) configLoaded(ctx actor.Context, m *configstore.Loaded) {
	switch {
	case m.Failure != nil:
		w.configChanged(ctx, nil, m.Failure.Text)
	case !m.Missing:
		w.configChanged(ctx, m.State.Config, "")
	}
}

// askCandidates asks the candidates on a node without a copy of the configuration.
func (w *monitor) askCandidates(ctx actor.Context) {
	k := &w.configuring
	if w.config.Candidates == nil || !k.askedAt.IsZero() && w.now().Sub(k.askedAt) < askInterval {
		return
	}
	k.asked, k.askedAt = w.next(), w.now()
	w.config.Candidates.Ask(k.asked, w.config.Node, ctx.Self())
}

// candidatesAnswered takes the facts of a node without a copy of the configuration, unless they are older than the known ones.
func (w *monitor) candidatesAnswered(ctx actor.Context, m *Answered) {
	k := &w.configuring
	if m.Number != k.asked || m.Err != nil {
		return
	}
	f, err := coremonitor.FactsFrom(m.Answers)
	if err != nil {
		w.config.Env.Log().WithField("err", err).
			Warn("answer of a candidate about the configuration cannot be understood; the last known settings stay")
		return
	}
	if k.facts != nil && f.Serial < k.facts.Serial {
		return
	}
	w.setFacts(f)
	w.changed(ctx)
}

// clusterChanged takes what this node knows of its cluster. On a node that becomes the master, the actors of the master announce
// themselves, or are asked after a restart of this actor.
func (w *monitor) clusterChanged(ctx actor.Context, m *replicator.NodePublished) {
	was := w.cluster.Role()
	v := coremonitor.View{Role: roleOf(m), Term: m.Term, Leader: m.Leader, Applied: m.Applied}
	if m.Failure != nil {
		v.Failure = m.Failure.Text
	}
	for _, member := range m.Members {
		v.Members = append(v.Members, coremonitor.Member{Name: member.Name, Address: member.Address, Voter: member.Voter})
	}
	w.cluster.Changed(v)
	for _, took := range m.CommitTimes {
		w.cluster.Committed(w.now(), took)
	}
	if v.Role != was {
		w.queue.Forget()
		w.locks.Forget()
		w.soon(coremonitor.Replication)
		if v.Role.RunsQueue() {
			w.askMasters(ctx)
		}
	}
	w.changed(ctx)
}

// roleOf returns the role of this node. A node that leads is the master when the configuration names it.
func roleOf(m *replicator.NodePublished) coremonitor.Role {
	switch {
	case m.Master:
		return coremonitor.Leader
	case m.Leader == "":
		return coremonitor.Candidate
	}
	return coremonitor.Follower
}

// askCluster asks for the states of the other nodes. The answer to the question before may still be on its way.
func (w *monitor) askCluster(ctx actor.Context) {
	if w.config.Replicator != nil && w.cluster.Role() == coremonitor.Leader {
		w.askedNodes = w.next()
		ctx.Request(w.config.Replicator, &messages.GetNodes{Request: w.askedNodes, WithStates: true})
	}
	if w.config.Distributor != nil {
		w.askedStock = w.next()
		ctx.Request(w.config.Distributor, &distributor.GetNodes{Request: w.askedStock})
	}
}

func (w *monitor) nodesAnswered(ctx actor.Context, m *messages.GetNodesResult) {
	if m.Request != w.askedNodes || w.cluster.Role() != coremonitor.Leader {
		return
	}
	var states []coremonitor.MemberState
	for _, s := range m.States {
		states = append(states, coremonitor.MemberState{Name: s.Name, Answers: s.Answers, Applied: s.Applied})
	}
	w.cluster.Answered(w.now(), states)
	w.changed(ctx)
}

func (w *monitor) stockNodesAnswered(ctx actor.Context, m *distributor.GetNodesResult) {
	if m.Request != w.askedStock {
		return
	}
	var nodes []coremonitor.StockNode
	for _, n := range m.Nodes {
		s := coremonitor.StockNode{Name: n.Name, Failures: n.ConfigFile.Failures + n.Ssconf.Failures}
		if n.ConfigFile.Behind > 0 {
			s.Behind++
		}
		if n.Ssconf.Behind > 0 {
			s.Behind++
		}
		if s.Failures == 0 && s.Behind == 0 {
			s.LastSuccess = w.now()
		}
		nodes = append(nodes, s)
	}
	w.cluster.StockNodes(nodes)
	w.changed(ctx)
}

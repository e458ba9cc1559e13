package supervisor

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/audit"
	"lockstep/actors/calendar"
	"lockstep/actors/confdkey"
	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/config/confd"
	"lockstep/actors/config/configcheck"
	"lockstep/actors/config/configstore"
	"lockstep/actors/config/distributor"
	"lockstep/actors/config/ssconf"
	"lockstep/actors/events"
	"lockstep/actors/features"
	"lockstep/actors/filters"
	"lockstep/actors/grants"
	"lockstep/actors/inquirer"
	"lockstep/actors/jobs"
	"lockstep/actors/locks"
	"lockstep/actors/luxi"
	"lockstep/actors/queue"
	"lockstep/actors/queuecopy"
	"lockstep/actors/scheduler"
	"lockstep/actors/sessions"
	"lockstep/actors/store"
	"lockstep/actors/wconfd"
	times "lockstep/core/calendar"
	"lockstep/core/config"
	"lockstep/core/lock"
	"lockstep/core/noded"
	corecopy "lockstep/core/queuecopy"
)

// How each actor of the tree is made from the ports and the settings, and which actors there are.

// answersQueries reports whether queries about the configuration are answered.
func answersQueries(p Ports) bool { return p.Confd != nil }

// ownConfigstoreOf returns the actor that keeps the configuration on this node: the one of the only tree, or of the node's tree in a
// cluster.
func ownConfigstoreOf(p Ports) *actor.PID {
	if isStandalone(p) {
		return p.Env.PID(configstoreName)
	}
	return p.Env.PID(nodeConfigstoreName)
}

// configstoreSubscribers returns the actors that the configstore of this node sends each configuration to: ConfD and the monitor, if the
// node has them.
func configstoreSubscribers(p Ports) []*actor.PID {
	var pids []*actor.PID
	if pid := ssconfOf(p); pid != nil {
		pids = append(pids, pid)
	}
	if answersQueries(p) {
		pids = append(pids, p.Env.PID(answersPath(p)+"/confd"))
	}
	if hasMonitor(p) {
		pids = append(pids, monitorOf(p))
	}
	return pids
}

// answersPath is the name of the group answers with the names above it.
func answersPath(p Ports) string {
	if isStandalone(p) {
		return rootName + "/" + answersName
	}
	return nodeRoot + "/" + answersName
}

// makesKeys reports whether the keys of queries are lockstep's own. In a Ganeti cluster they are Ganeti's.
func makesKeys(p Ports) bool { return p.Daemons == nil }

// confdkeyOf returns the actor that changes the keys of ConfD; nil: there is none.
func confdkeyOf(p Ports) *actor.PID {
	if !makesKeys(p) {
		return nil
	}
	return p.Env.PID(confdkeyName)
}

func confdkeyProps(p Ports, s Settings) *actor.Props {
	return confdkey.Props(confdkey.Config{Env: p.Env, Store: storeOf(p), Random: s.Random})
}

// keepsSessions reports whether there are sessions of the console.
func keepsSessions(p Ports) bool { return p.Console && hasQueue(p) }

// sessionsOf returns the actor that keeps the sessions; nil: there is none.
func sessionsOf(p Ports) *actor.PID {
	if !keepsSessions(p) {
		return nil
	}
	return p.Env.PID(sessionsName)
}

func sessionsProps(p Ports, s Settings) *actor.Props {
	return sessions.Props(sessions.Config{Env: p.Env, Store: storeOf(p), Random: s.Random})
}

// keepsGrants reports whether roles are granted. In a Ganeti cluster the modes of the sockets decide.
func keepsGrants(p Ports) bool { return makesKeys(p) && hasQueue(p) }

// grantsOf returns the actor that keeps the granted roles; nil: there is none.
func grantsOf(p Ports) *actor.PID {
	if !keepsGrants(p) {
		return nil
	}
	return p.Env.PID(grantsName)
}

func grantsProps(p Ports, _ Settings) *actor.Props {
	return grants.Props(grants.Config{Env: p.Env, Store: storeOf(p), Subscribers: []*actor.PID{p.Env.PID(luxiName), p.Env.PID(calendarName)}})
}

func calendarProps(p Ports, s Settings) *actor.Props {
	return calendar.Props(calendar.Config{Env: p.Env, Store: storeOf(p), Queue: p.Env.PID(queueName), Events: eventsOf(p),
		Accounts: p.Accounts, Catalogue: s.Catalogue, Policy: s.Access, Daemon: s.Daemon, Zones: times.LoadZone})
}

// notesFeatures reports whether the features of the members of a cluster are noted. Where members cannot be asked, all are of one version.
func notesFeatures(p Ports) bool { return !isStandalone(p) && p.Cluster.Peers != nil && hasQueue(p) }

// featuresOf returns the actor that knows the features of the members; nil: there is none.
func featuresOf(p Ports) *actor.PID {
	if !notesFeatures(p) {
		return nil
	}
	return p.Env.PID(featuresName)
}

func featuresProps(p Ports, _ Settings) *actor.Props {
	return features.Props(features.Config{Env: p.Env, Store: storeOf(p), Replicator: replicatorOf(p)})
}

func auditProps(p Ports, _ Settings) *actor.Props {
	return audit.Props(audit.Config{Env: p.Env, Store: storeOf(p), Clients: []*actor.PID{p.Env.PID(luxiName)}, Features: featuresOf(p)})
}

func confdProps(p Ports, s Settings) *actor.Props {
	return confd.Props(confd.Config{Env: p.Env, ConfigStore: ownConfigstoreOf(p), Server: p.Confd, Secrets: s.Secrets})
}

func storeProps(p Ports, s Settings) *actor.Props {
	return store.Props(store.Config{Env: p.Env, Files: p.Files, Writers: s.Writers, Clients: storeClients(p), QueueCopy: queuecopyOf(p)})
}

// storeClients are the actors that the store tells when it has started, so that they repeat their requests.
func storeClients(p Ports) []*actor.PID {
	clients := present(p, locksName, clusterconfigName, queueName, jobsName, luxiName, auditName, calendarName)
	if isStandalone(p) {
		clients = append(clients, p.Env.PID(configstoreName))
	}
	for _, pid := range []*actor.PID{ssconfOf(p), confdkeyOf(p), sessionsOf(p), grantsOf(p), featuresOf(p)} {
		if pid != nil {
			clients = append(clients, pid)
		}
	}
	return clients
}

// hasQueue reports whether the tree has the queue and what serves it.
func hasQueue(p Ports) bool { return !p.WithoutQueue }

// belongsToQueue reports whether only a tree with a queue has the actor.
func belongsToQueue(name string) bool {
	switch name {
	case queueName, jobsName, luxiName, filtersName, schedulerName, auditName, calendarName:
		return true
	}
	return false
}

// present returns the actors with these names that the tree has. Without a queue, those of the queue are left out.
func present(p Ports, names ...string) []*actor.PID {
	var pids []*actor.PID
	for _, name := range names {
		if hasQueue(p) || !belongsToQueue(name) {
			pids = append(pids, p.Env.PID(name))
		}
	}
	return pids
}

// ifPresent returns the actor with that name; nil if the tree does not have it.
func ifPresent(p Ports, name string) *actor.PID {
	if pids := present(p, name); len(pids) > 0 {
		return pids[0]
	}
	return nil
}

// isStandalone reports whether this node belongs to no cluster.
func isStandalone(p Ports) bool { return p.Cluster == nil }

// storeOf returns the actor that writes the master's files: the store, or the replicator of a
// cluster.
func storeOf(p Ports) *actor.PID {
	if isStandalone(p) {
		return p.Env.PID(storeName)
	}
	return replicatorOf(p)
}

// replicatorOf returns the replicator; nil on a node without a cluster.
func replicatorOf(p Ports) *actor.PID {
	if isStandalone(p) {
		return nil
	}
	return p.Env.PID(replicatorName)
}

// leadershipCheck returns a function that reports whether this node is the master for certain;
// nil: it always is.
func leadershipCheck(p Ports) func() bool {
	if isStandalone(p) {
		return nil
	}
	return p.Cluster.Log.Leads
}

// daemonOwner is the daemon as an owner of locks for a purpose.
func daemonOwner(s Settings, purpose string) lock.Owner {
	return lock.NamedOwner("lockstepd-"+purpose, s.Livelock, s.About.PID)
}

func locksProps(p Ports, s Settings) *actor.Props {
	return locks.Props(locks.Config{Env: p.Env, Store: storeOf(p), Queue: ifPresent(p, queueName),
		Scheduler:   ifPresent(p, schedulerName),
		Clients:     subscribers(p, clusterconfigName, wconfdName, luxiName),
		Subscribers: subscribers(p), ClusterConfig: p.Env.PID(clusterconfigName),
		Owners: p.Owners, Settings: s.Locks, Boot: s.BootID, Self: daemonOwner(s, "destruction"), Fence: s.Fence})
}

func configstoreProps(p Ports, s Settings) *actor.Props {
	return configstore.Props(configstore.Config{
		Env:         p.Env,
		Store:       p.Env.PID(storeName),
		Clients:     []*actor.PID{p.Env.PID(clusterconfigName)},
		Subscribers: configstoreSubscribers(p),
		Secrets:     s.Secrets,
		Prepared:    s.Prepared,
	})
}

// configstoreOf returns the storage of the configuration: configstore, or the replicator of a cluster.
func configstoreOf(p Ports) *actor.PID {
	if isStandalone(p) {
		return p.Env.PID(configstoreName)
	}
	return replicatorOf(p)
}

func ssconfProps(p Ports, _ Settings) *actor.Props {
	return ssconf.Props(ssconf.Config{
		Env:         p.Env,
		Store:       p.Env.PID(storeName),
		ConfigStore: p.Env.PID(configstoreName),
		Release:     config.SoftwareVersion,
	})
}

func distributorProps(p Ports, s Settings) *actor.Props {
	return distributor.Props(distributor.Config{
		Env:      p.Env,
		Daemons:  p.Daemons,
		Clients:  []*actor.PID{p.Env.PID(clusterconfigName)},
		Software: config.SoftwareVersion,
		Self:     s.Node,
	})
}

// hasCopies reports whether the queue is sent to master candidates.
func hasCopies(p Ports) bool { return p.Copies != nil && hasQueue(p) }

// queuecopyOf returns the actor that sends the queue to master candidates, if there is one.
func queuecopyOf(p Ports) *actor.PID {
	if hasCopies(p) {
		return p.Env.PID(queuecopyName)
	}
	return nil
}

func queuecopyProps(p Ports, s Settings) *actor.Props {
	return queuecopy.Props(queuecopy.Config{
		Env:           p.Env,
		Daemons:       p.Copies,
		Self:          s.Node,
		ClusterConfig: p.Env.PID(clusterconfigName),
		Clients:       []*actor.PID{p.Env.PID(jobsName), p.Env.PID(luxiName)},
		Acknowledge:   s.Acknowledge,
	})
}

func configcheckProps(p Ports, _ Settings) *actor.Props {
	return configcheck.Props(configcheck.Config{Env: p.Env, ClusterConfig: p.Env.PID(clusterconfigName)})
}

// hasDaemons reports whether node daemons get the configuration.
func hasDaemons(p Ports) bool { return p.Daemons != nil }

// asksDaemons reports whether queries ask node daemons.
func asksDaemons(p Ports) bool { return p.Inquiries != nil && hasQueue(p) }

// inquirerOf returns the actor that asks node daemons, if there is one.
func inquirerOf(p Ports) *actor.PID {
	if asksDaemons(p) {
		return p.Env.PID(inquirerName)
	}
	return nil
}

func inquirerProps(p Ports, _ Settings) *actor.Props {
	return inquirer.Props(inquirer.Config{
		Env:     p.Env,
		Daemons: p.Inquiries,
		Places:  noded.ParallelMax,
		Clients: []*actor.PID{p.Env.PID(luxiName)},
	})
}

// distributorOf returns the distributor; nil: there is none.
func distributorOf(p Ports) *actor.PID {
	if hasDaemons(p) {
		return p.Env.PID(distributorName)
	}
	return nil
}

// writesSsconf reports whether this tree has the writer of the ssconf files: on a single node, if no node daemon writes them.
func writesSsconf(p Ports) bool { return isStandalone(p) && !hasDaemons(p) }

// ssconfOf returns the actor that writes the ssconf files, if there is one.
func ssconfOf(p Ports) *actor.PID {
	if writesSsconf(p) {
		return p.Env.PID(ssconfName)
	}
	return nil
}

func clusterconfigProps(p Ports, s Settings) *actor.Props {
	return clusterconfig.Props(clusterconfig.Config{
		Env:         p.Env,
		Store:       storeOf(p),
		ConfigStore: configstoreOf(p),
		Distributor: distributorOf(p),
		Locks:       p.Env.PID(locksName),
		Subscribers: clusterconfigSubscribers(p),
		Owners:      p.Callers,
		Random:      s.Random,
		Unlocked:    p.OnUnlocked,
		Destruction: daemonOwner(s, "destruction"),
	})
}

// clusterconfigSubscribers are the actors that get each configuration.
func clusterconfigSubscribers(p Ports) []*actor.PID {
	pids := withEvents(p, filtersName, schedulerName, queueName, configcheckName)
	if hasCopies(p) {
		pids = append(pids, queuecopyOf(p))
	}
	return pids
}

func filtersProps(p Ports, s Settings) *actor.Props {
	return filters.Props(filters.Config{
		Env:           p.Env,
		Queue:         p.Env.PID(queueName),
		ClusterConfig: p.Env.PID(clusterconfigName),
		Catalogue:     s.Catalogue,
		Daemon:        s.Daemon,
	})
}

func wconfdProps(p Ports, s Settings) *actor.Props {
	return wconfd.Props(wconfd.Config{
		Env:           p.Env,
		Locks:         p.Env.PID(locksName),
		ClusterConfig: p.Env.PID(clusterconfigName),
		Leads:         leadershipCheck(p),
		Policy:        s.Access,
	})
}

func schedulerProps(p Ports, s Settings) *actor.Props {
	return scheduler.Props(scheduler.Config{
		Env:            p.Env,
		Store:          storeOf(p),
		Queue:          p.Env.PID(queueName),
		Locks:          p.Env.PID(locksName),
		ClusterConfig:  p.Env.PID(clusterconfigName),
		Catalogue:      s.Catalogue,
		GanetiJobs:     s.GanetiJobs,
		StartUnblocked: s.StartUnblocked,
		Decided:        p.OnDecision,
	})
}

func jobsProps(p Ports, s Settings) *actor.Props {
	return jobs.Props(jobs.Config{Env: p.Env, Store: storeOf(p), Queue: p.Env.PID(queueName),
		Scheduler: p.Env.PID(schedulerName), Processes: p.Processes, Accounts: p.Accounts, MaxStarts: s.MaxStarts, RetryLimit: s.Patience,
		Leads: leadershipCheck(p), Replicator: replicatorOf(p), Fence: s.Fence, QueueCopy: queuecopyOf(p), GanetiLog: s.GanetiJobs})
}

func queueProps(p Ports, s Settings) *actor.Props {
	return queue.Props(queue.Config{
		Env:           p.Env,
		Store:         storeOf(p),
		Scheduler:     p.Env.PID(schedulerName),
		Jobs:          p.Env.PID(jobsName),
		Locks:         p.Env.PID(locksName),
		ClusterConfig: p.Env.PID(clusterconfigName),
		Filters:       p.Env.PID(filtersName),
		Catalogue:     s.Catalogue,
		Gateways:      append(subscribers(p, luxiName), p.Env.PID(calendarName)),
		Livelock:      s.Livelock,
		Daemon:        s.Daemon,
		Limits:        s.Limits,
		ArchiveAfter:  s.About.ArchiveAfter,
		Shared:        !isStandalone(p),
		GanetiJobs:    s.GanetiJobs,
		RunAs:         s.RunAs,
	})
}

func luxiProps(p Ports, s Settings) *actor.Props {
	return luxi.Props(luxi.Config{
		Env:           p.Env,
		Policy:        s.Access,
		Queue:         p.Env.PID(queueName),
		Jobs:          p.Env.PID(jobsName),
		Store:         storeOf(p),
		Locks:         p.Env.PID(locksName),
		Events:        eventsOf(p),
		Scheduler:     p.Env.PID(schedulerName),
		Filters:       p.Env.PID(filtersName),
		ClusterConfig: p.Env.PID(clusterconfigName),
		Catalogue:     s.Catalogue,
		NewUUID:       s.NewUUID,
		About:         s.About,
		OpcodeFiles:   p.Opcodes,
		UsedFiles:     p.Used,
		Leads:         leadershipCheck(p),
		Replicator:    replicatorOf(p),
		Distributor:   distributorOf(p),
		Inquirer:      inquirerOf(p),
		QueueCopy:     queuecopyOf(p),
		AwaitCopies:   s.Acknowledge != corecopy.Local,
		ConfdKey:      confdkeyOf(p),
		Sessions:      sessionsOf(p),
		Grants:        grantsOf(p),
		GrantsUnknown: keepsGrants(p),
		Features:      featuresOf(p),
		Calendar:      p.Env.PID(calendarName),
		Audit:         p.Env.PID(auditName),
	})
}

// hasFeed reports whether this node has a queue and a port that publishes its events to clients of the remote API.
func hasFeed(p Ports) bool { return p.Events != nil && hasQueue(p) }

// eventsOf returns the actor that publishes events; nil: none does.
func eventsOf(p Ports) *actor.PID {
	if !hasFeed(p) {
		return nil
	}
	return p.Env.PID(eventsName)
}

// subscribers returns the actors with these names, and the events actor and the monitor if there are any.
func subscribers(p Ports, names ...string) []*actor.PID {
	pids := withEvents(p, names...)
	if hasMonitor(p) {
		pids = append(pids, monitorOf(p))
	}
	return pids
}

// withEvents returns the actors with these names, and the events actor if there is one.
func withEvents(p Ports, names ...string) []*actor.PID {
	if hasFeed(p) {
		names = append(names, eventsName)
	}
	return present(p, names...)
}

func eventsProps(p Ports, _ Settings) *actor.Props {
	return events.Props(events.Config{Env: p.Env, Queue: p.Env.PID(queueName), ClusterConfig: p.Env.PID(clusterconfigName), Feed: p.Events})
}

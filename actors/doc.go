// Package actors holds the actors of lockstep, one thin one per folder. Package core
// takes their decisions.
//
//	who        owns                                    is asked by            tells
//	store      the files below the data directory      queue, job actors,     nobody but who asked
//	                                                   connections
//	locks      who holds and wants which lock, and     wconf, connections,    who waits: what it has got;
//	           the files that say so                   cluster                scheduler: who has what
//	cluster    config.data and settings.json           wconf, connections,    locks, filters, scheduler,
//	                                                   filters                queue: what has changed
//	filters    the verdict of the rules on every job   queue, connections     queue: changed verdicts
//	scheduler  who may run, the run slots, who waits   queue, job actors,     queue: whom it picks, who is
//	           for whose end                           connections            doomed; locks: who is paused
//	jobs       which jobs are with a process           queue, connections     queue: ended, returned
//	job-<id>   one process, and its job's file when    jobs, its process      queue: progress
//	           no process may write it
//	queue      the serial, the index of all live jobs  connections,           scheduler, filters, jobs,
//	                                                   scheduler, jobs        locks, subscribers
//	luxi       the connections, one actor each         clients                its client
//	wconf      the connections, one actor each         job processes,         its client
//	                                                   Ganeti's programs
//	events     what it was told last of rules, and     nobody                 the feed: what has changed
//	           since when who waits for locks                                 of jobs, rules and locks
//
// On a node of a cluster, below them and all the time:
//
//	store      as above                                replicator             the replicator
//	replicator the way to the consensus log, what was  all of the above, as   master: when to start them
//	           committed and is not on the disk yet    their store; other     and when to stop
//	                                                   nodes
//	reception  the connections, while another node is  clients                its client
//	           the master
//
// rapi is no actor but an edge: an HTTP server that is a client of luxi, and the
// feed of events.
//
// Import arrow: messages <- core <- actors <- supervisor <- {cmd, sim}. kit is
// the only package that touches protoactor's spawning.
package actors

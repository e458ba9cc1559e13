// Package actors has the actors of lockstep, one thin actor in each folder. The packages
// below core make their decisions. Actors that own the configuration in one of its forms are
// below config: in force, on the disk, as ssconf files, as findings, on other nodes, for
// queries.
//
//	actor      owns                                    takes requests from      sends
//	store      all files below the data directory      queue, job actors,       answers only
//	                                                   configuration, locks,
//	                                                   connections             and queuecopy: each change
//	locks      holders and waiting requests of locks,  WConfD and LUXI          waiting owners: their grants;
//	           their files                             connections,             scheduler, events: records
//	                                                   configuration            of owners
//	configstore config.data, tempres.data, their        configuration, or in a   clients: its start; ssconf,
//	           journal and the history, on each node   cluster the replicator   confd: each configuration
//	clusterconfig the configuration in force, the       connections, filters,    configstore: records; locks: calls;
//	           reservations, and settings.json         scheduler, events        filters, scheduler, queue, events,
//	                                                                            distributor: each change
//	ssconf     the ssconf files of its node            none                     answers nothing; to configstore
//	                                                                            the question for its state
//	distributor what each node has acknowledged of     configuration, LUXI      node daemons
//	           the configuration                       connections
//	inquirer   questions to node daemons without       connections              node daemons; answers
//	           answer
//	queuecopy  what each master candidate may lack     store, job actors, LUXI   node daemons; job actors and
//	           of the queue                            connections               connections: its start
//	confdkey   the keys of queries about the           connections             answers only
//	           configuration
//	sessions   the sessions of the console, its login  connections             answers only
//	           links
//	grants     the roles granted to users and groups   connections             luxi: the grants
//	features   what the versions of the members of a   connections             replicator: questions for the
//	           cluster know                                                    members
//	audit      the files of the audit log              connections             answers; connections: its start
//	confd      the snapshot that queries are answered  none                    the server of queries: each
//	           from                                                            configuration
//	configcheck the findings about the configuration    configuration            answers nothing; to clusterconfig the
//	                                                                            question for its state
//	calendar   the schedules, each in a file; their     connections, grants     queue: firings and kills of
//	           due times                                                       jobs, questions for jobs; events:
//	                                                                            what has happened to schedules
//	filters    the verdict on each unfinished job      queue, connections       queue: changed verdicts
//	scheduler  order of eligible jobs, run slots,      queue, job actors,       queue: picked and unrunnable
//	           dependencies                            connections              jobs; locks: paused jobs
//	jobs       the list of active jobs, the number of  queue, connections       queue: ended and returned jobs
//	           starts in flight
//	job-<id>   one job process, and the job's file     jobs, its job process    queue: progress
//	           while no process may write it
//	queue      the serial, the index of live jobs      connections, scheduler,  scheduler, filters, jobs,
//	                                                   jobs                     locks, subscribers
//	luxi       one actor per connection                clients                  its client
//	wconfd     one actor per connection                job processes,           its client
//	                                                   Ganeti's programs
//	events     the last known filter rules; since      none                     the feed: changes of jobs,
//	           when owners wait for locks                                       rules, locks and schedules
//	monitor    what each collector of MonD reports     none                     the board: each new snapshot; its
//	                                                                            questions for the states of all others
//
// A node of a cluster has these actors in addition. They live below the actors above, and
// as long as the daemon:
//
//	store       as above                               replicator, configstore  answers only
//	configstore as above                               replicator               answers; to confd each change
//	confd       as above                               none                     as above
//	replicator  the way to the consensus log, and      all of the above, for    configstore: committed records;
//	            committed entries that are not on      which it is the store    master: its start and stop
//	            this node's disk yet                   and configstore; other
//	                                                   nodes
//	standby     the connections while another node is  clients                  its client
//	            the master
//
// An actor has one name: that of its folder is also that of its package, its struct, its place in the tree, its kind in logs and
// metrics, and the field of Config that has its PID (docs/actors_test.go). Five packages of core have the name of the actor that
// they decide for: audit, confd, monitor, queuecopy and ssconf. The actor imports them under a second name, such as coreconfd, because in
// one file a name cannot be both an import and a struct. rapi is not an actor but an edge: an HTTP server that is a client of luxi
// and of the feed.
//
// cmd and sim import supervisor, which imports actors, which import core and messages. Package
// kit is the only one that uses protoactor's spawning.
package actors

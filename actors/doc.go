// Package actors holds the actors of lockstep, one thin one per folder, and in
// core all decisions that they take.
//
//	who        owns                                    is asked by            tells
//	store      the files below the data directory      queue, job actors,     nobody but who asked
//	                                                   connections
//	scheduler  who may run, the run slots              queue                  queue: whom it picks
//	jobs       which jobs are with a process           queue, connections     queue: ended, returned
//	job-<id>   one process, and its job's file when    jobs, its process      queue: progress
//	           no process may write it
//	queue      the serial, the index of all live jobs  connections,           scheduler, jobs, watchers
//	                                                   scheduler, jobs
//	luxi       the connections, one actor each         clients                its client
//
// Import arrow: messages <- core <- actors <- supervisor <- {cmd, sim}. act is
// the only package that touches protoactor's spawning.
package actors

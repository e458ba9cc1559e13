// Package sim runs the daemon's actor tree, unchanged, in a simulated world:
// a node, or a cluster of several, with a virtual clock, an in-memory disk, simulated job processes and
// client connections. Everything that happens is one step, chosen by a seed; the
// same seed gives the same run, on any machine. It is driven by text scenarios
// (testdata/*.txt), by sweeps over seeds with random work and faults, and by
// lockstep-sim.
//
// # How it goes
//
// Each actor has a mailbox that only queues. A World steps: the seed chooses one of the
// runnables (a mailbox delivers one message, a process or a connection does one thing).
// If none is runnable, the time moves to the next timer. Production code runs on the
// caller's goroutine. The simulator starts no other one, does not read the real time and
// does not depend on the order of a map.
//
// # What is simulated
//
//   - Time and the choice of steps (package kernel): a heap of timers, ties by age.
//   - The disk (package simdisk), as store.Files: a directory's changes are volatile until it is
//     synced, power loss keeps a prefix of them that the seed chooses, any call can
//     fail by the label of its step, it is full for a while, for all steps or one, and a
//     process that ends during a write leaves a temporary file now and then. It passes persistencetest.
//   - Job processes, as jobs.Processes: both sides of the start handshake frame by frame, the livelock, the marker by which
//     orphans are found, and commands by script. All else is decided by core/jobproc, as in lockstep-job: what is written
//     to the job file and when, the calls to the daemon, what is repeated, and the end of commands and of leases. Job
//     processes outlive the daemon. They can die or hang at each stage. In some runs commands have control groups, and a guard runs.
//   - The output of commands on its way to readers: pipes, the daemon's socket where readers and processes meet, and readers who stall,
//     vanish or come again. A process keeps output by core/outflow, as lockstep-job does, within much smaller limits.
//   - Several nodes: package consensus has the log between them, clusternode.go what a node
//     of a cluster does in addition; docs/simulation.md says more.
//   - The accounts of clients, as the socket reports them, the statements of nodes about their version, and the tunnels through which
//     they pass requests of their clients on to the master.
//   - Clients, as conn.Conn: real frames, one request at a time, a client's
//     patience, lost connections, and clients that hang up and send again. Their
//     answers are kept and compared with the disk.
//   - The end of the daemon at any step (its actor system is dropped), of the
//     machine (its processes too, and what was not synced), panics in any actor
//     before or after it has handled a message, orderly stops, in a cluster with the
//     hand-over, and the start of the next daemon as lockstepd does it.
//
// # What is not
//
//   - Data races: a step is atomic. The race detector over real goroutines is for
//     them. So is what happens within one call: a crash falls between two calls. That
//     stale temporary files are removed is persistence's own test.
//   - Real files, pipes, signals and sockets: they have tests of their own; the
//     simulated disk shares a conformance suite with the real one.
//   - Slow disks: a call takes no time. Timers fire only when nothing else can
//     happen, except under the fault "stall", which lets them overtake.
//   - The bytes of a connection for output: a frame arrives whole, and the rest at the end of a job all at once. How the command line
//     puts a stream and the log together is the command line's own test. Readers on other nodes, and --keep-output.
//   - The closing of idle connections, limits on frames, and how a node's certificate
//     is made: a joining node is a member as soon as the master says so.
//
// # How to repeat a run
//
// A run has Faults and Requests. Both can be written down: a Recipe. A Repro is a seed
// with its settings and, if wanted, a recipe. With the full recipe of the seed it is
// the same run. Minimize looks for a smaller recipe that still fails.
//
// # Checkers
//
// Each check_*.go states one invariant. All checkers watch all runs, under faults too.
// For each a test runs a Mutation, a fault built in on purpose, that the checker must find.
//
// # Why one package
//
// Checkers, clients, faults and processes know the World from inside. In a folder of their own the checkers would need 218
// names of the rest exported and export 135, the clients 162 and 158, the processes 70 and 41, the faults 64 and 31. The
// mutations need one name and export one more, so that a folder hides nothing. What needs little of the rest has a folder:
// kernel, simdisk, consensus, study.
package sim

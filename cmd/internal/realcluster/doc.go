// Package realcluster runs an operator's day on a real Ganeti cluster, with Ganeti's own daemons and with lockstep in their
// place: `make conformance-cluster`. It has only tests.
//
// The cluster is in namespaces of this machine (package machine), with the fake hypervisor and Debian's packages. It has two nodes,
// because instances move; the second one cannot become master. The days are text scripts in testdata. The expected texts
// are what Ganeti's own daemons give, so the same scripts run on both:
//
//	before  by Ganeti's daemons, what is there at the swap
//	day     the operator's day
//	own     what only lockstep has, and daemons of Ganeti beside it
//	fork    the fork server with Ganeti's program, unless FORKSERVER is off
//	kills   kill -9 of daemons and job processes, with lockstep only
//	rapi    lockstep in the place of ganeti-rapi too
//	after   by Ganeti's daemons, which go on from what is on the disk
//	live    commands and requests that ask for what nodes know, without expected texts
//
//	TestSwap       before, swap, day, own, fork, kills, swap --rapi, rapi, back, after
//	TestLive       what stock programs ask, of Ganeti's daemons and after the swap of lockstep's, in three states of the other node
//	TestQA         Ganeti's own QA of jobs and filter rules, with lockstep
//	TestReference  before, day, after on Ganeti's daemons, if REFERENCE is set. With -rewrite it writes the expected texts; with
//	               RECORD=FILE it records all requests and answers of the day
//	TestThree      lockstep on three nodes that can all become master (`make conformance-cluster NODES=3`): copies and failovers
//	TestThreeConfd lockstep in the place of ganeti-confd and ganeti-mond on a master, a candidate and a regular node
//	TestHold       puts up the cluster and leaves it for work by hand, if HOLD is set; the one of TestThree if HOLD is 3
//	TestMeasure    jobs in turns on Ganeti's daemons and on lockstep, if MEASURE has the number of rounds
package realcluster

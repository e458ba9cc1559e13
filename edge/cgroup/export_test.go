package cgroup

// What the tests of package cgroup_test look at.
var (
	Processes     = processes
	KillFrozen    = killFrozen
	MoveProcesses = moveProcesses
)

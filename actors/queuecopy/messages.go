package queuecopy

import corecopy "lockstep/core/queuecopy"

// Started tells the clients of the actor that a new incarnation works, which knows nothing of earlier ones. The jobs actor answers with
// ProcessBegan for each process of Ganeti that runs. A client asks its open questions again.
type Started struct{ Incarnation uint64 }

// ProcessBegan says that from now on a process of Ganeti sends the file of a job. It is sent before the process may act.
type ProcessBegan struct{ ID int64 }

// ProcessEnded says that the process of a job is gone and the job's file is final on this disk.
type ProcessEnded struct{ ID int64 }

// Await asks for AwaitResult when the candidates of Config.Acknowledge have the present states of units. A repetition of an open question
// changes nothing.
type Await struct {
	Request uint64
	Units   []corecopy.Unit
}

// AwaitResult answers Await. Late: a majority is wanted, and there is none yet; corecopy.AwaitMax has passed.
type AwaitResult struct {
	Request uint64
	Late    bool
}

// GetRequest is the number of the request.
func (r *AwaitResult) GetRequest() uint64 { return r.Request }

// GetNodes asks what each master candidate still lacks of the queue.
type GetNodes struct{ Request uint64 }

// GetNodesResult says what each candidate lacks, by uuid.
type GetNodesResult struct {
	Request uint64
	Nodes   []corecopy.NodeState
}

// GetRequest is the number of the request.
func (r *GetNodesResult) GetRequest() uint64 { return r.Request }

// callEnded is the end of a call.
type callEnded struct {
	incarnation uint64
	call        corecopy.Call
	result      corecopy.Result
}

// wake is the timer message at the time at which core/queuecopy decides again.
type wake struct{ incarnation uint64 }

package replicator

import (
	"bytes"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/core/replication"
	"lockstep/messages"
)

// observations are the contents that job processes have written to their files on this
// node, on their way into the log, by job id. At most one entry about a job is on its
// way; the latest content makes the next one.
type observations map[int64]*observation

// observation is of one running job.
type observation struct {
	// fingerprint is replication.Fingerprint of the content that was accepted last.
	fingerprint string
	inFlight    bool   // an entry is on its way
	sent        []byte // content of that entry; nil if none is on its way
	next        []byte // content of the next entry; nil if there is none
	// waitingInFlight wait for the entry on its way, waiting for the next one.
	waitingInFlight []requester
	waiting         []requester
}

// logView is what the log and the proposals say of a job when its file is observed.
type logView struct {
	proposals int    // proposals about the file that are on their way
	progress  int    // of the job, see replication.Progress
	content   []byte // of the file; nil if it is not known
}

// reaction says what an observed content leads to.
type reaction uint8

const (
	ignored   reaction = iota // or the answer waits for the entry on its way
	inLog                     // the log has the content: the requester is answered at once
	hasChange                 // the content is the next entry
)

// observe takes an observed content. A request with number 0 is a report that is not
// answered: it is ignored if it is older than the log, or only adds log lines, which are
// not worth an entry (designs.md "Queue structure").
func (s observations) observe(id int64, encoded []byte, from requester, v logView) reaction {
	o := s[id]
	if o == nil {
		o = &observation{}
		s[id] = o
	}
	j, err := job.Decode(encoded)
	if err != nil {
		return ignored // it is only a report, and the file is read at the end of the job
	}
	daemonWrites := o.daemonWrites(v)
	if isReport := from.request == 0; isReport {
		if daemonWrites || replication.Progress(j) < v.progress {
			return ignored
		}
	} else if o.next == nil && !daemonWrites {
		switch {
		case o.inFlight && bytes.Equal(o.sent, encoded):
			o.waitingInFlight = append(o.waitingInFlight, from)
			return ignored
		case !o.inFlight && bytes.Equal(v.content, encoded):
			return inLog
		}
	}
	fingerprint := replication.Fingerprint(j)
	if from.request != 0 {
		o.waiting = append(o.waiting, from)
	} else if fingerprint == o.fingerprint {
		return ignored
	}
	o.fingerprint, o.next = fingerprint, encoded
	return hasChange
}

// daemonWrites reports whether a change of the file by the daemon is on its way. What
// the process has written is older.
func (o *observation) daemonWrites(v logView) bool {
	others := v.proposals
	if o.inFlight {
		others--
	}
	return others > 0
}

// take returns the content to propose next; nil if there is none, or an entry is on its way.
func (o *observation) take() []byte {
	if o.inFlight || o.next == nil {
		return nil
	}
	o.inFlight, o.waitingInFlight, o.waiting = true, o.waiting, nil
	o.sent, o.next = o.next, nil
	return o.sent
}

// proposed notes that the entry on its way is on the disk. It returns who waits for it.
func (s observations) proposed(id int64, o *observation, running bool) []requester {
	answered := o.waitingInFlight
	o.inFlight, o.sent, o.waitingInFlight = false, nil, nil
	if o.next == nil && len(answered) > 0 && !running {
		delete(s, id) // that was its last content
	}
	return answered
}

// supersede drops contents that have not been proposed, of jobs whose files the daemon
// writes now: their processes do not write any longer.
func (s observations) supersede(m *messages.WriteFiles) {
	for _, f := range m.Files {
		id, ok := replication.JobIDOf(f.Path)
		if o := s[id]; ok && o != nil && len(o.waiting) == 0 {
			if o.next = nil; !o.inFlight {
				delete(s, id)
			}
		}
	}
}

// forgetEnded drops jobs that have ended without a last content of their process. To
// keep the cost of a batch low, it does so only when there are 16 more than running jobs.
func (s observations) forgetEnded(running replication.RunningJobs) {
	if len(s) <= len(running)+16 {
		return
	}
	for id, o := range s {
		if _, runs := running[id]; !runs && !o.inFlight && len(o.waiting) == 0 {
			delete(s, id)
		}
	}
}

// replicateJobFile proposes what a job process has written. A requester is answered when a majority has it. A node that is not the master
// does nothing.
func (r *replicator) replicateJobFile(ctx actor.Context, m *messages.ReplicateJobFile) {
	if !r.mastership.master {
		return
	}
	result := ignored
	if r.replica.isRunning(m.Id) {
		result = r.observations.observe(m.Id, m.Encoded, requester{ctx.Sender(), m.Request}, logView{
			proposals: r.proposals.touched[paths.JobPath(m.Id)],
			progress:  r.replica.running[m.Id].Progress,
			content:   r.replica.contents[m.Id],
		})
	} else if m.Request != 0 { // the job has ended
		result = inLog
	}
	switch result {
	case inLog:
		ctx.Respond(&messages.ReplicateJobFileResult{Request: m.Request})
	case hasChange:
		r.proposeJobFile(m.Id, r.observations[m.Id])
	}
}

func (r *replicator) proposeJobFile(id int64, o *observation) {
	content := o.take()
	if content == nil {
		return
	}
	change := replication.ObservedChange(paths.JobPath(id), content)
	r.propose([]*messages.FileChange{change}, func(ctx actor.Context, _ *messages.ChangeFilesResult) {
		for _, a := range r.observations.proposed(id, o, r.replica.isRunning(id)) {
			ctx.Send(a.pid, &messages.ReplicateJobFileResult{Request: a.request})
		}
		r.proposeJobFile(id, o)
	})
}

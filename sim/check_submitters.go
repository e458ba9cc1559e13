package sim

import (
	"encoding/json"
	"fmt"
	"strings"

	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/sim/simdisk"
)

// checkSubmitters: a job belongs to the account whose client has submitted it, whatever the client says of itself, or to the account in
// whose name an administrator has. The record says so from the acknowledgement on, on the disk of each node, and the commands run as that
// account. The reason trail names the account of the client. A client gets the ids of its own jobs only: the name that it gives a
// submission may be that of another user's.
type checkSubmitters struct {
	sent    map[string]*submission // by tag of the job
	garbled map[int64]bool
}

func (*checkSubmitters) Name() string { return "submitters" }

func (c *checkSubmitters) See(w *World, event any) error {
	if w.users == nil {
		return nil
	}
	if c.sent == nil {
		c.sent, c.garbled = map[string]*submission{}, map[int64]bool{}
	}
	switch e := event.(type) {
	case submissionSent:
		for i := range e.submission.jobs {
			c.sent[e.submission.tag(i)] = e.submission
		}
	case submissionAnswered:
		return c.acknowledged(w, e.submission)
	case opcodeStarted:
		return c.runs(e)
	case garbled:
		c.garbled[e.id] = true
	case powerLost, daemonStarted:
		return c.onDisk(w.disk, "what is promised")
	case finished:
		for _, n := range w.nodes {
			if err := c.onDisk(n.disk, "node "+n.name); err != nil {
				return err
			}
		}
		return c.onDisk(w.disk, "what is promised")
	}
	return nil
}

func (c *checkSubmitters) acknowledged(w *World, s *submission) error {
	if s.err != nil && strings.Contains(s.err.Error(), "came before, with other jobs") {
		return fmt.Errorf("%s has heard of a submission of another user: %w", s.client.rpc.account.name, s.err)
	}
	for i, id := range s.ids {
		j := w.Job(id)
		if c.garbled[id] || j == nil {
			continue
		}
		if tag := tagOfJob(j); tag != s.tag(i) {
			return fmt.Errorf("client %d was told that job %d is its own: it is that of %s", s.client.number, id, tag)
		}
		content, _ := w.disk.Surviving(paths.RecordPath(id))
		if j.Status().Final() && content == nil {
			content, _ = w.disk.Surviving(paths.ArchivedRecordPath(id))
		}
		if err := requireSubmitter(id, content, s); err != nil {
			return fmt.Errorf("after a power loss: %w", err)
		}
		if err := requireTrail(id, j, s.client.rpc.account); err != nil {
			return err
		}
	}
	return nil
}

// onDisk checks all jobs whose files are on a disk.
func (c *checkSubmitters) onDisk(disk *simdisk.Disk, where string) error {
	serial := serialOn(disk)
	for _, dir := range []string{paths.QueueDir, paths.ArchiveDir} {
		for _, base := range disk.Names(dir) {
			id, is := paths.ParseJobName(base)
			if !is || c.garbled[id] || id > serial {
				continue // above the serial it is of a submission that was cut off
			}
			s := c.sent[jobIn(disk.Find(dir+"/"+base)).tag]
			record := disk.Find(recordBeside(dir, id))
			if s == nil {
				continue
			}
			var content []byte
			if record != nil {
				content = record.Data
			}
			if err := requireSubmitter(id, content, s); err != nil {
				return fmt.Errorf("%s: %w", where, err)
			}
		}
	}
	return nil
}

func recordBeside(dir string, id int64) string {
	if dir == paths.ArchiveDir {
		return paths.ArchivedRecordPath(id)
	}
	return paths.RecordPath(id)
}

func requireSubmitter(id int64, record []byte, s *submission) error {
	if is, want := submitterIn(record), s.account().submitter(); is != want {
		return fmt.Errorf("job %d was submitted for %q, and its record says %q", id, want, is)
	}
	return nil
}

// requireTrail checks that the reason trail of each opcode names the account once, and no other.
func requireTrail(id int64, j *job.Job, by *account) error {
	for i := range j.Ops {
		var op struct{ Reason [][]any }
		if err := json.Unmarshal(j.Ops[i].Input, &op); err != nil {
			return fmt.Errorf("job %d: %w", id, err)
		}
		named := 0
		for _, entry := range op.Reason {
			if entry[0] != claimSource {
				continue
			}
			named++
			if text, _ := entry[1].(string); accountOf(text) != by {
				return fmt.Errorf("job %d was submitted by %s, and its reason trail names %q", id, by.name, text)
			}
		}
		if named != 1 {
			return fmt.Errorf("job %d was submitted by %s, and its reason trail names %d users", id, by.name, named)
		}
	}
	return nil
}

// runs checks as whom a command runs.
func (c *checkSubmitters) runs(e opcodeStarted) error {
	s := c.sent[e.tag]
	p := e.node.machine.ofJob(e.job)
	if s == nil || p == nil || c.garbled[e.job] || e.op >= len(p.launchSpecs) || job.OpID(e.input) != "OP_RUN_COMMAND" {
		return nil
	}
	as := daemonAccount.uid
	if account := p.launchSpecs[e.op].Account; account != nil {
		as = account.UID
	}
	if want := s.account(); as != want.uid {
		return fmt.Errorf("job %d belongs to %s, and its command runs with the uid %d", e.job, want.name, as)
	}
	return nil
}

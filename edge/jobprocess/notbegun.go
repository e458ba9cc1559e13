package jobprocess

import (
	"os"
	"path/filepath"

	"github.com/sirupsen/logrus"

	"lockstep/actors/jobs"
	"lockstep/edge/reaper"
	"lockstep/messages"
	"lockstep/persistence"
)

// neverBegan reports whether it is proven that an ended process did not begin its job.
//
// The lock file of lockstep-job says so until the process begins. Ganeti's process writes the job's file before it does
// anything else, so a job that is queued is the proof, unless a power loss may have undone that write.
func (p *Processes) neverBegan(job jobs.Job, livelock string) bool {
	if job.Program == messages.JobProgram_GANETI_JOB {
		return p.isOfThisBoot(job, livelock) && !p.takesSignals(job)
	}
	content, err := persistence.ReadOwnerInfo(livelock)
	return err == nil && reaper.ProvesNotBegun(content)
}

// takeProof is neverBegan. If the result is false, it removes the boot note of a job of Ganeti's: a note about another lock file proves
// nothing.
func (p *Processes) takeProof(job jobs.Job, livelock string) bool {
	if p.neverBegan(job, livelock) {
		return true
	}
	if job.Program == messages.JobProgram_GANETI_JOB {
		_ = os.Remove(persistence.BootNotePath(p.config.RunDir, job.ID)) // a note about another lock file proves nothing
	}
	return false
}

// noteBoot notes in which boot Ganeti's process of a job was started. It is called before the job's file names the process.
// Without the note nothing is proven.
func (p *Processes) noteBoot(job jobs.Job, livelock string) {
	if job.Program != messages.JobProgram_GANETI_JOB {
		return
	}
	note, err := bootNote(livelock)
	if err == nil {
		err = persistence.ReplaceMessage(persistence.BootNotePath(p.config.RunDir, job.ID), note, p.config.Owners)
	}
	if err != nil {
		p.config.Log.WithFields(logrus.Fields{"job": job.ID, "err": err}).
			Warn("the boot of a job process cannot be noted; if it is killed with the daemon, its job fails")
	}
}

func (p *Processes) isOfThisBoot(job jobs.Job, livelock string) bool {
	note, err := bootNote(livelock)
	if err != nil {
		return false
	}
	found, err := os.ReadFile(persistence.BootNotePath(p.config.RunDir, job.ID))
	return err == nil && string(found) == string(note)
}

// bootNote is the note for a process that has made the lock file in this boot.
func bootNote(livelock string) ([]byte, error) {
	boot, err := persistence.BootID()
	return []byte(boot + " " + filepath.Base(livelock) + "\n"), err
}

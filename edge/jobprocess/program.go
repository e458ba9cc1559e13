package jobprocess

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/jobs"
	"lockstep/core/jobproc"
	"lockstep/core/ownership"
	"lockstep/messages"
)

// Ganeti says how Ganeti's own job program is started, for a daemon in Ganeti mode.
type Ganeti struct {
	Python string // interpreter: /usr/bin/python3
	Share  string // directory of Ganeti's Python modules: /usr/share/ganeti/3.0
	Debug  bool   // the process logs more

	ForkServer bool     // processes are forked from one that has loaded the program
	Repairs    []string // of forkserver.Repairs
}

// Script is the program that Python executes.
func (g *Ganeti) Script() string { return filepath.Join(g.Share, "ganeti", "jqueue", "exec.py") }

// commandLine is the path of the program of a job's process, and its arguments.
func (p *Processes) commandLine(job jobs.Job) (program string, args []string) {
	c, id := p.config, strconv.FormatInt(job.ID, 10)
	if job.Program == messages.JobProgram_GANETI_JOB {
		return c.Ganeti.Python, []string{c.Ganeti.Python, c.Ganeti.Script(), id}
	}
	args = []string{"lockstep-job", id, c.DataDir, c.RunDir}
	if c.Ganeti != nil {
		args = append(args, strconv.Itoa(c.Owners.Of(ownership.Queue).GID))
	}
	return c.Program, args
}

// environment is the environment of a job's process.
func (p *Processes) environment(job jobs.Job) []string {
	if job.Program != messages.JobProgram_GANETI_JOB {
		env := append(slices.Clip(p.env), jobproc.StartEnvName+"="+strconv.FormatInt(job.Start, 10))
		if group := p.cgroup.ofCommands(); group != "" {
			env = append(env, jobproc.CgroupEnvName+"="+group)
		}
		return env
	}
	debug := "0"
	if p.config.Ganeti.Debug {
		debug = "1"
	}
	set := map[string]string{"GNT_DEBUG": debug, "PYTHONPATH": p.config.Ganeti.Share}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		_, replaced := set[name]
		return replaced
	})
	return append(env, "GNT_DEBUG="+debug, "PYTHONPATH="+p.config.Ganeti.Share)
}

// watchFile tells the job's actor when Ganeti's process of the job has written the job's file.
func (p *Processes) watchFile(attempt uint64, job jobs.Job, livelock string, jobActor *actor.PID) {
	if job.Program != messages.JobProgram_GANETI_JOB {
		return
	}
	p.fileWatch.add(attempt, job.ID, func() {
		p.releaseOrders(attempt)
		p.notify(jobActor, &messages.ProcessReported{Id: job.ID, Livelock: livelock})
	})
}

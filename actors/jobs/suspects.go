package jobs

import "time"

// Patience is with a job whose starts fail again and again while those of others
// succeed in between: the job is at fault then, and is failed. Where starts fail by
// chance, because the machine is at a limit, a job is started long before it has
// failed so often for so long. The zero value stands for DefaultPatience.
type Patience struct {
	Tries int           // that fail
	Time  time.Duration // from the first of them to the last
}

// DefaultPatience is with jobs that cannot be started.
func DefaultPatience() Patience { return Patience{Tries: 5, Time: 10 * time.Second} }

// suspectsMax bounds the jobs that are remembered. Beyond it all are forgotten, and
// counted from the beginning.
const suspectsMax = 1000

// suspects are the jobs whose last start has failed.
type suspects struct {
	patience  Patience
	successes uint64 // of all jobs, so far
	jobs      map[int64]suspect
}

// suspect is one of them. Invariant: between any two of tries another job was started.
type suspect struct {
	tries     int
	since     time.Time // the first of them
	successes uint64    // when the last of them failed
}

// started: the process of a job may act.
func (s *suspects) started(id int64) {
	s.successes++
	delete(s.jobs, id)
}

// failed notes that a start has failed, and returns how many have if the job is at
// fault; else 0.
func (s *suspects) failed(id int64, now time.Time) int {
	job, known := s.jobs[id]
	if !known {
		job.since = now
	}
	if !known || job.successes < s.successes {
		job.tries++
	}
	job.successes = s.successes
	if job.tries >= s.patience.Tries && now.Sub(job.since) >= s.patience.Time {
		delete(s.jobs, id)
		return job.tries
	}
	if s.jobs == nil || !known && len(s.jobs) >= suspectsMax {
		s.jobs = map[int64]suspect{}
	}
	s.jobs[id] = job
	return 0
}

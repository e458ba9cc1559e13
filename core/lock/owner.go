package lock

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	"lockstep/core/job"
	"lockstep/core/rawjson"
)

// Owner is the identity of a client that asks for locks, holds them or waits for them (locks.md 2.2). Two owners are
// equal if all parts are: a job that is started again is a different owner.
//
// Invariant: a named owner has no Job, a job has no Name. PID is in 0..2^31-1.
type Owner struct {
	Named    bool
	Name     string
	Job      job.ID
	Livelock string
	PID      int
}

// JobOwner is the owner that is the process of a job.
func JobOwner(id job.ID, livelock string, pid int) Owner {
	return Owner{Job: id, Livelock: livelock, PID: pid}
}

// NamedOwner is any owner other than a job, such as a thread of a daemon. A name of digits does not make it a job.
func NamedOwner(name, livelock string, pid int) Owner {
	return Owner{Named: true, Name: name, Livelock: livelock, PID: pid}
}

// Compare orders owners: named before jobs, then name or number, livelock, pid (locks.md 1.6).
func (o Owner) Compare(p Owner) int {
	if o.Named != p.Named {
		if o.Named {
			return -1
		}
		return 1
	}
	if c := cmp.Compare(o.Job, p.Job); c != 0 {
		return c
	}
	if c := strings.Compare(o.Name, p.Name); c != 0 {
		return c
	}
	if c := strings.Compare(o.Livelock, p.Livelock); c != 0 {
		return c
	}
	return cmp.Compare(o.PID, p.PID)
}

// IdentityJSON is the JSON text of the identity's first part, as the lock query shows it: 12 for a job, "name" with
// its quotes for any other owner.
func (o Owner) IdentityJSON() string { return string(o.appendIdentity(nil)) }

// String is the JSON text of the identity.
func (o Owner) String() string { return string(appendOwner(nil, o)) }

func (o Owner) appendIdentity(dst []byte) []byte {
	if o.Named {
		return append(dst, rawjson.Quote(o.Name)...)
	}
	return strconv.AppendInt(dst, int64(o.Job), 10)
}

func appendOwner(dst []byte, o Owner) []byte {
	dst = o.appendIdentity(append(dst, '['))
	dst = append(append(dst, ','), rawjson.Quote(o.Livelock)...)
	dst = strconv.AppendInt(append(dst, ','), int64(o.PID), 10)
	return append(dst, ']')
}

// OwnerError is the error for a JSON value that is not an identity.
type OwnerError struct{ Reason string }

func (e *OwnerError) Error() string { return "malformed client id: " + e.Reason }

// MarshalJSON writes [name or job id, livelock, pid].
func (o Owner) MarshalJSON() ([]byte, error) { return appendOwner(nil, o), nil }

// UnmarshalJSON reads [name or job id, livelock, pid]. The error is an *OwnerError.
func (o *Owner) UnmarshalJSON(data []byte) error {
	parts, err := elements(data)
	if err != nil {
		return &OwnerError{"not a list"}
	}
	if len(parts) != 3 {
		return &OwnerError{"a list of " + strconv.Itoa(len(parts)) + " in place of 3"}
	}
	var parsed Owner
	if identity := parts[0]; identity[0] == '"' {
		parsed.Named = true
		if parsed.Name, err = rawjson.ReadText(identity); err != nil {
			return &OwnerError{"the name is no string"}
		}
	} else {
		id, err := strconv.ParseInt(string(identity), 10, 64)
		if err != nil || id < 0 {
			return &OwnerError{"neither a job's number nor a name in first place"}
		}
		parsed.Job = job.ID(id)
	}
	if parsed.Livelock, err = rawjson.ReadText(parts[1]); err != nil {
		return &OwnerError{"the livelock is no string"}
	}
	pid, err := strconv.ParseInt(string(parts[2]), 10, 64)
	// A signal to a negative pid would reach a process group.
	if err != nil || pid < 0 || pid > math.MaxInt32 {
		return &OwnerError{"the pid is no number from 0 to 2147483647"}
	}
	parsed.PID = int(pid)
	*o = parsed
	return nil
}

// Package record defines the file beside a job's file. The file contains lockstep's own data about the job, because a
// job's file may have only Ganeti's keys. It is a JSON object with one key for each feature. The package reads and
// writes it, and keeps keys that this version does not know. It is pure.
package record

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	"lockstep/core/job"
)

// dependenciesKey holds the final statuses of archived jobs on which the job depends,
// by id: {"12": "success"}.
const dependenciesKey = "dependencies"

// Record is lockstep's data about a job that Ganeti's job file has no place for: the content of one such file. The zero value is that of
// a job without a file. A record is never changed: the methods With and Without return a new one.
type Record struct {
	members      map[string]json.RawMessage // all members except dependencies; the values are valid JSON
	dependencies map[string]string
}

// Decode reads a record. A dependency that this version does not understand is kept and ignored.
func Decode(data []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(data, &r.members); err != nil {
		return Record{}, fmt.Errorf("the record of a job cannot be read: %w", err)
	}
	if r.members == nil {
		return Record{}, fmt.Errorf("the record of a job is no object")
	}
	if value, there := r.members[dependenciesKey]; there {
		if err := json.Unmarshal(value, &r.dependencies); err != nil {
			return Record{}, fmt.Errorf("decode %q in the record of a job: %w", dependenciesKey, err)
		}
		delete(r.members, dependenciesKey)
	}
	return r, nil
}

// Encode is the inverse of Decode. Equal records have the same encoding.
func (r Record) Encode() []byte {
	members := maps.Clone(r.members)
	if members == nil {
		members = map[string]json.RawMessage{}
	}
	if len(r.dependencies) > 0 {
		value, err := json.Marshal(r.dependencies)
		if err != nil {
			panic(fmt.Errorf("encode the record of a job: %w", err)) // strings
		}
		members[dependenciesKey] = value
	}
	data, err := json.Marshal(members)
	if err != nil {
		panic(fmt.Errorf("encode the record of a job: %w", err)) // each was decoded
	}
	return append(data, '\n')
}

// Empty reports whether the record has no data and needs no file.
func (r Record) Empty() bool { return len(r.members) == 0 && len(r.dependencies) == 0 }

// DependencyEnd is the final status of an archived job on which this job depends; false if the record has none.
func (r Record) DependencyEnd(id int64) (job.Status, bool) {
	text, there := r.dependencies[strconv.FormatInt(id, 10)]
	status, known := job.ParseStatus(text)
	return status, there && known && status.Final()
}

// WithDependencyEnd adds the final status of a job. It panics if the status is not final.
func (r Record) WithDependencyEnd(id int64, status job.Status) Record {
	if !status.Final() {
		panic(fmt.Sprintf("record: job %d has ended with status %s", id, status))
	}
	r.dependencies = maps.Clone(r.dependencies)
	if r.dependencies == nil {
		r.dependencies = map[string]string{}
	}
	r.dependencies[strconv.FormatInt(id, 10)] = status.String()
	return r
}

// WithoutDependencyEnd returns the record without the final status of a job that this one depends on.
func (r Record) WithoutDependencyEnd(id int64) Record {
	r.dependencies = maps.Clone(r.dependencies)
	delete(r.dependencies, strconv.FormatInt(id, 10))
	return r
}

// with returns a record with another value of a member other than dependencies.
func (r Record) with(key string, value any) Record {
	data, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Errorf("encode the record of a job: %w", err)) // strings and numbers
	}
	r.members = maps.Clone(r.members)
	if r.members == nil {
		r.members = map[string]json.RawMessage{}
	}
	r.members[key] = data
	return r
}

// member reads a member of a record. known is false if it is absent, or has a value that this version does not understand.
func member[T any](r Record, key string) (value T, known bool) {
	data, there := r.members[key]
	if !there || json.Unmarshal(data, &value) != nil {
		var none T
		return none, false
	}
	return value, true
}

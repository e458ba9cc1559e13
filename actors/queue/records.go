package queue

import (
	"bytes"
	"maps"
	"slices"

	"lockstep/core/job"
	"lockstep/core/opcode"
	"lockstep/core/paths"
	"lockstep/core/record"
	"lockstep/messages"
)

// records knows which jobs depend on which, and the job record of each job.
//
// A node's archive may lack jobs that others depend on: jobs that were archived before
// the node joined the cluster, or that were removed since. So the status with which a
// job has ended is written durably into the record of each unfinished job that depends
// on it, before the job is archived.
type records struct {
	// byJob has the jobs of the index that have dependencies or a record file.
	byJob map[int64]*jobRecord
	// dependents has, by id of a job, the jobs that depend on it and are not final,
	// with the jobs that are being committed. No set is empty.
	dependents map[int64]map[int64]struct{}
}

// jobRecord is what records knows of one job.
type jobRecord struct {
	// dependencies are the ids of the jobs that the job depends on, ascending; nil after
	// the job has ended.
	dependencies []int64
	record       record.Record
	// onDisk is true if there may be a record file.
	onDisk bool
}

// end is the status with which a job has ended.
type end struct {
	id     int64
	status job.Status
}

func newRecords() *records {
	return &records{byJob: map[int64]*jobRecord{}, dependents: map[int64]map[int64]struct{}{}}
}

// dependenciesOf returns the ids of the earlier jobs that the opcodes of a job depend
// on, ascending, each once. An opcode with malformed dependencies has none: the job
// process reports that error.
func dependenciesOf(j *job.Job) []int64 {
	var ids []int64
	for i := range j.Ops {
		if !bytes.Contains(j.Ops[i].Input, []byte(`"depends"`)) {
			continue
		}
		deps, _ := opcode.Depends(j.Ops[i].Input)
		for _, d := range deps {
			if d.Job > 0 && d.Job < int64(j.ID) {
				ids = append(ids, d.Job)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// depend adds a job to the dependents of its dependencies.
func (r *records) depend(id int64, dependencies []int64) {
	for _, b := range dependencies {
		if r.dependents[b] == nil {
			r.dependents[b] = map[int64]struct{}{}
		}
		r.dependents[b][id] = struct{}{}
	}
}

// dropDependent undoes depend.
func (r *records) dropDependent(id int64, dependencies []int64) {
	for _, b := range dependencies {
		if delete(r.dependents[b], id); len(r.dependents[b]) == 0 {
			delete(r.dependents, b)
		}
	}
}

// of returns the dependents of a job, ascending.
func (r *records) of(id int64) []int64 { return slices.Sorted(maps.Keys(r.dependents[id])) }

// put sets dependencies and record of a job of the index, and makes the job a dependent of each. A record that is not empty counts as one
// with a file.
func (r *records) put(id int64, dependencies []int64, content record.Record) {
	if len(dependencies) > 0 || !content.Empty() {
		r.byJob[id] = &jobRecord{dependencies: dependencies, record: content, onDisk: !content.Empty()}
	}
	r.depend(id, dependencies)
}

// get returns the record of a job; the zero value if the job has none.
func (r *records) get(id int64) record.Record {
	if x := r.byJob[id]; x != nil {
		return x.record
	}
	return record.Record{}
}

// set replaces the record of a job of the index, which is written to the disk now.
func (r *records) set(id int64, content record.Record) {
	if r.byJob[id] == nil {
		r.byJob[id] = &jobRecord{}
	}
	r.byJob[id].record, r.byJob[id].onDisk = content, true
}

// hasFile reports whether a job may have a record file.
func (r *records) hasFile(id int64) bool { return r.byJob[id] != nil && r.byJob[id].onDisk }

// foundFile notes that a job has a record file, whatever its content.
func (r *records) foundFile(id int64) {
	if r.byJob[id] == nil {
		r.byJob[id] = &jobRecord{}
	}
	r.byJob[id].onDisk = true
}

// ended drops the dependencies of a job that has ended.
func (r *records) ended(id int64) {
	if x := r.byJob[id]; x != nil {
		r.dropDependent(id, x.dependencies)
		x.dependencies = nil
	}
}

// remove drops a job that leaves the index.
func (r *records) remove(id int64) { delete(r.byJob, id) }

// endOf returns how a job has ended that is not in the index, if a record says so. All
// records that name the job name the same status.
func (r *records) endOf(id int64) (status job.Status, known bool) {
	for waiter := range r.dependents[id] {
		if x := r.byJob[waiter]; x != nil {
			if status, known = x.record.DependencyEnd(id); known {
				return status, true
			}
		}
	}
	return 0, false
}

// hasUncommitted reports whether a job that is being committed depends on this job.
func (r *records) hasUncommitted(id int64) bool {
	for waiter := range r.dependents[id] {
		if r.byJob[waiter] == nil {
			return true
		}
	}
	return false
}

// withUnrecordedEnd returns the jobs, ascending, that are a dependency of a job whose
// record does not name their end.
func (r *records) withUnrecordedEnd() []int64 {
	var ids []int64
	for _, b := range slices.Sorted(maps.Keys(r.dependents)) {
		if slices.ContainsFunc(r.of(b), func(waiter int64) bool { return !r.knowsEnd(waiter, b) }) {
			ids = append(ids, b)
		}
	}
	return ids
}

func (r *records) knowsEnd(waiter, id int64) bool {
	x := r.byJob[waiter]
	if x == nil {
		return false
	}
	_, known := x.record.DependencyEnd(id)
	return known
}

// endsWrite is a write of ends into records.
type endsWrite struct {
	// added has, by id of a job, the jobs whose ends are new in its record.
	added map[int64][]int64
}

// addEnds adds ends to the records of all dependents in the index. The result names
// the records that must be written. A job that is being committed reads the ends itself.
func (r *records) addEnds(ends []end) endsWrite {
	w := endsWrite{added: map[int64][]int64{}}
	for _, e := range ends {
		for _, waiter := range r.of(e.id) {
			x := r.byJob[waiter]
			if x == nil || r.knowsEnd(waiter, e.id) {
				continue
			}
			x.record, x.onDisk = x.record.WithDependencyEnd(e.id, e.status), true
			w.added[waiter] = append(w.added[waiter], e.id)
		}
	}
	return w
}

// files returns the record files of a write, by ascending id of the job.
func (r *records) files(w endsWrite) []*messages.FileWrite {
	var files []*messages.FileWrite
	for _, waiter := range slices.Sorted(maps.Keys(w.added)) {
		files = append(files, recordFile("record-job", waiter, r.byJob[waiter].record))
	}
	return files
}

// undo removes from the records the ends whose write has failed. It returns, by id of
// a job whose end is not recorded everywhere, why. A file may contain such an end, but
// perhaps not durably.
func (r *records) undo(w endsWrite, failures []*messages.FileFailure) map[int64]*messages.Failure {
	failed := map[int64]*messages.Failure{}
	for _, f := range failures {
		for waiter, ids := range w.added {
			if paths.RecordPath(waiter) != f.Path {
				continue
			}
			for _, id := range ids {
				failed[id] = f.Failure
				if x := r.byJob[waiter]; x != nil {
					x.record = x.record.WithoutDependencyEnd(id)
				}
			}
		}
	}
	return failed
}

func recordFile(op string, id int64, r record.Record) *messages.FileWrite {
	return &messages.FileWrite{Op: op, Path: paths.RecordPath(id), Content: r.Encode()}
}

func moveRecord(id int64) *messages.MoveFile {
	return &messages.MoveFile{Op: "archive-record", From: paths.RecordPath(id), To: paths.ArchivedRecordPath(id)}
}

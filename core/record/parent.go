package record

// parentKey holds the id of the job whose process has submitted the job: 12.
const parentKey = "parent"

// Parent is the job whose process has submitted the job; 0 if that is not known, or no process of a job did.
func (r Record) Parent() int64 {
	id, _ := member[int64](r, parentKey)
	return max(id, 0)
}

// WithParent sets the job whose process has submitted the job. It panics unless the id is that of a job.
func (r Record) WithParent(id int64) Record {
	if id <= 0 {
		panic("record: a parent without id")
	}
	return r.with(parentKey, id)
}

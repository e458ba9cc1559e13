package jobs

import (
	"fmt"
	"strings"
)

// tree returns the jobs with those that a job has submitted below that job, otherwise in their order. A job whose parent is not among them
// has no depth.
func tree(jobs []ListedJob) []ListedJob {
	listed := map[int64]bool{}
	for _, job := range jobs {
		listed[job.ID] = true
	}
	children := map[int64][]ListedJob{} // those of 0 have no parent here
	for _, job := range jobs {
		parent := job.Parent
		if !listed[parent] || parent >= job.ID { // a job is submitted by an older one
			parent = 0
		}
		children[parent] = append(children[parent], job)
	}
	arranged := make([]ListedJob, 0, len(jobs))
	var add func(parent int64, depth int)
	add = func(parent int64, depth int) {
		for _, job := range children[parent] {
			job.depth = depth
			arranged = append(arranged, job)
			add(job.ID, depth+1)
		}
	}
	add(0, 0)
	return arranged
}

// treeDepthMax is the depth of the deepest job whose text begins further to the right than its parent's.
const treeDepthMax = 10

// treeMark begins the text of a job that is below others.
func treeMark(depth int) string {
	if depth == 0 {
		return ""
	}
	if depth > treeDepthMax {
		return strings.Repeat("  ", treeDepthMax-1) + fmt.Sprintf("└ (%d) ", depth)
	}
	return strings.Repeat("  ", depth-1) + "└ "
}

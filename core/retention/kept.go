package retention

import (
	"cmp"
	"slices"
)

// KeptOutput is the output of a job in files of the node (--keep-output).
type KeptOutput struct {
	Job   int64
	Bytes int64
	EndUs int64 // when the job ended, in microseconds since 1970; 0: it has not, or that is unknown
}

// fullTenths is the part of the bound that the output of jobs which have not ended may have, in tenths. The rest is for what they write
// until they notice: the output of a job that stops at the bound is then small enough to stay.
const fullTenths = 9

// MayExceed reports whether TrimKept can ask for anything with that sum of kept output, in bytes. If not, nobody needs to know which jobs
// have ended.
func MayExceed(sum, bound int64) bool { return sum >= bound/10*fullTenths }

// TrimKept decides what becomes of the kept output of all jobs of a node, whose sum should be at most bound bytes. remove is the jobs whose
// output goes: those that ended first, and no more than necessary. full says that nothing more may be kept, because of the jobs that have
// not ended.
func TrimKept(all []KeptOutput, bound int64) (remove []int64, full bool) {
	var sum, unended int64
	var ended []KeptOutput
	for _, k := range all {
		sum += k.Bytes
		if k.EndUs == 0 {
			unended += k.Bytes
		} else {
			ended = append(ended, k)
		}
	}
	slices.SortFunc(ended, func(a, b KeptOutput) int { return cmp.Or(cmp.Compare(a.EndUs, b.EndUs), cmp.Compare(a.Job, b.Job)) })
	for len(ended) > 0 && sum > bound {
		remove = append(remove, ended[0].Job)
		sum -= ended[0].Bytes
		ended = ended[1:]
	}
	return remove, MayExceed(unended, bound)
}

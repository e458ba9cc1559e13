package journal

// digestsMax is the number of digests that a Position keeps, to recognise repeated records.
const digestsMax = 1024

// recentMax is the number of digests that an added one copies at most.
const recentMax = 32

// digests are the digests of the last records, the last one last. They are immutable: an added digest copies the recent ones only, and
// once in recentMax times all.
type digests struct {
	older, recent []Digest
}

func digestsOf(all []Digest) digests { return digests{older: all[max(0, len(all)-digestsMax):]} }

// all returns the digests that count, in a slice of their own.
func (d digests) all() []Digest {
	all := make([]Digest, 0, d.len())
	skipped := len(d.older) + len(d.recent) - d.len()
	return append(append(all, d.older[skipped:]...), d.recent...)
}

func (d digests) len() int { return min(digestsMax, len(d.older)+len(d.recent)) }

// last returns the digest with an age; 0 is that of the last record. age is below len.
func (d digests) last(age int) Digest {
	if age < len(d.recent) {
		return d.recent[len(d.recent)-1-age]
	}
	return d.older[len(d.older)-1-(age-len(d.recent))]
}

// with returns the list of digests with one more at its end. d stays as it is.
func (d digests) with(last Digest) digests {
	if len(d.recent) == recentMax {
		d = digests{older: d.all()}
	}
	recent := make([]Digest, len(d.recent)+1)
	copy(recent, d.recent)
	recent[len(d.recent)] = last
	return digests{d.older, recent}
}

package filter

import "lockstep/core/query"

// Evaluation is Set.Evaluate for one job, some work at a time: a job may have megabytes of texts, and each pattern of each rule reads them.
// Work is counted as in query.Search, in steps of about 20 ns. The longest piece that is not interrupted compares one value, of at most
// opcode.SizeMax, which takes some milliseconds.
type Evaluation struct {
	set  *Set
	job  *Subject
	work int // what is left

	rule, predicate int // index in set.active, and in its predicates
	op, entry       int // opcode of the job, and entry in its reason trail, of this predicate
	// at is the next leaf of the predicate's expression if it was interrupted there.
	at      query.Step
	resumes bool
	search  *query.Search // of the leaf at; nil: none was interrupted

	declare     Declare
	locks       []Lock // of the job's next opcode
	isDeclared  bool   // locks are known
	name, names int    // index in the names of a lock, and their number, of the leaf at
}

const (
	// leafWork is the work of one test, without that of a pattern.
	leafWork = 4
	// bytesPerStep is how many bytes of a value are found and compared in the time of one step.
	bytesPerStep = 20
	// declareWork is the work of computing the declaration of an opcode, without that of its locks.
	declareWork = 200
)

// Begin begins the evaluation of a job. declare is called at most once, and only if a rule is about locks; nil: no locks are known.
func (s *Set) Begin(j *Subject, declare Declare) Evaluation {
	return Evaluation{set: s, job: j, declare: declare}
}

// Continue goes on until the verdict is known (done), or work is used up. It subtracts what it has used. With any work it makes progress.
func (e *Evaluation) Continue(work *int) (v Verdict, done bool) {
	e.work = *work
	v, done = e.run()
	*work = e.work
	return v, done
}

func (e *Evaluation) run() (v Verdict, done bool) {
	for ; e.rule < len(e.set.active); e.rule, e.predicate = e.rule+1, 0 {
		c := &e.set.active[e.rule]
		rule := &e.set.rules[c.rule]
		result := passed
		for result == passed && e.predicate < len(c.predicates) {
			if result = e.test(&c.predicates[e.predicate], rule.Watermark); result == interrupted {
				return Verdict{}, false
			}
			e.predicate, e.op, e.entry = e.predicate+1, 0, 0
		}
		if result == passed {
			return Verdict{c.rule, rule.UUID, rule.Action}, true
		}
	}
	return Verdict{Rule: -1, Action: Action{Verb: Accept}}, true
}

// resume is the leaf at which the evaluation of the expression begins or goes on.
func (e *Evaluation) resume(p *predicate) query.Step {
	if !e.resumes {
		return p.expr.First()
	}
	e.resumes = false
	return e.at
}

// interrupt records the leaf from which the evaluation continues in its next slice, and returns interrupted.
func (e *Evaluation) interrupt(at query.Step) testResult {
	e.at, e.resumes = at, true
	return interrupted
}

// find reports whether a pattern is found in a text. If the work of this turn is done before that is known, the search is kept, and the
// result is interrupted.
func (e *Evaluation) find(p *query.Pattern, text []byte) testResult {
	search, found := p.Search(text, &e.work)
	if search != nil {
		e.search = search
		return interrupted
	}
	return resultOf(found)
}

// searchOn continues the search for a pattern that was interrupted. It is interrupted again when the slice of work is used up.
func (e *Evaluation) searchOn() testResult {
	found, done := e.search.Continue(&e.work)
	if !done {
		return interrupted
	}
	e.search = nil
	return resultOf(found)
}

package jobfile

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"lockstep/cmd/internal/doctree"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/core/answer"
	"lockstep/core/wire"
)

// Mistakes are all mistakes of a file, in the order of their places.
type Mistakes []*doctree.Error

// Error has a line "LINE:COLUMN: TEXT" for each mistake.
func (m Mistakes) Error() string {
	lines := make([]string, len(m))
	for i, one := range m {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// add adds an error, which is nil, *doctree.Error or Mistakes. It reports whether there was none.
func (m *Mistakes) add(err error) bool {
	var one *doctree.Error
	var several Mistakes
	switch {
	case errors.As(err, &one):
		*m = append(*m, one)
	case errors.As(err, &several):
		*m = append(*m, several...)
	}
	return err == nil
}

func (m *Mistakes) addf(at doctree.Position, format string, args ...any) {
	m.add(doctree.Errorf(at, format, args...))
}

// err is nil without a mistake. A mistake that several jobs have by an alias of YAML is reported once.
func (m Mistakes) err() error {
	if len(m) == 0 {
		return nil
	}
	slices.SortStableFunc(m, func(a, b *doctree.Error) int {
		return cmp.Or(cmp.Compare(a.At.Line, b.At.Line), cmp.Compare(a.At.Column, b.At.Column))
	})
	return slices.CompactFunc(m, func(a, b *doctree.Error) bool { return a.At == b.At && a.Text == b.Text })
}

// Refused returns the mistakes that the daemon has found in the jobs, with their places in the file. It is nil for another error.
func (s Submission) Refused(err error) error {
	var failed *wire.Error
	var found []answer.Mistake
	listed := errors.As(err, &failed) && len(failed.Args) >= 3
	if !listed || json.Unmarshal(failed.Args[2], &found) != nil {
		return nil //nolint:nilerr // another error is the caller's
	}
	var m Mistakes
	for _, mistake := range found {
		if mistake.Job < 1 || mistake.Job > len(s.Jobs) {
			return nil
		}
		m.addf(s.Jobs[mistake.Job-1].place(mistake.Opcode, mistake.Parameter), "%s", mistake.Text)
	}
	return s.secrets.redact(m.err())
}

// place is the place of a parameter of the opcode with this number, or of the opcode, or of the job.
func (j Job) place(opcode int, parameter string) doctree.Position {
	switch {
	case opcode < 1 || opcode > len(j.ops):
		return j.At
	case opcode == 1 && parameter == "depends" && j.depends != nil:
		return j.depends.At
	}
	op := j.ops[opcode-1]
	if value, given := op.Field(parameter); given {
		return value.At
	}
	_, at := opcodeID(op)
	return at
}

// didYouMean suggests the names that are similar to a mistyped one; without any it is otherwise.
func didYouMean(typed string, names []string, otherwise string) string {
	similar := slices.Compact(slices.Sorted(slices.Values(cli.SimilarNames(typed, names))))
	if len(similar) == 0 {
		return otherwise
	}
	return `; did you mean "` + strings.Join(similar, `" or "`) + `"?`
}

// invalid takes the place of a value whose mistake is reported.
func invalid(at doctree.Position) doctree.Node { return doctree.Node{Kind: doctree.Invalid, At: at} }

// isInvalid reports whether n or a value in it is Invalid: the mistake is reported already.
func isInvalid(n doctree.Node) bool {
	return n.Kind == doctree.Invalid || slices.ContainsFunc(n.Values, isInvalid)
}

package jobfile

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"lockstep/cmd/internal/doctree"
	"lockstep/cmd/lockstep/internal/cli"
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

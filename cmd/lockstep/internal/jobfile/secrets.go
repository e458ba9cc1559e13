package jobfile

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"lockstep/cmd/internal/doctree"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/jobs"
)

// secrets are the values of secret parameters in a file. An alias of YAML can put one in the place of any other value, and a mistake
// shows the value that is wrong.
type secrets []string

// bareMin is the length of the shortest secret that is found without quotes.
const bareMin = 4

// secretsIn finds the secrets in a value.
func secretsIn(n doctree.Node) (found secrets) {
	for i, value := range n.Values {
		if n.Kind == doctree.Object && jobs.SecretParameter(n.Keys[i].Name) {
			found = append(found, textsIn(value)...)
		} else {
			found = append(found, secretsIn(value)...)
		}
	}
	return found
}

func textsIn(n doctree.Node) (texts []string) {
	switch value := n.Scalar.(type) {
	case string:
		texts = append(texts, value)
	case json.Number:
		texts = append(texts, value.String())
	}
	texts = slices.DeleteFunc(texts, func(text string) bool { return text == "" })
	for _, value := range n.Values {
		texts = append(texts, textsIn(value)...)
	}
	return texts
}

// redact replaces the secrets in a mistake, also in each of Mistakes.
func (s secrets) redact(err error) error {
	var one *doctree.Error
	var several Mistakes
	switch {
	case len(s) == 0:
		return err
	}
	slices.SortFunc(s, func(a, b string) int { return len(b) - len(a) }) // one may be a part of another
	switch {
	case errors.As(err, &several):
		redacted := slices.Clone(several)
		for i, m := range redacted {
			redacted[i] = &doctree.Error{At: m.At, Text: s.hide(m.Text)}
		}
		return redacted
	case errors.As(err, &one):
		return &doctree.Error{At: one.At, Text: s.hide(one.Text)}
	}
	return err
}

func (s secrets) hide(text string) string {
	for _, secret := range s {
		for _, shown := range []string{strconv.Quote(secret), cli.JSONText(secret)} {
			text = strings.ReplaceAll(text, shown, jobs.Redacted)
		}
		if len(secret) >= bareMin {
			text = strings.ReplaceAll(text, secret, jobs.Redacted)
		}
	}
	return text
}

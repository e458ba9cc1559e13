package console

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"lockstep/core/retry"
	"lockstep/core/words"
)

// retryInput is the formField.Input of a policy of tries. It has a choice, the value of the field, and three texts.
const retryInput = "retry"

// noRetry is the choice of no further try, where an opcode has another default.
const noRetry = "none"

// retryForm is the texts of a field for a policy.
type retryForm struct{ Delay, MaxDelay, On string }

// readRetry reads the texts of the field for a parameter.
func readRetry(form url.Values, param string) retryForm {
	of := func(part string) string { return strings.TrimSpace(form.Get("p-" + param + "-" + part)) }
	return retryForm{of("delay"), of("max-delay"), of("on")}
}

// retryChoices are the choices of a field whose parameter has a default.
func retryChoices() []string {
	choices := []string{noRetry}
	for n := range retry.TimesMax {
		choices = append(choices, strconv.Itoa(n+1))
	}
	return choices
}

// furtherTries is a choice in words.
func furtherTries(choice string) string {
	switch choice {
	case noRetry:
		return "no further try"
	case "1":
		return "1 further try"
	}
	return "up to " + choice + " further tries"
}

// retryDefault is the default of a parameter in words.
func retryDefault(value json.RawMessage) string {
	p, err := retry.Parse(value)
	if err != nil || p.Times == 0 {
		return furtherTries(noRetry)
	}
	return furtherTries(strconv.Itoa(p.Times))
}

// policy is the policy in a field, null for none. problem is for the user; "": there is none.
func (f formField) policy() (policy json.RawMessage, problem string) {
	p, r := retry.Policy{}, f.Retry
	if f.Value == "" || f.Value == noRetry {
		if r != (retryForm{}) {
			return nil, f.Name + ": choose how often the command is tried again, or leave the other fields empty."
		}
		return json.RawMessage("null"), ""
	}
	var err error
	if p.Times, err = strconv.Atoi(f.Value); err != nil {
		return nil, fmt.Sprintf("%s: choose a number from 1 to %d.", f.Name, retry.TimesMax)
	}
	for _, wait := range []struct {
		text    string
		seconds *float64
	}{{r.Delay, &p.Delay}, {r.MaxDelay, &p.MaxDelay}} {
		if wait.text == "" {
			continue
		}
		d, err := words.ParseDuration(wait.text)
		if err != nil || d <= 0 {
			return nil, fmt.Sprintf("%s: %q is no time to wait; write 10s or 5m.", f.Name, wait.text)
		}
		*wait.seconds = d.Seconds()
	}
	if r.On != "" {
		if p.On, err = retry.ParseCauses(r.On); err != nil {
			return nil, f.Name + ": " + err.Error() + "."
		}
	}
	if err := p.Check(); err != nil {
		return nil, f.Name + ": " + err.Error() + "."
	}
	if policy, err = json.Marshal(p); err != nil {
		return nil, f.Name + " cannot be used."
	}
	return policy, ""
}

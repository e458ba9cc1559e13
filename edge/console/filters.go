package console

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"lockstep/core/answer"
	"lockstep/core/words"
	"lockstep/edge/rapi"
)

// filtersView is the data of the filter rules and their editor.
type filtersView struct {
	Rules   []ruleRow
	Form    ruleForm
	Preview *answer.FilterPreview
	Problem string
}

// ruleRow is a rule, in the order in which rules apply.
type ruleRow struct {
	UUID       string
	Priority   int
	Action     string
	Limit      string
	Predicates string
	If         string // the predicates in words
	Reason     string
	By, Who    string      // who made it, and the name alone
	Ends       answer.Time // zero if the rule has no end
	Lasts      string      // the time until then, as the editor takes it
	Hits       *answer.FilterPreview
}

func (x *Console) filters(q *request) error {
	v, err := x.filterRules(q)
	if err != nil {
		return err
	}
	v.Form = ruleForm{Priority: "0", Action: "PAUSE", Join: joinAll, Conditions: []condition{newCondition}}
	if uuid := q.URL.Query().Get("edit"); uuid != "" {
		for _, r := range v.Rules {
			if r.UUID == uuid {
				v.Form = formOf(r)
			}
		}
	}
	return q.show("filters", "Filters", "filters", "filters", v)
}

func (x *Console) filterRules(q *request) (filtersView, error) {
	stored, err := ask[[]storedRule](q, rapi.Short, "LockstepListFilters")
	if err != nil {
		return filtersView{}, err
	}
	v := filtersView{}
	for _, rule := range stored {
		r := rule.row(time.Now())
		if len(stored) <= 20 {
			hits, err := askAged[answer.FilterPreview](q, statusFresh, rapi.Preview, "LockstepTestFilter",
				r.UUID, r.Priority, rule.Predicates, rule.Action, []any{})
			if err == nil {
				r.Hits = &hits
			}
		}
		v.Rules = append(v.Rules, r)
	}
	return v, nil
}

// storedRule is a rule as LockstepListFilters has it.
type storedRule struct {
	UUID       string          `json:"uuid"`
	Watermark  int64           `json:"watermark"`
	Priority   int             `json:"priority"`
	Predicates json.RawMessage `json:"predicates"`
	Action     json.RawMessage `json:"action"`
	Trail      [][]any         `json:"reason_trail"`
	Until      int64           `json:"until"` // nanoseconds since 1970; 0: it has no end
}

func (s storedRule) row(now time.Time) ruleRow {
	r := ruleRow{UUID: s.UUID, Priority: s.Priority, Predicates: string(s.Predicates), If: words.Conditions(s.Predicates, s.Watermark)}
	if json.Unmarshal(s.Action, &r.Action) != nil {
		var limited []json.RawMessage
		if json.Unmarshal(s.Action, &limited) == nil && len(limited) == 2 {
			_ = json.Unmarshal(limited[0], &r.Action) // it is a string
			r.Limit = string(limited[1])
		}
	}
	if s.Until != 0 {
		ends := time.Unix(0, s.Until)
		r.Ends = answer.Time{Time: ends}
		r.Lasts = words.FormatDuration(max(ends.Sub(now), time.Second).Round(time.Second))
	}
	for _, entry := range s.Trail {
		if len(entry) != 3 {
			continue
		}
		source, _ := entry[0].(string)
		text, _ := entry[1].(string)
		switch {
		case source == "lockstep:user":
			r.By, r.Who = text, shortUser(strings.TrimPrefix(text, "console, "))
		case text != "" && source == "gnt:user":
			r.Reason = text
		}
	}
	return r
}

// previewFilter shows what a rule of the editor would hold back, before it is made. With more it adds a condition to the editor.
func (x *Console) previewFilter(q *request) error {
	if err := q.ParseForm(); err != nil {
		return badRequest("The form cannot be read.")
	}
	form, args, problem := q.ruleForm()
	v, err := x.filterRules(q)
	if err != nil {
		return err
	}
	v.Form, v.Problem = form, problem
	if q.PostForm.Has("more") {
		v.Form.add()
		v.Problem = ""
	} else if problem == "" {
		preview, err := ask[answer.FilterPreview](q, rapi.Preview, "LockstepTestFilter", args...)
		if err != nil {
			v.Problem = ruleProblem(err)
		} else {
			v.Preview = &preview
		}
	}
	if q.URL.Query().Get("part") != "" { // the script shows it while the form is filled in
		q.writePart("preview", v)
		return nil
	}
	q.render(http.StatusOK, "filters", view{Title: "Filters", Section: "filters", Live: "", Data: v})
	return nil
}

// ruleProblem is why a rule cannot be made.
func ruleProblem(err error) string {
	text := rapi.AsClientFailure(err).Error()
	for _, prefix := range []string{"Invalid body parameters: ", "LockstepTestFilter: ", "LockstepReplaceFilter: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return text
}

// saveFilter adds or replaces a rule. A rule that is refused is shown again in the editor, with the reason.
func (x *Console) saveFilter(q *request) error {
	if err := q.ParseForm(); err != nil {
		return badRequest("The form cannot be read.")
	}
	form, args, problem := q.ruleForm()
	if problem == "" {
		var replaced answer.FilterReplaced
		err := q.do(rapi.Short, &replaced, "LockstepReplaceFilter", args...)
		if err == nil {
			q.about["rule"] = replaced.UUID
			return q.finish(true, "/ui/filters?done=rule")
		}
		if isAway(err) || pageErrorOf(err).code == http.StatusForbidden {
			return err
		}
		problem = ruleProblem(err)
	}
	v, err := x.filterRules(q)
	if err != nil {
		return err
	}
	v.Form, v.Problem = form, problem
	q.render(http.StatusUnprocessableEntity, "filters", view{Title: "Filters", Section: "filters", Data: v})
	return nil
}

func (x *Console) deleteFilter(q *request) error {
	if err := q.ParseForm(); err != nil {
		return badRequest("The form cannot be read.")
	}
	uuid := q.PostForm.Get("uuid")
	q.about["rule"] = shorten(uuid, loggedMax)
	if err := q.do(rapi.Short, nil, "DeleteFilter", uuid); err != nil {
		return err
	}
	return q.finish(true, "/ui/filters?done=ruledelete")
}

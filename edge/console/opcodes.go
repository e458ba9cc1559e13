package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"lockstep/core/access"
	"lockstep/core/answer"
	"lockstep/core/retry"
	"lockstep/edge/rapi"
)

// opcodesFresh is how old a catalogue may be: opcodes change rarely.
const opcodesFresh = 5 * time.Second

// opcodesView is the data of the catalogue.
type opcodesView struct {
	Declared, Runnable, Others []answer.Opcode
	Search                     string
}

// runnable are the built-in opcodes that a job process of lockstep runs and that are worth a form, and what they do.
var runnable = map[string]string{"OP_RUN_COMMAND": "Run a command.", "OP_TEST_DELAY": "Wait for a time, as a test.",
	"OP_CLUSTER_SET_PARAMS": "Change parameters of the queue.", "OP_CLUSTER_REDIST_CONF": "Write the configuration to all nodes again."}

func (x *Console) opcodes(q *request) error {
	all, err := askAged[[]answer.Opcode](q, opcodesFresh, rapi.Short, "LockstepOpcodes")
	if err != nil {
		return err
	}
	v := opcodesView{Search: strings.TrimSpace(q.URL.Query().Get("search"))}
	for _, op := range all {
		switch {
		case !op.Runs && !op.Defined: // this daemon cannot execute it
		case v.Search != "" && !strings.Contains(strings.ToLower(op.Name+" "+op.Doc), strings.ToLower(v.Search)):
		case op.Defined:
			v.Declared = append(v.Declared, op)
		case runnable[op.Name] != "":
			op.Doc = cmp.Or(op.Doc, runnable[op.Name])
			v.Runnable = append(v.Runnable, op)
		default:
			v.Others = append(v.Others, op)
		}
	}
	slices.SortStableFunc(v.Runnable, func(a, b answer.Opcode) int { // what most people want comes first
		return cmp.Compare(slices.Index([]string{"OP_RUN_COMMAND"}, b.Name), slices.Index([]string{"OP_RUN_COMMAND"}, a.Name))
	})
	return q.show("opcodes", "Opcodes", "opcodes", "", v)
}

// opcodeView is the data of the form of one opcode.
type opcodeView struct {
	answer.Opcode
	Fields   []formField
	Common   []formField
	Name     string // of the job
	Reason   string
	Problem  string
	Disabled string // why the opcode cannot be submitted from here; empty: it can
}

// formField is a parameter as a field of a form.
type formField struct {
	answer.OpcodeParam
	Input   string // text, number, checkbox, select, secret, lines, retry or json
	Options []string
	Value   string
	Default string
	Retry   retryForm // the rest of the value of a policy
}

// commonParams are those of all opcodes.
var commonParams = map[string]bool{"dry_run": true, "debug_level": true, "priority": true, "depends": true, "comment": true, "reason": true}

func (x *Console) readOpcode(q *request) (answer.Opcode, error) {
	found, err := askAged[[]answer.Opcode](q, opcodesFresh, rapi.Short, "LockstepOpcodes", q.PathValue("name"))
	if err != nil {
		return answer.Opcode{}, err
	}
	if len(found) == 0 {
		return answer.Opcode{}, &pageError{http.StatusNotFound, "There is no such opcode."}
	}
	return found[0], nil
}

func (x *Console) opcode(q *request) error {
	op, err := x.readOpcode(q)
	if err != nil {
		return err
	}
	return q.show("opcode", op.Name, "opcodes", "", x.opcodeForm(q, op))
}

// opcodeForm is a form for the parameters of an opcode, with the values that were sent. Disabled says why this user cannot submit it; "":
// he can.
func (x *Console) opcodeForm(q *request, op answer.Opcode) opcodeView {
	v := opcodeView{Opcode: op, Name: q.PostForm.Get("job-name"), Reason: q.PostForm.Get("job-reason")}
	refused := q.refuseOpcode(op)
	switch {
	case refused != "":
		v.Disabled = refused
	case !op.Runs:
		v.Disabled = "This daemon cannot execute the opcode: its jobs would fail."
	case op.Name == "OP_RUN_COMMAND":
		v.Disabled = q.noCommands()
	}
	for _, p := range op.Params {
		if p.Name == "reason" || p.Name == "debug_level" {
			continue
		}
		f := fieldOf(p)
		if q.PostForm != nil {
			f.Value, f.Retry = q.PostForm.Get("p-"+p.Name), readRetry(q.PostForm, p.Name)
		}
		if commonParams[p.Name] {
			v.Common = append(v.Common, f)
		} else {
			v.Fields = append(v.Fields, f)
		}
	}
	return v
}

// refuseOpcode says why the role of the user does not permit submissions of an opcode; "": it may. The queue decides about declared
// opcodes, whose files say who may.
func (q *request) refuseOpcode(op answer.Opcode) string {
	route := access.ConsoleRoute("POST /ui/opcodes/{name}")
	if !op.Defined && op.Name != "OP_RUN_COMMAND" {
		route.Need = access.Need{Role: access.Admin, To: "submit " + op.Name}
	}
	return q.refusalOf(route)
}

// fieldOf chooses the field for the type of a parameter.
func fieldOf(p answer.OpcodeParam) formField {
	f := formField{OpcodeParam: p, Input: "json"}
	if !p.Required && string(p.Default) != "null" {
		f.Default = string(p.Default)
	}
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(p.Type, word) })
	}
	switch {
	case p.Type == retry.Wanted:
		f.Input, f.Options, f.Default = retryInput, retryChoices(), retryDefault(p.Default)
	case p.Secret && !has("an object", "a list"):
		f.Input = "secret"
	case has("a list of at least one string"):
		f.Input = "lines"
	case has("a list", "an object", "any value"):
	case has("one of \""):
		f.Input, f.Options = "select", optionsOf(p.Type)
	case has("true or false"):
		f.Input, f.Options = "bool", []string{"true", "false"}
	case has("integer", "a number"):
		f.Input = "number"
	case has("string", "path", "address", "network"):
		f.Input = "text"
	}
	return f
}

// optionsOf are the quoted values in a type, as in: one of "slow", "fast".
func optionsOf(kind string) []string {
	var options []string
	pieces := strings.Split(kind, `"`)
	for i := 1; i < len(pieces); i += 2 {
		options = append(options, pieces[i])
	}
	return options
}

// submit submits a job of one opcode from the form, and shows the job. A job that is refused is shown again in the form, with the reason.
func (x *Console) submit(q *request) error {
	if err := q.ParseForm(); err != nil {
		return badRequest("The form cannot be read.")
	}
	op, err := x.readOpcode(q)
	if err != nil {
		return err
	}
	q.about["opcode"] = op.Name
	v := x.opcodeForm(q, op)
	if v.Disabled != "" {
		return &pageError{http.StatusForbidden, v.Disabled}
	}
	params, problem := paramsOf(append(v.Fields, v.Common...))
	if problem == "" {
		params["OP_ID"] = quoted(op.Name)
		params["reason"] = q.trail(v.Reason)
		id, err := x.submitJob(q, strings.TrimSpace(v.Name), []map[string]json.RawMessage{params})
		if err == nil {
			q.about["job"] = id
			return q.finish(true, fmt.Sprintf("/ui/jobs/%d?done=submitted", id))
		}
		if pageErrorOf(err).code == http.StatusForbidden {
			return err
		}
		problem = err.Error()
	}
	v.Problem = problem
	q.render(http.StatusUnprocessableEntity, "opcode", view{Title: op.Name, Section: "opcodes", Data: v})
	return nil
}

// paramsOf are the parameters that the fields give. An empty field leaves its parameter out. problem is for the user; "": there is none.
func paramsOf(fields []formField) (params map[string]json.RawMessage, problem string) {
	params = map[string]json.RawMessage{}
	for _, f := range fields {
		value := f.Value
		if strings.TrimSpace(value) == "" && f.Retry == (retryForm{}) {
			continue
		}
		switch f.Input {
		case "text", "select", "secret":
			params[f.Name] = quoted(value)
		case "lines":
			var lines []string
			for line := range strings.Lines(value) {
				lines = append(lines, strings.TrimRight(line, "\r\n"))
			}
			data, err := json.Marshal(lines)
			if err != nil {
				return nil, f.Name + " cannot be used."
			}
			params[f.Name] = data
		case retryInput:
			if params[f.Name], problem = f.policy(); problem != "" {
				return nil, problem
			}
		default:
			if !json.Valid([]byte(value)) {
				return nil, fmt.Sprintf("The parameter %s is not valid: its type is %s.", f.Name, f.Type)
			}
			params[f.Name] = json.RawMessage(strings.TrimSpace(value))
		}
	}
	return params, ""
}

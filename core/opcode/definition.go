package opcode

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"lockstep/core/demand"
	"lockstep/core/lock"
	"lockstep/core/rawjson"
)

// Definition is an opcode that an operator declares: the parameters it takes, and the command and the locks that are
// computed from them (design.md "Opcodes"). The texts are templates: ${name} stands for the value of a parameter, $${ for these
// two characters. A string is inserted unchanged, any other value as its JSON. No shell interprets the result. An
// argument, a variable or a lock that mentions an unset optional parameter is omitted.
type Definition struct {
	Name    string // OP_ and capitals, digits and _
	Doc     string
	Params  []ParamDefinition
	Command []string // templates; an element that consists of ${name}, of a list, becomes one argument for each element
	Env     map[string]string
	Cwd     string
	Stdin   string
	Timeout string // in seconds, the text of a number
	Locks   []LockDefinition
	Summary string // name of the parameter that lists show after the name of the opcode
	// KeepOutput: all output is kept in files, unless a submission says otherwise (parameter keep_output).
	KeepOutput bool
	// Retry is the policy by which a command that has failed is tried again, unless a submission has another one; nil: it is not.
	Retry json.RawMessage
	// Limits are what the command may use of its node, unless a submission has other ones; nil: there are none.
	Limits     json.RawMessage
	User       string     // as whom the command runs: the name of an account, or AsSubmitter; "": the daemon's
	Submitters Submitters // who may submit it beside operators and administrators
}

// ParamDefinition declares one parameter of the opcode that a Definition declares.
type ParamDefinition struct {
	Name     string
	Type     string          // an expression as in ganeti.json: String, Integer, List of NonEmptyString, OneOf a, b …
	Default  json.RawMessage `json:",omitempty"` // nil if there is none
	Required bool            // without it, and without Default, the parameter is optional
	Doc      string
	Secret   bool // not in files and lists; may be used only in Env
}

// LockDefinition declares a lock that the opcode of a Definition takes, or one lock for each element of a list.
type LockDefinition struct {
	Lock string // a template; the part before the / has no parameter
	Mode string // shared or exclusive
}

// DefinitionError says what is wrong in a declaration of an opcode, and where.
type DefinitionError struct {
	Definition int    // position in the list that With was given
	Opcode     string // the name in the definition
	Field      string // as params[2].type, counted from 0
	Text       string
}

func (f *DefinitionError) Error() string { return f.Opcode + ": " + f.Field + ": " + f.Text }

// DefinitionErrors are all mistakes in some definitions, in order.
type DefinitionErrors []*DefinitionError

func (f DefinitionErrors) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.Error()
	}
	return strings.Join(lines, "\n")
}

// With is the catalogue with further opcodes. All or none are added. The error is DefinitionErrors.
func (c *Catalogue) With(definitions []Definition) (*Catalogue, error) {
	more := &Catalogue{opcodes: maps.Clone(c.opcodes)}
	var errs DefinitionErrors
	for i := range definitions {
		d := definitionCompiler{definition: &definitions[i], index: i}
		op := d.opcode()
		_, duplicate := more.opcodes[op.Name]
		if duplicate || demand.Listed(op.Name) { // the lock table also contains an opcode of a later Ganeti
			d.fail("name", "there is an opcode "+op.Name+" already")
		}
		more.opcodes[op.Name] = op
		errs = append(errs, d.errs...)
	}
	if errs != nil {
		return nil, errs
	}
	more.names = slices.Sorted(maps.Keys(more.opcodes))
	return more, nil
}

// definitionCompiler makes an opcode of a definition and collects its mistakes.
type definitionCompiler struct {
	definition *Definition
	index      int
	params     map[string]*Param
	errs       DefinitionErrors
}

func (d *definitionCompiler) fail(field, text string) {
	d.errs = append(d.errs, &DefinitionError{Definition: d.index, Opcode: d.definition.Name, Field: field, Text: text})
}

var (
	opcodeNames = regexp.MustCompile(`^OP_[A-Z0-9_]+$`)
	paramNames  = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
)

func (d *definitionCompiler) opcode() *Opcode {
	op := &Opcode{Name: d.definition.Name, Doc: d.definition.Doc, summary: d.definition.Summary, index: map[string]int{},
		user: d.definition.User, submitters: d.definition.Submitters}
	if !opcodeNames.MatchString(op.Name) {
		d.fail("name", rawjson.Quoted(op.Name)+" is no name for an opcode: want OP_ and then capital letters, digits and _")
	}
	d.params = map[string]*Param{}
	taken := map[string]bool{idKey: true, keepOutputKey: true, retryKey: true, limitsKey: true}
	for _, p := range commonParams() {
		taken[p.Name] = true
	}
	for i := range d.definition.Params {
		p := d.param("params["+strconv.Itoa(i)+"]", &d.definition.Params[i])
		switch {
		case taken[p.Name] && d.params[p.Name] == nil:
			d.fail("params["+strconv.Itoa(i)+"].name", "every opcode has a parameter "+p.Name+" already")
		case taken[p.Name]:
			d.fail("params["+strconv.Itoa(i)+"].name", "there is a parameter "+p.Name+" already")
		}
		taken[p.Name], d.params[p.Name] = true, &p
		op.Params = append(op.Params, p)
	}
	op.Params = append(op.Params, keepOutputParam(d.definition.KeepOutput), retryParam(d.checked(retryKey, d.definition.Retry, retryPolicy)),
		limitsParam(d.checked(limitsKey, d.definition.Limits, commandLimits)))
	op.Params = append(op.Params, commonParams()...)
	for i := range op.Params {
		op.index[op.Params[i].Name] = i
	}
	d.checkUsers()
	op.compiled = d.compile()
	op.requiredLocks = op.compiled.requiredLocks
	switch p := d.params[op.summary]; {
	case op.summary == "":
	case p == nil:
		d.fail("summary", rawjson.Quoted(op.summary)+" is no parameter of this opcode")
	case p.Secret:
		d.fail("summary", op.summary+" is secret")
	}
	return op
}

// checked is the value of a key of the definition in compact form; nil: it has none.
func (d *definitionCompiler) checked(key string, value json.RawMessage, wanted Type) json.RawMessage {
	if value == nil {
		return nil
	}
	if bad := wanted.check(value); bad != nil {
		field := key
		if bad.place != "" {
			field, bad.place = field+"."+bad.place, ""
		}
		d.fail(field, bad.text())
		return nil
	}
	return rawjson.AppendCompact(nil, value)
}

func (d *definitionCompiler) param(field string, from *ParamDefinition) Param {
	p := Param{Name: from.Name, Doc: from.Doc, Secret: from.Secret, Type: anything}
	if !paramNames.MatchString(p.Name) {
		d.fail(field+".name", rawjson.Quoted(p.Name)+" is no name for a parameter: want a small letter, then small letters, digits and _")
	}
	t, err := newVocabulary(nil).parse(from.Type)
	if err != nil {
		d.fail(field+".type", err.Error()+`; there are, for instance, String, NonEmptyString, Integer, Float, Boolean, AbsolutePath, `+
			`"List of NonEmptyString" and "OneOf slow, fast"`)
	} else {
		p.Type = t
	}
	if from.Required {
		if from.Default != nil {
			d.fail(field+".default", "a parameter that is required needs no default: leave out one of the two")
		}
		return p
	}
	p.Default = json.RawMessage("null")
	if from.Default == nil || string(bytes.TrimSpace(from.Default)) == "null" {
		return p
	}
	switch {
	case from.Secret:
		d.fail(field+".default", "a secret parameter has no default: here, everybody can read it")
	case checkSyntax(from.Default) != nil:
		d.fail(field+".default", checkSyntax(from.Default).Error())
	default:
		p.Default = rawjson.AppendCompact(nil, from.Default)
		if bad := p.Type.check(p.Default); bad != nil {
			d.fail(field+".default", bad.text())
		}
	}
	return p
}

// compile parses the templates and checks their fields. What is wrong is added to d.errs.
func (d *definitionCompiler) compile() *compiledDefinition {
	p := &compiledDefinition{}
	for i := range d.definition.Params {
		if from := &d.definition.Params[i]; from.Secret {
			p.secrets = append(p.secrets, from.Name)
		}
	}
	if len(d.definition.Command) == 0 {
		d.fail("command", "it is missing: name a program, and its arguments")
	}
	for i, text := range d.definition.Command {
		p.command = append(p.command, d.argument(i, text))
	}
	for _, name := range slices.Sorted(maps.Keys(d.definition.Env)) {
		field := "env." + name
		if bad := variableName.check(json.RawMessage(strconv.Quote(name))); bad != nil {
			d.fail(field, "the name of a variable must be "+variableName.description)
		}
		v := variable{name: name, value: d.template(field, d.definition.Env[name], true)}
		for param := range v.value.params {
			v.secret = v.secret || d.params[param].Secret
		}
		p.env = append(p.env, v)
	}
	p.cwd = d.optional("cwd", d.definition.Cwd, absolutePath)
	p.stdin = d.optional("stdin", d.definition.Stdin, nil)
	p.timeout = d.optional("timeout", d.definition.Timeout, seconds)
	for i, from := range d.definition.Locks {
		p.locks = append(p.locks, d.lock("locks["+strconv.Itoa(i)+"]", from))
	}
	return p
}

// argument reads an element of the command, and reports what is wrong with it. The first element must name a program, and a parameter
// that is a list must be an element of its own.
func (d *definitionCompiler) argument(i int, text string) template {
	field := "command[" + strconv.Itoa(i) + "]"
	t := d.template(field, text, false)
	if strings.IndexByte(text, 0) >= 0 {
		d.fail(field, "it contains NUL")
	}
	if i == 0 && text == "" {
		d.fail(field, "it is empty: name a program")
	}
	for param := range t.params {
		p := d.params[param]
		switch {
		case i == 0 && (rawjson.IsNull(p.Default) || p.Type.check(json.RawMessage("null")) == nil || isListed(p.Type)):
			d.fail(field, param+" cannot be the program: it may be unset, or be a list")
		case t.soleParam() == "" && isListed(p.Type):
			d.fail(field, param+" is a list: let ${"+param+"} be an element of its own, which becomes an argument for each of its elements")
		}
	}
	return t
}

// optional reads the template of a field that may be empty. Without parameters the text is checked at once; with kind nil it may be any
// text.
func (d *definitionCompiler) optional(field, text string, kind *scalarType) template {
	if text == "" {
		return nil
	}
	t := d.template(field, text, false)
	for range t.params {
		return t
	}
	value := json.RawMessage(text)
	if kind == absolutePath {
		value, _ = json.Marshal(text)
	}
	if kind != nil && !kind.accepts(value) {
		d.fail(field, "want "+kind.description+", found "+rawjson.Quoted(text))
	}
	return t
}

func (d *definitionCompiler) template(field, text string, allowSecrets bool) template {
	t, problem := parseTemplate(text, func(name string) bool { return d.params[name] != nil })
	if problem != "" {
		d.fail(field, problem)
	}
	for param := range t.params {
		if d.params[param].Secret && !allowSecrets {
			d.fail(field, param+" is secret, and may be used in env only: everything else can be seen by others")
		}
	}
	return t
}

func (d *definitionCompiler) lock(field string, from LockDefinition) lockTemplate {
	t := lockTemplate{name: d.template(field+".lock", from.Lock, false)}
	switch mode, err := lock.ParseMode(from.Mode); {
	case err != nil || mode == lock.None:
		d.fail(field+".mode", "want shared or exclusive, found "+rawjson.Quoted(from.Mode))
	default:
		t.mode = mode
	}
	templated := false
	for param := range t.name.params {
		templated = true
		if isListed(d.params[param].Type) {
			if t.listParam != "" {
				d.fail(field+".lock", "only one parameter in the name of a lock can be a list")
			}
			t.listParam = param
		}
	}
	if t.name == nil && from.Lock != "" {
		return t // the template has a mistake
	}
	// An example of the template must name a lock. What begins with a parameter has no certain level.
	example := from.Lock
	if templated {
		example = t.name[0].text + "x"
	}
	full, err := lock.Meant(example)
	l, ok := demand.ParseLockName(full)
	switch {
	case err != nil:
		d.fail(field+".lock", err.Error())
	case !ok || templated && (l.Level() == lock.Cluster || t.name[0].text == ""):
		d.fail(field+".lock", "want "+demand.LockNameDescription+", found "+rawjson.Quoted(from.Lock))
	case full != example:
		// The level is certain before any value is there: no value can change it.
		t.name = append(template{{text: lock.Free.String() + "/"}}, t.name...)
	}
	return t
}

// isListed reports whether values of the type may be lists.
func isListed(t Type) bool {
	switch t := t.(type) {
	case list, tuple:
		return true
	case union:
		return slices.ContainsFunc(t, isListed)
	case intersection:
		return slices.ContainsFunc(t, isListed)
	case private:
		return isListed(t.inner)
	case *scalarType:
		return t == commandLine
	}
	return false
}

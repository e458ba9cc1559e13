package opcode

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"lockstep/core/demand"
	"lockstep/core/rawjson"
)

// Draft is one opcode in the form to be stored: the normalised input, and the secrets removed from it.
type Draft struct {
	Name string // OP_ID

	// Input is a JSON object without white space. Its keys are, in this order: the opcode's own parameters in catalogue
	// order, without unset optional ones and with defaults; dry_run and debug_level, if set; priority, depends (ids as
	// numbers, else null), comment (else null), reason (a list); OP_ID. Each leaf of a secret parameter is the string
	// Redacted.
	Input json.RawMessage

	// Secrets is an object {parameter: value} of the secret parameters, nil if there are none. A value that was
	// submitted as Redacted is not a secret: it comes from an opcode whose secrets are lost.
	Secrets json.RawMessage

	Priority int // -10, 0 or 10
}

// Redacted replaces each secret value in stored opcodes (queue.md 3.3).
const Redacted = "<redacted>"

const redactedToken = `"` + Redacted + `"`

// member is a key of a submitted opcode and the JSON of its value.
type member struct {
	key   string
	value json.RawMessage
}

// Parse validates one submitted opcode and brings it into its stored form (queue.md 1.5, 3.3 and 8.1). A null for an
// optional or defaulted key counts as absent, and so does a missing reason. Parse of Draft.Input gives the same Input.
// The error is an *Invalid.
func (c *Catalogue) Parse(raw json.RawMessage) (Draft, error) {
	if err := checkSyntax(raw); err != nil {
		return Draft{}, err
	}
	found, err := readMembers(raw)
	if err != nil {
		return Draft{}, err
	}
	name, err := opcodeName(found)
	if err != nil {
		return Draft{}, err
	}
	op, known := c.opcodes[name]
	if !known {
		return Draft{}, &Invalid{Opcode: name, Text: "Unknown opcode " + shortened(name)}
	}
	values, err := op.assign(found)
	if err != nil {
		return Draft{}, err
	}
	return op.draft(values, found)
}

// readMembers splits raw, whose syntax was checked, into its members.
func readMembers(raw json.RawMessage) ([]member, error) {
	if raw = bytes.TrimSpace(raw); raw[0] != '{' {
		return nil, invalidf("an opcode must be an object, found %s", kindOf(raw))
	}
	found := make([]member, 0, 16)
	for key, value := range rawjson.Members(raw) {
		found = append(found, member{string(rawjson.Unquote(key)), value})
	}
	return found, nil
}

// opcodeName is the value of OP_ID.
func opcodeName(found []member) (string, error) {
	var id json.RawMessage
	for _, m := range found {
		if m.key != idKey {
			continue
		}
		if id != nil {
			return "", duplicateKey("", idKey)
		}
		id = m.value
	}
	if id == nil {
		return "", missingKey("", idKey, found)
	}
	if bad := text.check(id); bad != nil {
		return "", typeError("", idKey, bad)
	}
	return string(rawjson.Unquote(id)), nil
}

func duplicateKey(opcode, key string) *Invalid {
	return &Invalid{Opcode: opcode, Param: key, Text: "key " + rawjson.Quoted(key) + " is given twice, an opcode may have each key once"}
}

func shortened(name string) string {
	line := appendLine(nil, name)
	if len(line) > nameMax {
		return string(bytes.ToValidUTF8(line[:nameMax], nil)) + "…"
	}
	return string(line)
}

// assign orders the members by parameter: values[i] belongs to Params[i] and is nil if the client did not give it.
// Unknown and repeated keys are errors.
func (op *Opcode) assign(found []member) (values []json.RawMessage, err error) {
	values = make([]json.RawMessage, len(op.Params))
	var unknown []string
	for _, m := range found {
		i, known := op.index[m.key]
		switch {
		case m.key == idKey:
		case !known:
			unknown = append(unknown, m.key)
		case values[i] != nil:
			return nil, duplicateKey(op.Name, m.key)
		default:
			values[i] = m.value
		}
	}
	if unknown != nil {
		slices.Sort(unknown)
		return nil, unknownParams(op, unknown)
	}
	return values, nil
}

// draft checks the value of each parameter, and writes the values in the order of the catalogue, with defaults. Secrets are redacted in
// the input; their values are in Draft.Secrets. The error is for the client.
func (op *Opcode) draft(values []json.RawMessage, found []member) (Draft, error) {
	d := Draft{Name: op.Name}
	input := make([]byte, 0, 512)
	for i := range op.Params {
		p := &op.Params[i]
		value, err := op.storedValue(p, values[i], found)
		if err != nil {
			return Draft{}, err
		}
		if value == nil {
			continue
		}
		input = appendKey(input, p.Name)
		switch {
		case p.Secret:
			input = d.appendSecret(input, p, value)
		case p.Name == dependsKey && !rawjson.IsNull(value):
			input = appendDepends(input, decodeDepends(value))
		case p.Name == priorityKey:
			d.Priority, _ = strconv.Atoi(string(value)) // the type allows only numbers
			input = append(input, value...)
		default:
			input = rawjson.AppendCompact(input, value)
		}
	}
	if d.Secrets != nil {
		d.Secrets = append(d.Secrets, '}')
	}
	input = appendKey(input, idKey)
	input = strconv.AppendQuote(input, op.Name) // plain ASCII, which Go and JSON quote alike
	d.Input = append(input, '}')
	if len(d.Input) > SizeMax { // defaults and redaction may lengthen the input
		return Draft{}, tooLarge(op.Name, len(d.Input))
	}
	if bad := op.checkTogether(d.Input); bad != nil {
		bad.Opcode = op.Name
		return Draft{}, bad
	}
	return d, nil
}

// checkTogether checks what no parameter shows alone: whether the locks that follow from all of them can be taken, and the command of a
// declared opcode be made.
func (op *Opcode) checkTogether(input json.RawMessage) *Invalid {
	if op.requiredLocks == nil {
		return nil
	}
	p := demand.Read(input, nil)
	if _, bad := op.requiredLocks(p); bad != nil {
		return &Invalid{Param: bad.Param, Text: bad.Text}
	}
	if op.compiled == nil {
		return nil
	}
	_, bad := op.compiled.expand(p) // redacted secrets have the same effect here
	return bad
}

// Check says what Parse finds wrong with the value of one parameter alone; nil if nothing. The value is valid JSON. The error is an
// *Invalid.
func (op *Opcode) Check(param string, value json.RawMessage) error {
	i, known := op.index[param]
	if !known {
		return unknownParams(op, []string{param})
	}
	_, err := op.storedValue(&op.Params[i], value, nil)
	return err
}

// Mistakes lists what is wrong with each parameter of an opcode, for which Parse has returned err. It is err alone if that is about none
// of them, or if the opcode is unknown.
func (c *Catalogue) Mistakes(raw json.RawMessage, err error) []*Invalid {
	var first *Invalid
	if !errors.As(err, &first) {
		return []*Invalid{invalidf("%v", err)}
	}
	op, known := c.opcodes[first.Opcode]
	if !known || checkSyntax(raw) != nil {
		return []*Invalid{first}
	}
	var all []*Invalid
	given := make(map[string]json.RawMessage, len(op.Params))
	for key, value := range rawjson.Members(bytes.TrimSpace(raw)) {
		name := string(rawjson.Unquote(key))
		given[name] = value
		var bad *Invalid
		if name != idKey && errors.As(op.Check(name, value), &bad) {
			all = append(all, bad)
		}
	}
	for i := range op.Params {
		if p := &op.Params[i]; p.Required() && given[p.Name] == nil {
			all = append(all, &Invalid{Opcode: op.Name, Param: p.Name, Text: op.Name + " needs the parameter " + p.Name + ", " + p.Type.String()})
		}
	}
	if len(all) < 2 { // the text of Parse is Ganeti's
		return []*Invalid{first}
	}
	return all
}

// storedValue is the value to be stored for p, which the client gave as value; nil if nothing is to be stored.
func (op *Opcode) storedValue(p *Param, value json.RawMessage, found []member) (json.RawMessage, error) {
	switch {
	case value == nil && p.Required():
		return nil, missingKey(op.Name, p.Name, found)
	case value == nil || rawjson.IsNull(value) && !p.Required():
		if rawjson.IsNull(p.Default) && !p.storedUnset {
			return nil, nil
		}
		return p.Default, nil
	}
	if problem := checkNesting(value, 0); problem != "" {
		return nil, &Invalid{Opcode: op.Name, Param: p.Name, Text: "Can't parse value for '" + p.Name + "': " + problem}
	}
	bad := p.Type.check(value)
	switch {
	case bad == nil && !p.Secret && hasNestedSecret(value):
		return nil, &Invalid{Opcode: op.Name, Param: p.Name, Text: "Can't parse value for '" + p.Name +
			"': secret parameters of a nested opcode would be stored in clear; submit it as an opcode of its own"}
	case bad == nil:
		return value, nil
	case p.Secret:
		return nil, secretTypeError(op.Name, p)
	}
	return nil, typeError(op.Name, p.Name, bad)
}

// hasNestedSecret reports whether v, as OP_INSTANCE_MULTI_ALLOC's list of instances, contains secret OS parameters.
// They are not a parameter of this opcode, so they would not be redacted.
func hasNestedSecret(v json.RawMessage) bool {
	for key, value := range rawjson.Members(v) {
		if string(rawjson.Unquote(key)) == nestedSecret && !rawjson.IsNull(value) {
			if _, leaves := appendRedacted(nil, value); leaves > 0 {
				return true
			}
		}
		if hasNestedSecret(value) {
			return true
		}
	}
	for value := range rawjson.Elements(v) {
		if hasNestedSecret(value) {
			return true
		}
	}
	return false
}

const nestedSecret = "osparams_secret"

// appendSecret writes the secret value to input with its leaves redacted. It adds the real value to d.Secrets if a leaf
// was redacted.
func (d *Draft) appendSecret(input []byte, p *Param, value json.RawMessage) []byte {
	input, leaves := appendRedacted(input, value)
	if leaves > 0 {
		d.Secrets = rawjson.AppendCompact(appendKey(d.Secrets, p.Name), value)
	}
	return input
}

// appendRedacted writes v without white space and with Redacted in place of each leaf, a value that is neither object
// nor list. It returns the number of redacted leaves.
func appendRedacted(dst []byte, v json.RawMessage) (redacted []byte, leaves int) {
	var n int
	switch v[0] {
	case '{':
		dst = append(dst, '{')
		for key, value := range rawjson.Members(v) {
			dst = appendSeparator(dst)
			dst = append(append(dst, key...), ':')
			dst, n = appendRedacted(dst, value)
			leaves += n
		}
		return append(dst, '}'), leaves
	case '[':
		dst = append(dst, '[')
		for element := range rawjson.Elements(v) {
			dst, n = appendRedacted(appendSeparator(dst), element)
			leaves += n
		}
		return append(dst, ']'), leaves
	}
	if string(v) != redactedToken {
		leaves = 1
	}
	return append(dst, redactedToken...), leaves
}

// appendKey begins the next member of the object in dst, and the object itself if dst is empty.
func appendKey(dst []byte, key string) []byte {
	if len(dst) == 0 {
		dst = append(dst, '{')
	}
	dst = append(appendSeparator(dst), '"')
	dst = append(dst, key...)
	return append(dst, `":`...)
}

// appendSeparator writes a comma, except before the first member or element.
func appendSeparator(dst []byte) []byte {
	if last := dst[len(dst)-1]; last == '{' || last == '[' {
		return dst
	}
	return append(dst, ',')
}

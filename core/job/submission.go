package job

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"lockstep/core/rawjson"
)

// SubmissionSource is the source of the entry in the reason trail of a job's first opcode by which a client names its
// submission. If a client sends a submission twice because the answer was lost, the jobs are created once. All jobs of
// a submission have the entry.
const SubmissionSource = "lockstep:request"

// submissionNameMax bounds the name of a submission, in bytes.
const submissionNameMax = 200

// SubmissionName is the client's name for a submission, from the input of the first opcode of a job; "" if there is no
// valid name.
func SubmissionName(input json.RawMessage) string {
	if !bytes.Contains(input, []byte(SubmissionSource)) {
		return ""
	}
	var op struct {
		Reason [][]json.RawMessage `json:"reason"`
	}
	if json.Unmarshal(input, &op) != nil {
		return ""
	}
	for _, entry := range op.Reason {
		var source, name string
		if len(entry) < 2 || json.Unmarshal(entry[0], &source) != nil || source != SubmissionSource {
			continue
		}
		if json.Unmarshal(entry[1], &name) == nil && len(name) <= submissionNameMax {
			return name
		}
	}
	return ""
}

// SameSubmission reports whether a client may have submitted the same opcode twice. stored is the input in the job
// file. resent is the input received now, with redacted secrets and absolute dependencies. All members must be equal
// except the reason trail: the daemon adds entries to the stored trail, and the client may write another time.
func SameSubmission(stored, resent json.RawMessage) bool {
	a, aTrail, err := inputParts(stored)
	b, bTrail, err2 := inputParts(resent)
	return err == nil && err2 == nil && maps.Equal(a, b) && len(aTrail) >= len(bTrail) && slices.Equal(aTrail[:len(bTrail)], bTrail)
}

// inputParts splits an opcode's input: its members without white space, and source and text of each entry of its
// reason trail.
func inputParts(input json.RawMessage) (values map[string]string, trail []string, err error) {
	values = map[string]string{}
	err = rawjson.ReadObject(input, func(key, value []byte) {
		if string(key) == "reason" {
			trail = sourcesAndTexts(value)
			return
		}
		var compact bytes.Buffer
		_ = json.Compact(&compact, value) // value is well-formed
		values[string(key)] = compact.String()
	})
	return values, trail, err
}

func sourcesAndTexts(trail []byte) (entries []string) {
	_ = rawjson.ReadList(trail, func(entry []byte) { // a value that is not a list has no entries
		var parts []json.RawMessage
		_ = json.Unmarshal(entry, &parts)
		parts = parts[:min(len(parts), 2)]
		text, _ := json.Marshal(parts)
		entries = append(entries, string(text))
	})
	return entries
}

// UserSource is the source of the entry in a reason trail that says who submitted the job, or made the rule. Only the
// daemon writes it: its gateways know the connected user.
const UserSource = "lockstep:user"

// SubmitterSource is the source of the entry in a reason trail that says that the record of the job names a submitter. Only the daemon
// writes it. It gives no right: without it a job whose record is lost would be the daemon's user's.
const SubmitterSource = "lockstep:submitter"

// RemoteSource is the source of the entry in a reason trail that names the user of the remote API or of the console. Only these write it.
const RemoteSource = "lockstep:rapi"

// NamesSubmitter reports whether the reason trail of a job says that the record of the job names a submitter.
func (j *Job) NamesSubmitter() bool {
	return len(j.Ops) > 0 && !bytes.Equal(WithoutReasons(j.Ops[0].Input, SubmitterSource), j.Ops[0].Input)
}

// WithoutReasons is input without the entries of these sources in its reason trail. It is input itself if there are no
// such entries.
func WithoutReasons(input json.RawMessage, sources ...string) json.RawMessage {
	start, end, isObject := rawjson.MemberRange(input, "reason")
	trail := input[start:end]
	spelled := func(source string) bool { return bytes.Contains(trail, []byte(source)) }
	if !isObject || !slices.ContainsFunc(sources, spelled) && !bytes.Contains(trail, []byte{'\\'}) {
		return input // without escapes a source has only one spelling
	}
	var others [][]byte
	dropped := false
	err := rawjson.ReadList(trail, func(entry []byte) {
		var parts []json.RawMessage
		var name string
		if json.Unmarshal(entry, &parts) == nil && len(parts) > 0 && json.Unmarshal(parts[0], &name) == nil && slices.Contains(sources, name) {
			dropped = true
			return
		}
		others = append(others, entry)
	})
	if err != nil || !dropped {
		return input
	}
	return slices.Concat(input[:start], []byte{'['}, bytes.Join(others, []byte(", ")), []byte{']'}, input[end:])
}

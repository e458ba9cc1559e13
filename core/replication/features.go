package replication

import (
	"encoding/json"
	"fmt"
	"slices"

	"lockstep/messages"
)

// Features that an older version does not know, and would misread as the master. A change that needs one is refused until each member of
// the cluster knows it.
const (
	// Grants: roles that were granted to users and groups (access.json).
	Grants = "grants"
	// AuditLog: the files of the audit log, for which an older version has no directory.
	AuditLog = "audit"
	// Submitters: jobs that belong to another user than the daemon's.
	Submitters = "submitters"
	// Tries: jobs whose opcodes are tried again. An older version runs such a command once, and fails a job between two tries.
	Tries = "tries"
	// Schedules: the files of schedules, whose jobs an older version would not submit.
	Schedules = "schedules"
	// StartTimes: jobs that start at a time. An older version starts them at once.
	StartTimes = "start times"
	// Limits: jobs whose commands have limits. An older version runs them without.
	Limits = "limits"
)

// Features is the list of what this version knows, sorted. Each node states it to the master.
func Features() []string {
	return []string{AuditLog, Grants, Limits, Schedules, StartTimes, Submitters, Tries}
}

// FeaturesKnown has, by the name of each member, the features that its version has stated last. A member that has never answered has no
// entry. It is a file that all nodes share, so that a new master also knows what members have stated that are down.
type FeaturesKnown map[string][]string

// DecodeFeaturesKnown is the inverse of Encode. No content is no statement.
func DecodeFeaturesKnown(content []byte) (FeaturesKnown, error) {
	file := featuresFile{Nodes: FeaturesKnown{}}
	if len(content) == 0 {
		return file.Nodes, nil
	}
	if err := json.Unmarshal(content, &file); err != nil || file.Nodes == nil {
		return FeaturesKnown{}, fmt.Errorf("decode the features that nodes know: %w", err)
	}
	return file.Nodes, nil
}

type featuresFile struct {
	Nodes FeaturesKnown `json:"nodes"`
}

// Encode is the content of features.json.
func (k FeaturesKnown) Encode() []byte {
	data, err := json.Marshal(featuresFile{k})
	if err != nil {
		panic(fmt.Errorf("features cannot be encoded: %w", err)) // texts can be
	}
	return append(data, '\n')
}

// State returns what is known after the members have been asked for their states. A member that answers without features is of a version
// that knows none, also if it has stated some before: it was replaced by an older one. A member that does not answer keeps its entry, and
// one that has left the cluster loses it. changed is false if all is as before.
func (k FeaturesKnown) State(members []*messages.Member, states []*messages.NodeState) (next FeaturesKnown, changed bool) {
	next = FeaturesKnown{}
	for i, m := range members {
		former, known := k[m.Name]
		switch {
		case i < len(states) && states[i].Answers:
			next[m.Name] = append([]string{}, states[i].Features...)
			changed = changed || !known || !slices.Equal(former, next[m.Name])
		case known:
			next[m.Name] = former
		}
	}
	return next, changed || len(next) != len(k)
}

// Lacking is the name of a member that does not know a feature, or has never stated what it knows; "": all know it.
func (k FeaturesKnown) Lacking(feature string, members []*messages.Member) string {
	for _, m := range members {
		if !slices.Contains(k[m.Name], feature) {
			return m.Name
		}
	}
	return ""
}

// AllState reports whether each member has stated some feature. Before that the statements are not shared: an older member would not expect
// their file.
func (k FeaturesKnown) AllState(members []*messages.Member) bool {
	return !slices.ContainsFunc(members, func(m *messages.Member) bool { return len(k[m.Name]) == 0 })
}

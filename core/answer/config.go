package answer

import (
	"encoding/json"

	"lockstep/core/access"
	"lockstep/core/config/history"
)

// ConfigPart answers LockstepConfigShow: a part of the configuration, with its secrets redacted. It has a table or a value.
type ConfigPart struct {
	Serial int64           `json:"serial_no"` // of the configuration
	Time   float64         `json:"mtime"`     // of the configuration
	Path   string          `json:"path"`      // with the complete names of objects; "" is the whole configuration
	Table  *ConfigTable    `json:"table,omitempty"`
	Value  json.RawMessage `json:"value,omitempty"`
}

// ConfigTable is a container of objects for people. Each row has a text for each column.
type ConfigTable struct {
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

// ConfigHistory answers LockstepConfigHistory: the selected changes, the newest last.
type ConfigHistory struct {
	Entries []history.Entry `json:"entries"`
	Oldest  int64           `json:"oldest"`  // serial number of the oldest change in the files; 0 if they have none
	Damaged int             `json:"damaged"` // number of unreadable lines in the files
}

// ConfigResolved answers LockstepConfigAdopt and LockstepConfigDiscard.
type ConfigResolved struct {
	Foreign bool  `json:"foreign"`   // another program had changed config.data; else nothing was done
	Serial  int64 `json:"serial_no"` // of the configuration in force
}

// LoginLink is the answer to LockstepLoginLink: the token of a link that logs one browser in to the console, once.
type LoginLink struct {
	Token   string `json:"token"`
	Seconds int64  `json:"seconds"` // for which the token is valid
}

// Session answers LockstepCheckSession, LockstepOpenSession and LockstepRedeemLink. Valid is false for a session or link that
// does not exist; the other fields are empty then.
type Session struct {
	Valid bool   `json:"valid"`
	User  string `json:"user"`  // as in reason trails
	Name  string `json:"name"`  // in the users file; empty: the session was opened by a link
	Proof string `json:"proof"` // as it was given when the session was opened
	// Account is the account that has asked for the link; nil: there was no link.
	Account *access.Identity `json:"account,omitempty"`
}

// KeyRotated is the answer to LockstepRotateConfdKey: whether there was a key before, and how long it stays valid.
type KeyRotated struct {
	First          bool  `json:"first"`   // there was no key before
	OverlapSeconds int64 `json:"overlap"` // seconds for which the former key stays valid
}

// ConfigCheck answers LockstepConfigCheck: what is wrong with the configuration. Errors are those of verifyConfig (config.md 6.1),
// warnings those of Ganeti's Python (config.md 6.2).
type ConfigCheck struct {
	Serial   int64    `json:"serial_no"`
	Errors   []string `json:"errors"`
	Warnings []string `json:"warnings"`
}

package filter

import "lockstep/messages"

// VerbOf is the action of a verdict as messages carry it. No verdict means Accept.
func VerbOf(v *messages.Verdict) Verb { return Verb(v.GetAction()) }

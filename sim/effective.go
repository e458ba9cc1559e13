package sim

import (
	"encoding/json"
	"maps"
	"slices"

	"lockstep/core/access"
	"lockstep/core/config"
	"lockstep/core/config/model"
	"lockstep/core/config/ownrules"
	"lockstep/core/filter"
	"lockstep/core/job"
	"lockstep/core/opcode"
	"lockstep/core/paths"
	"lockstep/core/record"
	"lockstep/sim/simdisk"
)

// effectiveConfig are the effective rules and settings as far as an observer knows them: those on
// the disk, if the last change was acknowledged and the world was quiescent since.
//
// In between they are unknown: a change may be effective before its client has the answer, and a
// change whose answer was lost may still come. A daemon that has just started knows what is on
// the disk. In a cluster the disk holds the committed files, and the daemon is the master's.
type effectiveConfig struct {
	world      *World
	unanswered int  // changes without an answer
	certain    bool // at the next quiescent moment the files on the disk are effective
	known      bool // the files on the disk are effective
	// answered are the rules of the last change, if it was acknowledged and no other is open; nil: unknown. They are known
	// before the world is quiescent.
	answered *filter.Set

	generation   int // counts the known states
	quiescentAt  uint64
	stored       storedConfig
	seen         model.Hash // of the configuration on the disk after the last change of its files, with seenOwn
	seenOwn      ownrules.Rules
	config       *model.Config
	own          ownrules.Rules
	settingsFile *simdisk.File

	damaged bool // settings.json was edited so that no daemon can read it, and no change of a setting has replaced it since

	rules     *filter.Set
	ruleTexts map[string]json.RawMessage // by uuid
	verdicts  map[*job.Job]verdict       // by job; a changed job is a new key
	firstEnd  int64                      // of the rules with an end, in nanoseconds since 1970; 0: there is none
	settings  config.Settings
	slots     int
	// slotsMax is the largest possible number of slots, known or not.
	slotsMax int
}

func newEffectiveConfig(w *World) *effectiveConfig {
	return &effectiveConfig{world: w, settings: config.DefaultSettings(), slots: w.options.Slots, slotsMax: w.options.Slots}
}

func (f *effectiveConfig) observe(event any) {
	switch e := event.(type) {
	case changeSent:
		f.unanswered++
		f.invalidate()
	case changeAnswered:
		f.unanswered--
		f.certain = f.certain || e.err == nil && f.unanswered == 0
		if c := f.stored.read(f.world.disk); c != nil && e.err == nil && f.unanswered == 0 {
			f.answered = compileRules(f.stored.filterRules())
		}
	case deciderStarted:
		// A daemon without a cluster has no change in transit from before its start.
		f.known, f.certain, f.answered = false, f.world.oracle == nil || f.unanswered == 0, nil
	case settingsEdited:
		_, err := config.DecodeSettings(e.content)
		f.damaged = err != nil
		f.invalidate()
	case diskFailed:
		if e.node == f.world.decider && (e.path == paths.ConfigPath || e.path == paths.ConfigJournalPath || e.path == paths.SettingsPath) {
			f.invalidate()
		}
	}
}

func (f *effectiveConfig) invalidate() { f.known, f.certain, f.answered = false, false, nil }

// diskChanged records a change of configuration or settings on the disk whose client has stopped waiting: which are in force is not known
// then.
func (f *effectiveConfig) diskChanged(path string) {
	switch path {
	case paths.ConfigPath, paths.ConfigJournalPath:
		if f.world.config != nil && f.world.oracle == nil && (path == paths.ConfigPath || !f.world.journalChangesConfig()) {
			return // a fold, or a change of reservations
		}
		c := f.stored.read(f.world.disk)
		if c == nil {
			break
		}
		f.slotsMax = max(f.slotsMax, f.slotsOf(c))
		if f.seen == c.Hash() && f.stored.own.Changes(f.seenOwn) == nil {
			return // a fold
		}
		f.seen, f.seenOwn = c.Hash(), f.stored.own
	case paths.SettingsPath:
	default:
		return
	}
	if f.unanswered == 0 {
		f.invalidate()
	}
}

func (f *effectiveConfig) slotsOf(c *model.Config) int {
	return int(c.Cluster.Value.MaxRunningJobs) - f.world.mutations.MoreSlots
}

// quiescent is called when every message has arrived and only time can pass.
func (f *effectiveConfig) quiescent() {
	n := f.world.decider
	if n == nil || n.daemon == nil || !n.daemon.ready || n.daemon.mailboxes.suspended > 0 || !n.quiescent() {
		return
	}
	f.quiescentAt = f.world.stepCount
	if f.known || !f.certain || f.unanswered > 0 {
		return
	}
	if c := f.stored.read(f.world.disk); c != nil {
		f.load(c, f.world.disk.Find(paths.SettingsPath))
	}
}

func (f *effectiveConfig) load(c *model.Config, ownFile *simdisk.File) {
	if f.damaged {
		if ownFile == nil || !json.Valid(ownFile.Data) {
			return
		}
		f.damaged = false
	}
	f.generation++
	if c != f.config || f.stored.own != f.own || f.rules == nil {
		raw := f.stored.filterRules()
		f.ruleTexts, f.slots, f.config, f.own, f.seen, f.seenOwn = raw, f.slotsOf(c), c, f.stored.own, c.Hash(), f.stored.own
		f.rules, f.verdicts, f.firstEnd = compileRules(raw), map[*job.Job]verdict{}, firstEnd(raw)
	}
	if ownFile != f.settingsFile && ownFile != nil {
		settings, err := config.DecodeSettings(ownFile.Data)
		if err != nil {
			return
		}
		f.settings, f.settingsFile = settings, ownFile
	}
	f.slotsMax = f.slots
	f.known = true
}

func compileRules(raw map[string]json.RawMessage) *filter.Set {
	var rules []filter.Rule
	for _, uuid := range slices.Sorted(maps.Keys(raw)) {
		if rule, err := filter.Decode(raw[uuid]); err == nil {
			rules = append(rules, rule)
		}
	}
	set, _ := filter.NewSet(rules) // a rule that cannot be decoded applies to no job
	return set
}

// firstEnd is when the first of the rules ends, 0 if none does.
func firstEnd(raw map[string]json.RawMessage) (first int64) {
	for _, text := range raw {
		if rule, err := filter.Decode(text); err == nil && rule.Until != 0 && (first == 0 || rule.Until < first) {
			first = rule.Until
		}
	}
	return first
}

// declare predicts the locks of opcodes in the configuration that was read last.
func (f *effectiveConfig) declare() filter.Declare {
	return filter.DeclareOf(opcode.Builtin(), config.ResourcesOf(f.stored.config))
}

// verdict is the rule that applies to a job: its uuid, its text, its action.
type verdict struct {
	uuid   string
	text   string
	action filter.Action
}

// bars reports whether no opcode of the job may begin.
func (v verdict) bars() bool { return v.action.Verb == filter.Pause || v.action.Verb == filter.Reject }

// verdict returns the verdict of the rules on a job; false if it is unknown now.
func (f *effectiveConfig) verdict(j *job.Job) (verdict, bool) {
	if !f.known || j == nil || f.firstEnd != 0 && f.world.Now().UnixNano() >= f.firstEnd {
		return verdict{}, false
	}
	v, judged := f.verdicts[j]
	if !judged {
		v = f.judge(filter.NewSubject(j, f.world.nameOf(j.ID), f.world.userOf(j.ID)))
		f.verdicts[j] = v
	}
	return v, true
}

func (f *effectiveConfig) judge(s *filter.Subject) verdict {
	is := f.rules.Evaluate(s, f.declare())
	return verdict{uuid: is.UUID, text: string(f.ruleTexts[is.UUID]), action: is.Action}
}

// verdictAt is the verdict on a job that comes to an opcode. known is false while it is not certain which rules are in force.
func (f *effectiveConfig) verdictAt(j *job.Job, op int) (v verdict, known bool) {
	if v, known = f.verdict(j); !known || !f.rules.ReadsLocks() {
		return v, known
	}
	at := filter.NewSubject(j, f.world.nameOf(j.ID), f.world.userOf(j.ID)).At(op)
	if at == nil {
		return verdict{}, false
	}
	return f.judge(at), true
}

// userOf is to whom a job belongs, as its record says.
func (w *World) userOf(id job.ID) access.Submitter {
	r, err := record.Decode(dataOf(w.disk, paths.RecordPath(int64(id))))
	if err != nil {
		return simDaemonUser
	}
	user, _ := access.DecodeSubmitter(r.Submitter(), simDaemonUser)
	return user
}

// nameOf is the name that the submitter has given to a job, as its record on the disk says; "" if the job has no name, or no readable
// record.
func (w *World) nameOf(id job.ID) string {
	r, err := record.Decode(dataOf(w.disk, paths.RecordPath(int64(id))))
	if err != nil {
		return ""
	}
	return r.Name()
}

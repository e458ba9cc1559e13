package sim

import (
	"encoding/json"
	"maps"
	"slices"

	"lockstep/core/config"
	"lockstep/core/filter"
	"lockstep/core/job"
	"lockstep/core/paths"
)

// inForce is what is known of the rules and settings that jobs go by: those on the
// disk, if the last change was acknowledged and everything has come to rest since.
//
// In between nobody can say from outside: a change may be in force before its
// client hears of it, and of one whose answer was lost nobody knows whether it
// comes. A daemon that has just started knows what the disk says. In a cluster the
// disk is what is committed, and the daemon is the master's.
type inForce struct {
	world *World
	asked int  // changes that have no answer yet
	sure  bool // when all is quiet, what the disk says is in force
	known bool // so it is

	generation int // counts what was known
	quietAt    uint64
	configFile *file
	ownFile    *file

	rules    *filter.Set
	raw      map[string]json.RawMessage // by uuid
	judged   map[*job.Job]verdict       // by them; a job that has changed is another one
	settings config.Settings
	slots    int
	// slotsMax is the most that there may be, known or not.
	slotsMax int
}

func newInForce(w *World) *inForce {
	return &inForce{world: w, settings: config.DefaultSettings(), slots: w.options.Slots, slotsMax: w.options.Slots}
}

func (f *inForce) see(event any) {
	switch e := event.(type) {
	case changeSent:
		f.asked++
		f.doubt()
	case changeTold:
		f.asked--
		f.sure = f.sure || e.err == nil && f.asked == 0
	case tookCharge:
		// To a daemon that is alone nothing is on its way from before it started.
		f.known, f.sure = false, f.world.truth == nil || f.asked == 0
	case diskFailed:
		if e.node == f.world.charge && (e.path == paths.ConfigPath || e.path == paths.SettingsPath) {
			f.doubt()
		}
	}
}

func (f *inForce) doubt() { f.known, f.sure = false, false }

// diskChanged: a change that nobody waits for any more has come through.
func (f *inForce) diskChanged(path string, content []byte) {
	switch path {
	case paths.ConfigPath:
		if cluster, err := config.Decode(content); err == nil {
			f.slotsMax = max(f.slotsMax, f.slotsOf(cluster))
		}
	case paths.SettingsPath:
	default:
		return
	}
	if f.asked == 0 {
		f.doubt()
	}
}

func (f *inForce) slotsOf(c config.Cluster) int { return c.MaxRunningJobs - f.world.plants.MoreSlots }

// quiet: nothing can happen at this moment of time; every message has arrived.
func (f *inForce) quiet() {
	n := f.world.charge
	if n == nil || n.daemon == nil || !n.daemon.ready || n.daemon.boxes.suspended > 0 || !n.settled() {
		return
	}
	f.quietAt = f.world.count
	if f.known || !f.sure || f.asked > 0 {
		return
	}
	f.load(f.world.disk.find(paths.ConfigPath), f.world.disk.find(paths.SettingsPath))
}

func (f *inForce) load(configFile, ownFile *file) {
	f.generation++
	if configFile != f.configFile || f.rules == nil {
		cluster, err := config.Decode(configFile.data)
		if err != nil {
			return
		}
		raw, err := config.Filters(configFile.data)
		if err != nil {
			return
		}
		f.raw, f.slots, f.configFile = raw, f.slotsOf(cluster), configFile
		f.rules, f.judged = compile(raw), map[*job.Job]verdict{}
	}
	if ownFile != f.ownFile && ownFile != nil {
		settings, err := config.DecodeSettings(ownFile.data)
		if err != nil {
			return
		}
		f.settings, f.ownFile = settings, ownFile
	}
	f.slotsMax = f.slots
	f.known = true
}

func compile(raw map[string]json.RawMessage) *filter.Set {
	var rules []filter.Rule
	for _, uuid := range slices.Sorted(maps.Keys(raw)) {
		if rule, err := filter.Decode(raw[uuid]); err == nil {
			rules = append(rules, rule)
		}
	}
	set, _ := filter.NewSet(rules) // what is not understood applies to nobody
	return set
}

// verdict is the rule that applies to a job: its uuid, its text, its action.
type verdict struct {
	uuid   string
	text   string
	action filter.Action
}

// verdict is what the rules make of a job; false if that is not known now.
func (f *inForce) verdict(j *job.Job) (verdict, bool) {
	if !f.known || j == nil {
		return verdict{}, false
	}
	v, judged := f.judged[j]
	if !judged {
		is := f.rules.Judge(filter.NewSubject(j))
		v = verdict{uuid: is.UUID, text: string(f.raw[is.UUID]), action: is.Action}
		f.judged[j] = v
	}
	return v, true
}

package lock

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
)

// script is the state of one file of testdata. The verbs, with "lock:mode" for each item:
//
//	new [bypass=30s]                       a state with no owners
//	at 31s                                 the time since the start
//	try owner=12 node/a:exclusive ...      updateLocks
//	wait owner=12 prio=0 node/a:shared ... updateLocksWaiting
//	safe owner=12 prio=0 ...               safeUpdateLocksWaiting
//	release | remove owner=12
//	free | downgrade owner=12 level=node
//	intersect owner=12 node/a ...
//	union owner=12 [least=1] node/a:shared ...
//	limit after=30s                        SetBypassAfter
//	held owner=12 | pending | blockers owner=12 | locks | rows | data | restore [bypass=30s]
type script struct {
	state    *State
	now      time.Time
	settings Settings
}

func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if !strings.HasSuffix(path, ".txt") {
			return
		}
		s := &script{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out := s.run(t, d)
			if s.state != nil {
				inspect(t, s.state)
			}
			return out
		})
	})
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "new":
		s.settings = Settings{Hierarchy: Implied, BypassAfter: scriptDuration(t, d, "bypass")}
		s.state, s.now = New(s.settings), epoch
		return ""
	case "at":
		after, err := time.ParseDuration(d.CmdArgs[0].Key)
		require.NoError(t, err)
		s.now = epoch.Add(after)
		return ""
	case "limit":
		return shown(s.state.SetBypassAfter(s.now, scriptDuration(t, d, "after")), nil)
	case "pending":
		return shownPending(s.state)
	case "locks":
		return strings.Join(names(s.state.Allocation().Locks()), " ")
	case "rows":
		return shownRows(s.state.MonitorRows())
	case "data":
		return string(Encode(s.state.Snapshot()))
	case "restore":
		snap, err := Decode([]byte(d.Input))
		require.NoError(t, err)
		state, restored, err := Restore(s.settings, s.now, snap)
		if err != nil {
			return "error: " + err.Error()
		}
		s.state = state
		return strings.TrimSpace(fmt.Sprintf("granted %s dropped %s", ownerNames(restored.Granted), ownerNames(restored.Dropped)))
	default:
		return s.ask(t, d)
	}
}

func (s *script) ask(t *testing.T, d *datadriven.TestData) string {
	o := scriptOwner(t, d)
	level := func() Level {
		var name string
		d.ScanArgs(t, "level", &name)
		l, err := ParseLevel(name)
		require.NoError(t, err)
		return l
	}
	switch d.Cmd {
	case "try":
		return shown(s.state.TryUpdate(s.now, o, scriptItems(t, d)))
	case "wait":
		return shown(s.state.UpdateWaiting(s.now, scriptPending(t, d)))
	case "safe":
		return shown(s.state.SafeUpdateWaiting(s.now, scriptPending(t, d)))
	case "release":
		return shown(s.state.Release(s.now, o), nil)
	case "remove":
		return shown(s.state.RemovePending(s.now, o), nil)
	case "free":
		return shown(s.state.ReleaseLevel(s.now, o, level()), nil)
	case "downgrade":
		return shown(s.state.DowngradeLevel(s.now, o, level()), nil)
	case "intersect":
		var keep []Lock
		for _, i := range scriptItems(t, d) {
			keep = append(keep, i.Lock)
		}
		return shown(s.state.Intersect(s.now, o, keep), nil)
	case "union":
		least := 0
		if d.HasArg("least") {
			d.ScanArgs(t, "least", &least)
		}
		return "obtained " + strings.Join(names(s.state.GuardedOpportunisticUnion(s.now, o, scriptItems(t, d), least).Locks), " ")
	case "held":
		return shownItems(s.state.Allocation().Held(o))
	case "blockers":
		return ownerNames(s.state.Blockers(o))
	default:
		t.Fatalf("%s: unknown verb %s", d.Pos, d.Cmd)
		return ""
	}
}

var epoch = time.Unix(1_000_000_000, 0)

func scriptDuration(t *testing.T, d *datadriven.TestData, key string) time.Duration {
	if !d.HasArg(key) {
		return 0
	}
	var text string
	d.ScanArgs(t, key, &text)
	duration, err := time.ParseDuration(text)
	require.NoError(t, err)
	return duration
}

// scriptOwner: a number is a job, anything else a name.
func scriptOwner(t *testing.T, d *datadriven.TestData) Owner {
	var who string
	d.ScanArgs(t, "owner", &who)
	return owner(who)
}

func owner(who string) Owner {
	if id, err := strconv.Atoi(who); err == nil {
		return jobOwner(id)
	}
	return NamedOwner(who, "/livelock", 1)
}

func scriptItems(t *testing.T, d *datadriven.TestData) []Item {
	items := []Item{}
	for _, arg := range d.CmdArgs {
		if len(arg.Vals) > 0 {
			continue
		}
		name, word, given := strings.Cut(arg.Key, ":")
		l, err := ParseLock(name)
		require.NoError(t, err, d.Pos)
		mode := None
		if given {
			mode, err = ParseMode(word)
			require.NoError(t, err, d.Pos)
		}
		items = append(items, Item{l, mode})
	}
	return items
}

func scriptPending(t *testing.T, d *datadriven.TestData) Pending {
	p := Pending{Owner: scriptOwner(t, d), Request: scriptItems(t, d)}
	d.ScanArgs(t, "prio", &p.Priority)
	return p
}

// shown is an Update without Changed as text.
func shown(u Update, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	text := "ok"
	if !u.Granted {
		text = "blocked by " + ownerNames(u.Blockers)
	}
	if len(u.Notify) > 0 {
		text += ", notify " + ownerNames(u.Notify)
	}
	return text
}

func ownerName(o Owner) string {
	if o.Named {
		return o.Name
	}
	return o.Job.String()
}

func ownerNames(owners []Owner) string {
	var texts []string
	for _, o := range owners {
		texts = append(texts, ownerName(o))
	}
	return strings.Join(texts, " ")
}

func names(locks []Lock) []string {
	var texts []string
	for _, l := range locks {
		texts = append(texts, l.String())
	}
	return texts
}

func shownItems(items []Item) string {
	var texts []string
	for _, i := range items {
		texts = append(texts, i.Lock.String()+":"+i.Mode.String())
	}
	return strings.Join(texts, " ")
}

func shownPending(s *State) string {
	var lines []string
	for _, p := range s.Pending() {
		lines = append(lines, fmt.Sprintf("%s prio %d %s", ownerName(p.Owner), p.Priority, shownItems(p.Request)))
	}
	return strings.Join(lines, "\n")
}

func shownRows(rows []MonitorRow) string {
	var lines []string
	for _, r := range rows {
		line := r.Lock.String()
		if r.Mode > None {
			line += " " + r.Mode.String() + " " + ownerNames(r.Owners)
		}
		for _, w := range r.Pending {
			line += " | " + w.Mode.String() + " " + ownerName(w.Owner)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

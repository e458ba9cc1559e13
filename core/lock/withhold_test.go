package lock

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// pair is a State that withholds jobs, and one in which their requests are only made when the jobs are allowed. Each job has one owner.
type pair struct {
	withholding, plain *State
	withheld           map[Owner]bool
	requests           map[Owner]Pending // that the second State has not got
	now                time.Time
}

// both makes a call in both States, and requires the same answers.
func (p *pair) both(t *rapid.T, call func(*State) (Update, error)) {
	got, gotErr := call(p.withholding)
	want, wantErr := call(p.plain)
	require.Equal(t, wantErr, gotErr)
	require.Equal(t, want.Granted, got.Granted)
	require.Equal(t, want.Blockers, got.Blockers)
	require.Equal(t, want.Notify, got.Notify)
}

func (p *pair) compare(t *rapid.T) {
	inspect(t, p.withholding)
	want, got := p.plain.Snapshot(), p.withholding.Snapshot()
	for _, r := range p.requests {
		want.Pending = append(want.Pending, r)
		require.True(t, p.withholding.Withheld(r.Owner))
	}
	slices.SortFunc(want.Pending, func(a, b Pending) int { return a.Compare(&b) })
	require.Equal(t, want.Holdings, got.Holdings)
	require.Equal(t, len(want.Pending), len(got.Pending))
	for i := range want.Pending {
		require.Equal(t, want.Pending[i], got.Pending[i])
	}
}

// request asks for locks that wait, of a job that may be withheld.
func (p *pair) request(t *rapid.T, pending Pending) {
	if !p.withheld[pending.Owner] {
		p.both(t, func(s *State) (Update, error) { return s.UpdateWaiting(p.now, pending) })
		return
	}
	u, err := p.withholding.UpdateWaiting(p.now, pending)
	if err == nil && !u.Granted { // granted: it has them
		require.Empty(t, u.Notify)
		p.requests[pending.Owner] = pending
	}
}

// other makes a call of an owner that does not wait for locks.
func (p *pair) other(t *rapid.T, op operation) {
	if _, waits := p.requests[op.owner]; waits && op.verb == "try" {
		_, err := p.withholding.TryUpdate(p.now, op.owner, op.items)
		require.ErrorIs(t, err, ErrPending)
		return
	}
	delete(p.requests, op.owner)
	p.both(t, func(s *State) (Update, error) {
		switch op.verb {
		case "try":
			return s.TryUpdate(p.now, op.owner, op.items)
		case "remove":
			return s.RemovePending(p.now, op.owner), nil
		case "downgrade":
			return s.DowngradeLevel(p.now, op.owner, op.items[0].Lock.level), nil
		case "free":
			return s.ReleaseLevel(p.now, op.owner, op.items[0].Lock.level), nil
		default:
			return s.Release(p.now, op.owner), nil
		}
	})
}

func (p *pair) withhold(t *rapid.T, o Owner) {
	var request *Pending
	if r := p.withholding.Record(o); r.Pending != nil && !p.withheld[o] {
		request = r.Pending
	}
	got := p.withholding.Withhold(p.now, o.Job, []Owner{o})
	var want Update
	if request != nil {
		want = p.plain.RemovePending(p.now, o)
		p.requests[o] = *request
	}
	p.withheld[o] = true
	require.Equal(t, want.Notify, got.Notify)
}

func (p *pair) allow(t *rapid.T, o Owner) {
	got := p.withholding.Allow(p.now, o.Job)
	delete(p.withheld, o)
	request, waits := p.requests[o]
	if !waits {
		require.Empty(t, got.Changed)
		return
	}
	delete(p.requests, o)
	want, err := p.plain.UpdateWaiting(p.now, request)
	require.NoError(t, err, "a request that was valid and whose owner has taken nothing since is valid")
	require.Equal(t, want.Granted, slices.Contains(got.Notify, o))
	others := slices.DeleteFunc(got.Notify, func(n Owner) bool { return n == o })
	require.True(t, slices.Equal(want.Notify, others), "%v and not %v", want.Notify, others)
}

// A withheld request has no effect until its job is allowed: the State is as if the request was made then. Requests that do not
// wait, and releases, are as for any job.
func TestAWithheldRequestIsAsIfItWereNotMade(t *testing.T) {
	onBoth(t, func(t *rapid.T, d domain) {
		p := &pair{withholding: New(Settings{Hierarchy: d.hierarchy, BypassAfter: limit}), plain: New(Settings{Hierarchy: d.hierarchy, BypassAfter: limit}),
			withheld: map[Owner]bool{}, requests: map[Owner]Pending{}, now: epoch}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { p.compare(t) },
			"tick": func(t *rapid.T) {
				p.now = p.now.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "seconds")) * time.Second)
			},
			"wait": func(t *rapid.T) {
				p.request(t, Pending{rapid.IntRange(-1, 1).Draw(t, "priority"), drawOwner(t, 6), drawRequest(t, d, 3)})
			},
			"other": func(t *rapid.T) {
				op := drawOperation(t, d, 6)
				op.verb = rapid.SampledFrom([]string{"try", "remove", "release", "free", "downgrade"}).Draw(t, "other verb")
				p.other(t, op)
			},
			"withhold": func(t *rapid.T) { p.withhold(t, drawOwner(t, 6)) },
			"allow":    func(t *rapid.T) { p.allow(t, drawOwner(t, 6)) },
		})
	})
}

// After a restart no job is granted anything until it is known which are withheld. Then those that are not are granted, in
// order, and the requests of the others stay.
func TestARestartGrantsNothingToWithheldJobs(t *testing.T) {
	node := Item{Member(Node, "a"), Exclusive}
	tool := NamedOwner("tool", "/livelock/tool", 7)
	pending := []Pending{{-1, jobOwner(1), Request{node}}, {0, jobOwner(2), Request{node}}, {0, tool, Request{{Member(Node, "b"), Shared}}}}
	s, restored, err := Restore(Settings{Hierarchy: Implied, BypassAfter: limit, WithholdJobs: true}, epoch, Snapshot{Pending: pending})
	require.NoError(t, err)
	require.Equal(t, []Owner{tool}, restored.Granted)
	inspect(t, s)
	require.False(t, s.Withheld(jobOwner(1)), "nothing names it")
	require.Empty(t, s.Withhold(epoch, 1, []Owner{jobOwner(1)}).Notify)
	inspect(t, s)
	require.True(t, s.Withheld(jobOwner(1)))
	require.Empty(t, s.Blockers(jobOwner(1)))
	require.Equal(t, []Owner{jobOwner(2)}, s.AllowOthers(epoch.Add(time.Hour)).Notify)
	require.Empty(t, s.Withhold(epoch, 1, []Owner{jobOwner(1)}).Notify, "again")
	require.True(t, s.HasPending(jobOwner(1)))
	s.ForbidBypass(jobOwner(1))
	s.SetBypassAfter(epoch.Add(2*time.Hour), time.Second)
	inspect(t, s)
	require.Empty(t, s.Allow(epoch.Add(3*time.Hour), 1).Notify)
	require.Equal(t, []Owner{jobOwner(2)}, s.Blockers(jobOwner(1)))
	require.Equal(t, []Owner{jobOwner(1)}, s.Release(epoch.Add(3*time.Hour), jobOwner(2)).Notify)
	inspect(t, s)
}

// The answer of a withheld request is not that of a granted one, the empty list.
func TestTheAnswerOfAWithheldRequest(t *testing.T) {
	s := New(Settings{Hierarchy: Implied})
	s.Withhold(epoch, 1, nil)
	args := []json.RawMessage{[]byte(jobOwner(1).String()), []byte("0"), []byte(`[["cluster/BGL", "shared"]]`)}
	c, err := ParseCall("updateLocksWaiting", args)
	require.NoError(t, err)
	for range 2 {
		a, err := c.Do(s, epoch)
		require.NoError(t, err)
		require.Equal(t, []Owner{jobOwner(1)}, a.Result)
		require.True(t, s.HasPending(jobOwner(1)))
	}
}

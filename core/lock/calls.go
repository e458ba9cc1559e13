package lock

import "time"

// ListLocks is the call listLocks. Its result is []Item.
func ListLocks(o Owner) Call {
	return Call{Function: "listLocks", do: func(s *State, _ time.Time) (CallResult, error) {
		return CallResult{Result: heldItems(s, o)}, nil
	}}
}

// TryUpdateLocks is the call tryUpdateLocks. Its result is []Owner, the blockers.
func TryUpdateLocks(o Owner, req Request) Call {
	return Call{Function: "tryUpdateLocks", Owner: o, ActsForOwner: true, do: func(s *State, now time.Time) (CallResult, error) {
		return updateResult(s.TryUpdate(now, o, req))
	}}
}

// UnlockConfig is the call unlockConfig.
func UnlockConfig(o Owner) Call {
	return Call{Function: "unlockConfig", Owner: o, ActsForOwner: true, do: func(s *State, now time.Time) (CallResult, error) {
		return releaseResult(s.ReleaseLevel(now, o, Config))
	}}
}
